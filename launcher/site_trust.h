// Which daemons of sites this launch believes: those of --rdzv-fingerprint, else those that
// ~/.config/muster/known_masters remembers, where one that is met for the first time is added.
//
// Thread rule: all on the thread of the loop; what is remembered is written on a thread of its own,
// for the home folder may hang while a job runs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/io/master_client.h"
#include "launcher/known_masters.h"
#include "proto/base/unique_fd.h"

namespace muster {

class SiteTrust {
 public:
  // `pinned`: the fingerprint of --rdzv-fingerprint, `said`: how the user said it; "" = the file
  // counts, which is read here: blocks.
  SiteTrust(std::string pinned, std::string said);
  // Waits for what is being written, at most as long as the lock of the file is waited for.
  ~SiteTrust();
  SiteTrust(const SiteTrust&) = delete;
  SiteTrust& operator=(const SiteTrust&) = delete;

  // For a client that ends before this does.
  SiteKeys keys();

 private:
  void Met(const std::string& endpoint, const std::string& fingerprint);
  std::string WhyRefused(const std::string& endpoint, const std::string& fingerprint) const;

  const std::string pinned_;
  const std::string said_;
  std::string path_;
  absl::Status usable_;           // the file; what is wrong with it
  absl::Status writable_;         // where there is no place for it, why
  KnownMasters known_;            // and those met since it was read
  std::vector<UniqueFd> writes_;  // each ends when one has been written, or could not be
};

// Adds the daemon to the file at `path` (made if not there, its folders, too) unless it is in it.
// What to tell the user, "" = nothing: it was known. Blocks on the file system, and for the file's
// lock, for `lock_within` at most. Errors: FailedPrecondition (another fingerprint is known; not
// private), InvalidArgument (a line), ResourceExhausted, DeadlineExceeded (the lock), Internal.
absl::StatusOr<std::string> RememberMaster(const std::string& path, const std::string& endpoint,
                                           const std::string& fingerprint,
                                           absl::Duration lock_within);

}  // namespace muster
