// A journal's store that answers as a test says.
#pragma once

#include <future>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/mutex.h"
#include "rendezvous/service/journal_store.h"

namespace muster {

// Says of each batch what it was; answers as it is told to.
class FakeStore final : public JournalStore {
 public:
  uint32_t epoch() const override { return 7; }
  std::string who() const override { return "the fake"; }
  absl::StatusOr<std::vector<StoredFile>> ReadAll() override { return stored; }
  bool Do(std::vector<JournalTask>& tasks) override {
    if (tasks.empty()) {
      return true;
    }
    if (gate.valid()) {
      gate.wait();
    }
    std::string batch;
    for (JournalTask& task : tasks) {
      absl::StrAppend(&batch, task.file, task.bytes, " ");
      task.status = answer;
    }
    const MutexLock lock(mutex);
    batches.push_back(batch);
    return !superseded;
  }

  std::vector<StoredFile> stored;
  std::shared_future<void> gate;  // each batch waits for it
  absl::Status answer;
  bool superseded = false;
  Mutex mutex;
  std::vector<std::string> batches MUSTER_GUARDED_BY(mutex);
};

}  // namespace muster
