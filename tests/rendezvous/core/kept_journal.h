// A journal in memory, as the next master would read it.
#pragma once

#include <utility>
#include <vector>

#include "rendezvous/core/journal_record.h"

namespace muster {

// One that begins a round takes the place of all before it.
inline void KeepInJournal(JournalRecord record, std::vector<JournalRecord>& journal) {
  if (record.round.has_value()) {
    journal.clear();
  }
  journal.push_back(std::move(record));
}

}  // namespace muster
