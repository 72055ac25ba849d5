#include "launcher/meet_at_file.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "agent/io/master_client.h"
#include "agent/io/tcp_connector.h"
#include "launcher/job_spec.h"
#include "launcher/schedule/hostlist.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/wire/secret.h"
#include "proto/wire/uv_handles.h"

namespace muster {
namespace {

constexpr absl::Duration kAnswerWithin = absl::Seconds(3);
constexpr absl::Duration kLookEvery = absl::Milliseconds(200);

// Disks and memory of a machine, unless it exports them.
constexpr std::pair<uint64_t, const char*> kOfOneMachine[] = {
    {TMPFS_MAGIC, "tmpfs"},     {RAMFS_MAGIC, "ramfs"},
    {EXT4_SUPER_MAGIC, "ext4"}, {OVERLAYFS_SUPER_MAGIC, "overlay"},
    {XFS_SUPER_MAGIC, "xfs"},   {BTRFS_SUPER_MAGIC, "btrfs"}};

std::string Where(const RendezvousPoint& point) {
  return absl::StrCat(point.host, " (", HostPort(point.address, point.port), ")");
}

// Whether who listens on the other side is the master of `point`: both prove the secret.
Answer AskOn(uv_loop_t* loop, UniqueFd socket, const RendezvousPoint& point) {
  MasterClientOptions options;
  options.socket = std::move(socket);
  options.is_tcp = true;
  options.secret = point.secret;
  options.job_id = point.job_id;
  options.hostname = point.host;
  MasterClient client(loop, std::move(options));
  std::optional<Answer> answer;
  const auto first = [&answer](Answer one) { answer = answer.value_or(one); };
  client.link().Start({[first] { first(Answer::kMaster); },
                       [first](const std::string&, bool) { first(Answer::kStranger); },
                       [first](const MasterMessage&) { first(Answer::kStranger); },
                       [first](const FencePiece&) { first(Answer::kStranger); },
                       [first](const ModexNote&) { first(Answer::kStranger); }, nullptr});
  UvTimer timer(loop, [first] { first(Answer::kSilence); });
  timer.StartAfter(kAnswerWithin);
  UvRunUntil(loop, [&answer] { return answer.has_value(); });
  bool stopped = false;
  client.link().Stop([&stopped] { stopped = true; });
  UvRunUntil(loop, [&stopped] { return stopped; });
  return *answer;
}

Answer Ask(uv_loop_t* loop, const RendezvousPoint& point) {
  std::optional<absl::StatusOr<UniqueFd>> socket;
  const TcpConnector connector(
      loop, HostPort(point.address, point.port), kAnswerWithin,
      [&socket](absl::StatusOr<UniqueFd> result) { socket.emplace(std::move(result)); });
  UvRunUntil(loop, [&socket] { return socket.has_value(); });
  if (!socket->ok()) {
    const bool refused = absl::IsFailedPrecondition(socket->status());
    return refused ? Answer::kRefused : Answer::kSilence;
  }
  return AskOn(loop, **std::move(socket), point);
}

void Wait(uv_loop_t* loop, absl::Duration wait) {
  bool over = false;
  UvTimer timer(loop, [&over] { over = true; });
  timer.StartAfter(wait);
  UvRunUntil(loop, [&over] { return over; });
}

}  // namespace

Meeting::Meeting(std::string path, const RendezvousPoint& own, absl::Time now,
                 absl::Duration within)
    : path_(std::move(path)),
      job_id_(own.job_id),
      build_(own.build),
      began_(now),
      within_(within) {}

absl::StatusOr<Move> Meeting::Next(const std::optional<RendezvousPoint>& there, Answer answer,
                                   absl::Time now) {
  if (there.has_value() && answer == Answer::kMaster) {
    if (there->job_id != job_id_) {
      return absl::FailedPreconditionError(
          absl::StrCat(Where(*there), " meets there for job '", there->job_id, "', this is job '",
                       job_id_, "': give this job another path, or the same --rdzv-id"));
    }
    return Move::kJoin;
  }
  if (there.has_value() && answer == Answer::kStranger && there->build != build_) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, " is of muster ", there->build, " on ", Where(*there), ", this is ", build_,
        ": install the same build, or remove the file if no job of yours runs there"));
  }
  if (now - began_ >= within_) {
    const std::string late = absl::StrCat("within ", absl::FormatDuration(within_));
    return absl::DeadlineExceededError(
        there.has_value()
            ? absl::StrCat(path_, " names ", Where(*there), ", where no master answered ", late,
                           ": if no job of yours runs there, remove the file (and ", path_,
                           ".replaces-*)")
            : absl::StrCat(path_, " could neither be read nor made ", late,
                           ": is it a link to nowhere? Give another path"));
  }
  if (!there.has_value()) {
    return Move::kPublish;
  }
  return IsDead(*there, answer, now) ? Move::kReplace : Move::kWait;
}

