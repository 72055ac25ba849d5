// The folder of one job's shipped files on a node: the workers run in it. Blocks on the file
// system.
//
// Invariants (cited by tests):
//  F1 nothing is written outside the folder, whatever the archive says;
//  F2 when the folder goes, so does what was shipped, as long as nobody changed it; what workers
//     wrote stays, and the folders that it is in.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/unique_fd.h"
#include "proto/base/work_plan.h"
#include "proto/ship/archive.h"

namespace muster {

// Where folders and archives of jobs go: TMPDIR that the user named for the workers (-x), the
// agent's own, or /tmp.
std::string ShipRoot(const WorkPlan& plan);

// A file without a name, in `root`, for the archive.
absl::StatusOr<UniqueFd> MakeArchiveFile(const std::string& root);

class ShippedFolder {
 public:
  // Unpacks the archive into a new folder below `root`, for this user's eyes only. `working` is
  // called between the entries. After an error nothing is left.
  static absl::StatusOr<ShippedFolder> Unpack(int archive, const std::string& root,
                                              const std::function<void()>& working);
  ShippedFolder(ShippedFolder&&) = default;
  ShippedFolder& operator=(ShippedFolder&&) = default;

  const std::string& path() const { return path_; }
  // F2. Again does no harm, and goes on where this one had no time. Whether all that may go is
  // gone, and something stays.
  bool Remove(absl::Time until = absl::InfiniteFuture()) const;

 private:
  explicit ShippedFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::vector<ShipEntry> entries_;
};

}  // namespace muster
