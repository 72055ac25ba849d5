// How the nodes of `--rdzv-endpoint file:///path` find the one that serves: the file names it, and
// a file whose node is gone is replaced. Before the job runs; blocks, with a deadline.
#pragma once

#include <uv.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "launcher/rendezvous_file.h"

namespace muster {

// What answers where a file says a master is.
enum class Answer : uint8_t {
  kMaster,    // the one of the file: it knows the secret
  kStranger,  // something else
  kRefused,   // nothing listens
  kSilence,   // no answer at all: a host that is down, or a firewall
};

// When a file is that of a dead job. Values only.
//
// A master listens before its file can be seen, but for an instant, so a refused connection is
// nearly always its end; a second look a little later makes it certain. Silence never does: its
// host may be behind a firewall, and two masters would be worse than waiting.
class Suspicion {
 public:
  static constexpr absl::Duration kCertainAfter = absl::Seconds(2);

  bool IsDead(const RendezvousPoint& point, Answer answer, absl::Time now);

 private:
  std::string nonce_;
  absl::Time since_;
};

// The node's way to the job; removes the file at the end if it is this node's.
class FileMeeting {
 public:
  FileMeeting(std::string path, RendezvousPoint point, bool serves);
  ~FileMeeting();
  FileMeeting(FileMeeting&& other) noexcept;
  FileMeeting& operator=(FileMeeting&&) = delete;

  const RendezvousPoint& point() const { return point_; }
  bool serves() const { return serves_; }  // this node was elected: it listens at point().port

 private:
  RendezvousFile file_;
  RendezvousPoint point_;
  bool serves_;
};

// `own` is what this node would publish; its port, nonce and secret are filled in here. Errors
// name the file and the next step.
absl::StatusOr<FileMeeting> MeetAtFile(uv_loop_t* loop, const std::string& path,
                                       RendezvousPoint own, absl::Duration within);

}  // namespace muster
