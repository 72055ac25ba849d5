// A journal's files in a folder.
//
// Invariants:
//  F1 a file has its name only when it is whole: a new one displaces the old one by rename;
//  F2 one process has the folder (flock), and each that has it gets a higher epoch, on the disk
//     before Open returns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/unique_fd.h"
#include "rendezvous/service/journal_store.h"

namespace muster {

class FolderStore final : public JournalStore {
 public:
  // Makes the folder if it is not there. `epoch`: at least this. Errors name the folder or the
  // file: AlreadyExists (another process has it), DataLoss, and those of the file system.
  static absl::StatusOr<std::shared_ptr<JournalStore>> Open(const std::string& folder,
                                                            uint32_t epoch);

  uint32_t epoch() const override { return epoch_; }
  std::string who() const override;
  absl::StatusOr<std::vector<StoredFile>> ReadAll() override;
  bool Do(std::vector<JournalTask>& tasks) override;

 private:
  explicit FolderStore(std::string folder);
  absl::Status Lock(uint32_t epoch);
  absl::Status AppendAll(uint64_t file, const std::vector<absl::string_view>& pieces) const;
  absl::Status ReadOne(const std::string& name, std::vector<StoredFile>& files) const;

  const std::string folder_;
  UniqueFd lock_;
  uint32_t epoch_ = 0;
};

}  // namespace muster