bool Meeting::IsDead(const RendezvousPoint& point, Answer answer, absl::Time now) {
  if (answer == Answer::kSilence) {
    suspect_.clear();
    return false;
  }
  if (suspect_ != point.nonce) {
    suspect_ = point.nonce;
    since_ = now;
  }
  return now - since_ >= kCertainAfter;
}

std::string Meeting::TakeNote(const RendezvousPoint& there, absl::Time now) {
  if (now - began_ < kTellAfter || std::exchange(told_, true)) {
    return "";
  }
  return absl::StrCat(path_, " names ", Where(there),
                      ", where no master answers: is that host down, behind a firewall, or slow to "
                      "start? It is asked again and again; if no job of yours runs there, remove "
                      "the file");
}

FileMeeting::FileMeeting(const std::string& path, RendezvousPoint point,
                         std::optional<BoundPort> reserved, UniqueFd lobby)
    : file_(path),
      point_(std::move(point)),
      reserved_(std::move(reserved)),
      lobby_(std::move(lobby)) {}

FileMeeting::~FileMeeting() {
  if (serves()) {
    file_.Remove(point_);
  }
}

absl::StatusOr<std::unique_ptr<FileMeeting>> MeetAtFile(uv_loop_t* loop, const std::string& path,
                                                        RendezvousPoint own, PortRange ports,
                                                        absl::Duration within) {
  const RendezvousFile file(path);
  ASSIGN_OR_RETURN(BoundPort reserved, ReservePort("", 0, ports));
  own.port = reserved.port;
  ASSIGN_OR_RETURN(own.secret, MakeSecret());
  ASSIGN_OR_RETURN(const std::string nonce, MakeNonce());
  own.nonce = absl::BytesToHexString(nonce);
  Meeting meeting(path, own, BootNow(), within);
  SplitMix64 jitter(static_cast<uint64_t>(absl::ToUnixNanos(BootNow())));
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<RendezvousPoint> there, file.Read());
    const Answer answer = there.has_value() ? Ask(loop, *there) : Answer::kSilence;
    ASSIGN_OR_RETURN(const Move move, meeting.Next(there, answer, BootNow()));
    if (move == Move::kJoin) {
      return std::make_unique<FileMeeting>(path, *there, std::nullopt, UniqueFd());
    }
    bool elected = false;
    UniqueFd lobby;
    if (move != Move::kWait) {
      // Not before, and not for longer where another is elected: a dead job's file may name the
      // very port that we have reserved, and must go on to look dead.
      ASSIGN_OR_RETURN(lobby, ListenBeside(reserved));
    }
    if (move == Move::kPublish) {
      ASSIGN_OR_RETURN(elected, file.Publish(own));
    } else if (move == Move::kReplace) {
      ASSIGN_OR_RETURN(elected, file.Replace(*there, own));
    }
    if (elected && move == Move::kReplace) {
      LogInfo(absl::StrCat(path, " was left by a job that is gone, on ", Where(*there),
                           ": this node takes its place"));
    }
    if (elected) {
      return std::make_unique<FileMeeting>(path, std::move(own), std::move(reserved),
                                           std::move(lobby));
    }
    lobby.Reset();
    if (const std::string note = there.has_value() ? meeting.TakeNote(*there, BootNow()) : "";
        !note.empty()) {
      LogInfo(note);
    }
    Wait(loop, kLookEvery * (0.5 + jitter.Unit()));
  }
}

std::string WhoSeesTheFile(const std::string& path) {
  struct statfs file_system {};
  if (statfs(path.c_str(), &file_system) != 0) {
    return "";
  }
  const auto* found = std::find_if(
      std::begin(kOfOneMachine), std::end(kOfOneMachine),
      [&](const auto& one) { return one.first == static_cast<uint64_t>(file_system.f_type); });
  return found == std::end(kOfOneMachine)
             ? ""
             : absl::StrCat(path, " is on a file system of this machine (", found->second,
                            "): do the other nodes see it? They meet only at a file that all of "
                            "them share, or at --rdzv-endpoint HOST:PORT");
}

}  // namespace muster
