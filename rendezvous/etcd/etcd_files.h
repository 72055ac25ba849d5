// How the files of a journal lie in etcd, and the changes that bring a batch about. Pure.
//
//   ROOTjobs/FILE/head              the generation that counts
//   ROOTjobs/FILE/GENERATION/PART   its bytes, in order
//
// Invariants:
//  S1 a file is what it was until the change that gives it a new head: one that takes several
//     changes is never half there;
//  S2 no change is more than etcd takes by its defaults (--max-request-bytes 1.5 MiB,
//     --max-txn-ops 128), and none names a key twice.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rendezvous/etcd/etcd_client.h"
#include "rendezvous/service/journal_store.h"

namespace muster {

inline constexpr size_t kEtcdChangeBytesMax = size_t{1} << 20;
inline constexpr size_t kEtcdChangeKeysMax = 100;

class EtcdFiles {
 public:
  // `root` ends with '/'.
  explicit EtcdFiles(const std::string& root);

  // All keys of the files begin so.
  const std::string& prefix() const { return prefix_; }

  struct Listing {
    std::vector<StoredFile> files;
    std::vector<EtcdChange> garbage;  // removes what belongs to none of them
  };
  // `entries`: all that begin with prefix(), ascending. DataLoss: names the key that is none of
  // ours.
  absl::StatusOr<Listing> Take(const std::vector<EtcdEntry>& entries);

  struct Plan {
    std::vector<EtcdChange> changes;  // one after the other
    std::vector<size_t> ends;         // of each task: the last change that it needs
  };
  Plan PlanFor(const std::vector<JournalTask>& tasks);

 private:
  struct File {
    uint64_t generation = 0;
    uint64_t parts = 0;  // of that generation
  };
  std::string FilePrefix(uint64_t file) const;
  std::string GenerationPrefix(uint64_t file, uint64_t generation) const;
  void BeginChange(Plan& plan);
  void MakeRoom(Plan& plan, size_t keys, size_t bytes);
  void Append(uint64_t file, absl::string_view bytes, Plan& plan);
  void Replace(uint64_t file, absl::string_view bytes, Plan& plan);
  void Remove(uint64_t file, Plan& plan);

  const std::string prefix_;
  std::map<uint64_t, File> files_;
  // Of the change that is being made.
  size_t keys_ = 0;
  size_t bytes_ = 0;
  std::set<uint64_t> touched_;
};

}  // namespace muster
