// A job's journal as bytes: a header, then the records of its newest round.
//
// Each of them is framed (journal_frames.h), those that were written together by one frame. A last
// frame of which a crash has left a part was never confirmed to anybody: it does not count.
// Anything else that is damaged is an error.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/wire/job_terms.h"
#include "rendezvous/core/journal_record.h"
#include "rendezvous/service/journal_frames.h"

namespace muster {

struct JournalHeader {
  std::string key;     // KnownUser::KeyOf(job_id)
  std::string job_id;  // as its nodes say it
  std::string clock;   // of the boot that the records' times count from
  JobTerms terms;
};

struct JournalFile {
  JournalHeader header;
  std::vector<JournalRecord> records;
  size_t good_bytes = 0;  // what follows them was never confirmed
};

// InvalidArgument: longer than kJournalRecordBytesMax.
absl::StatusOr<std::string> EncodeHeader(const JournalHeader& header);
absl::StatusOr<std::string> EncodeRecord(const JournalRecord& record);

// Errors, with the offset: DataLoss (damaged), FailedPrecondition (of another build, by both
// names).
absl::StatusOr<JournalFile> DecodeJournal(absl::string_view bytes);

}  // namespace muster
