// `--rdzv-endpoint file:///shared/job1`: the nodes of a job find each other through a file that all
// see. No locks, so that it holds on NFS, too: link(2) elects the node that serves, and only who
// holds the right to replace one certain file (again a link) may do so. Blocks on the file system.
//
// Invariants (cited by tests):
//  F1 the file is whole whenever it can be seen;
//  F2 of all that publish where no file is, one wins;
//  F3 of all that replace the same file, one wins, and a newer file than that is never replaced;
//  F4 who removes his file leaves that of one who replaced it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kRendezvousFileBytesMax = 4096;

// What the file says: a JSON object with these names and "format": "muster-rendezvous-1".
struct RendezvousPoint {
  std::string job_id;
  std::string build;    // of the node that serves
  std::string host;     // its name, for people
  std::string address;  // where it listens
  uint16_t port = 0;
  std::string nonce;   // tells this file from every other
  std::string secret;  // of the job; "" = --insecure
  bool operator==(const RendezvousPoint&) const = default;
};

std::string RendezvousText(const RendezvousPoint& point);
// InvalidArgument: not such a text; says what is wrong with it.
absl::StatusOr<RendezvousPoint> ParseRendezvousText(absl::string_view text);

class RendezvousFile {
 public:
  explicit RendezvousFile(std::string path) : path_(std::move(path)) {}

  // None: there is no file. Errors name the file and the next step: another's, open to others, not
  // of muster, a folder that is missing.
  absl::StatusOr<std::optional<RendezvousPoint>> Read() const;
  // Whether `own` is now the file's content; no: there is one already.
  absl::StatusOr<bool> Publish(const RendezvousPoint& own) const;
  // The same in place of `dead`; no: another has done it, or is about to.
  absl::StatusOr<bool> Replace(const RendezvousPoint& dead, const RendezvousPoint& own) const;
  // Removes `own`, if it is still there.
  void Remove(const RendezvousPoint& own) const;

 private:
  // The name that whoever replaces or removes `point` holds meanwhile.
  std::string RightTo(const RendezvousPoint& point) const;

  std::string path_;
};

}  // namespace muster
