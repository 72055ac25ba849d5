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
#include "proto/base/unique_fd.h"

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
// Its port listens before a file can be seen (FileMeeting), but for the instant in which the master
// takes it over, so a refused connection is nearly always its end; a second look a little later
// makes it certain. Silence never does: its host may be behind a firewall, or slow to start, and
// two masters would be worse than waiting.
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
//
// An elected node has much to do before its master listens, on shared disks, too. Until then there
// is a lobby: a socket at the same port that listens, and takes nobody. Who comes waits in its
// queue, or is told nothing: that is silence, where a refusal would be taken for the end.
class FileMeeting {
 public:
  // `reserved`: the port of `point` where this node serves; `lobby`: listens there.
  FileMeeting(const std::string& path, RendezvousPoint point, std::optional<BoundPort> reserved,
              UniqueFd lobby);
  ~FileMeeting();
  FileMeeting(const FileMeeting&) = delete;
  FileMeeting& operator=(const FileMeeting&) = delete;

  const RendezvousPoint& point() const { return point_; }
  bool serves() const { return reserved_.has_value(); }  // elected: it listens at point().port
  // The master is about to listen there: of two sockets only one may. Who waits is sent away, and
  // asks again at once.
  void CloseLobby() { lobby_.Reset(); }

 private:
  const RendezvousFile file_;
  const RendezvousPoint point_;
  const std::optional<BoundPort> reserved_;
  UniqueFd lobby_;
};

// `own` is what this node would publish; its port (of `ports`), nonce and secret are filled in
// here. Errors name the file and the next step.
absl::StatusOr<std::unique_ptr<FileMeeting>> MeetAtFile(uv_loop_t* loop, const std::string& path,
                                                        RendezvousPoint own, PortRange ports,
                                                        absl::Duration within);

// A question for the user whose other nodes do not come, where the file is on a file system that
// only this machine has, as far as can be seen; else "".
std::string WhoSeesTheFile(const std::string& path);

}  // namespace muster
