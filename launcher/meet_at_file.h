// How the nodes of `--rdzv-endpoint file:///path` find the one that serves: the file names it, and
// a file whose node is gone is replaced. Before the job runs; blocks, with a deadline.
#pragma once

#include <uv.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/io/torch_store_port.h"
#include "launcher/rendezvous_file.h"

namespace muster {

// What answers where a file says a master is.
enum class Answer : uint8_t {
  kMaster,    // the one of the file: it knows the secret
  kStranger,  // something else
  kRefused,   // nothing listens
  kSilence,   // no answer at all: a host that is down, or a firewall
};

enum class Move : uint8_t {
  kPublish,  // there is no file: this node may serve
  kReplace,  // the file is that of a dead job: likewise
  kJoin,     // the node of the file
  kWait,     // and look again
};

// The decisions of one node. Values only.
//
// A master listens before its file can be seen, but for an instant, so a refused connection is
// nearly always its end; a second look a little later makes it certain. Silence never does: its
// host may be behind a firewall, and two masters would be worse than waiting.
class Meeting {
 public:
  static constexpr absl::Duration kCertainAfter = absl::Seconds(2);
  static constexpr absl::Duration kTellAfter = absl::Seconds(10);

  // `own`: the job and the build of this node.
  Meeting(std::string path, const RendezvousPoint& own, absl::Time now, absl::Duration within);

  // `there`: what the file says, if there is one; `answer`: from where it points. Errors name the
  // file and the next step: another job, another build, too late.
  absl::StatusOr<Move> Next(const std::optional<RendezvousPoint>& there, Answer answer,
                            absl::Time now);
  // What there is to say about the wait; "" = nothing new.
  std::string TakeNote(const RendezvousPoint& there, absl::Time now);

 private:
  bool IsDead(const RendezvousPoint& point, Answer answer, absl::Time now);

  const std::string path_;
  const std::string job_id_;
  const std::string build_;
  const absl::Time began_;
  const absl::Duration within_;
  std::string suspect_;  // nonce of a file that looks dead, since:
  absl::Time since_;
  bool told_ = false;
};

// The node's way to the job; removes the file at the end if it is this node's.
class FileMeeting {
 public:
  // `reserved`: the port of `point` where this node serves.
  FileMeeting(const std::string& path, RendezvousPoint point, std::optional<BoundPort> reserved);
  ~FileMeeting();
  FileMeeting(const FileMeeting&) = delete;
  FileMeeting& operator=(const FileMeeting&) = delete;

  const RendezvousPoint& point() const { return point_; }
  bool serves() const { return reserved_.has_value(); }  // elected: it listens at point().port

 private:
  const RendezvousFile file_;
  const RendezvousPoint point_;
  const std::optional<BoundPort> reserved_;
};

// `own` is what this node would publish; its port (of `ports`), nonce and secret are filled in
// here. Errors name the file and the next step.
absl::StatusOr<std::unique_ptr<FileMeeting>> MeetAtFile(uv_loop_t* loop, const std::string& path,
                                                        RendezvousPoint own, PortRange ports,
                                                        absl::Duration within);

}  // namespace muster
