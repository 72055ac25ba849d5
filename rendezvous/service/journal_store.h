// Where a master's journal is kept: a folder (folder_store.h), or etcd (rendezvous/etcd).
//
// Thread rule: all of it blocks, and any one thread at a time calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

struct JournalTask {
  enum class What : uint8_t { kAppend, kReplace, kRemove };
  What what = What::kAppend;
  uint64_t file = 0;
  std::string bytes;
  absl::Status status;  // what became of it
};

// Of one job: what a node says at most, times what a master has patience for. A longer one is not
// read, so none is written.
inline constexpr size_t kJournalFileBytesMax = size_t{1} << 30;

struct StoredFile {
  uint64_t file = 0;
  std::string path;  // by which people find it
  std::string bytes;
};

class JournalStore {
 public:
  virtual ~JournalStore() = default;

  // Higher than that of every master that had this store before.
  virtual uint32_t epoch() const = 0;
  // "FOLDER: the disk": what did not take a record, as a sentence begins.
  virtual std::string who() const = 0;
  // Once, before Do.
  virtual absl::StatusOr<std::vector<StoredFile>> ReadAll() = 0;
  // In this order; of an append that fails, a beginning may be left. Durable when it returns. A
  // file that was not written to is to be removed. False: another master has the store now, and
  // nothing more gets into it.
  [[nodiscard]] virtual bool Do(std::vector<JournalTask>& tasks) = 0;
};

}  // namespace muster
