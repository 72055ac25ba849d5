#include "launcher/meet_at_file.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/io/master_client.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "proto/base/status_macros.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/secret.h"
#include "proto/wire/uv_handles.h"

namespace muster {
namespace {

constexpr absl::Duration kAnswerWithin = absl::Seconds(3);
constexpr absl::Duration kLookEvery = absl::Milliseconds(200);
constexpr absl::Duration kTellAfter = absl::Seconds(10);

std::string Where(const RendezvousPoint& point) {
  const bool v6 = absl::StrContains(point.address, ':');
  return absl::StrCat(point.host, " (", v6 ? "[" : "", point.address, v6 ? "]:" : ":", point.port,
                      ")");
}

// A connected socket, or the errno.
absl::StatusOr<UniqueFd> Connect(const RendezvousPoint& point, int* error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  *error = EHOSTUNREACH;
  if (getaddrinfo(point.address.c_str(), std::to_string(point.port).c_str(), &hints, &found) != 0) {
    return absl::UnavailableError("name");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
  UniqueFd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  *error = 0;
  if (connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0) {
    *error = errno;
  }
  if (*error == EINPROGRESS) {
    pollfd wait = {socket.get(), POLLOUT, 0};
    socklen_t size = sizeof(*error);
    if (poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(kAnswerWithin))) == 1) {
      getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, error, &size);
    } else {
      *error = ETIMEDOUT;
    }
  }
  if (*error != 0) {
    return absl::UnavailableError(std::strerror(*error));
  }
  return socket;
}

// Whether who listens on the other side is the master of `point`: both prove the secret.
Answer AskOn(uv_loop_t* loop, UniqueFd socket, const RendezvousPoint& point) {
  MasterClientOptions options;
  options.socket = std::move(socket);
  options.secret = point.secret;
  options.job_id = point.job_id;
  options.hostname = point.host;
  MasterClient client(loop, std::move(options));
  std::optional<Answer> answer;
  const auto first = [&answer](Answer one) { answer = answer.value_or(one); };
  client.link().Start({[first] { first(Answer::kMaster); },
                       [first](const std::string&) { first(Answer::kStranger); },
                       [first](const MasterMessage&) { first(Answer::kStranger); }, nullptr});
  UvTimer timer(loop, [first] { first(Answer::kSilence); });
  timer.StartAfter(kAnswerWithin);
  UvRunUntil(loop, [&answer] { return answer.has_value(); });
  bool stopped = false;
  client.link().Stop([&stopped] { stopped = true; });
  UvRunUntil(loop, [&stopped] { return stopped; });
  return *answer;
}

Answer Ask(uv_loop_t* loop, const RendezvousPoint& point) {
  int error = 0;
  absl::StatusOr<UniqueFd> socket = Connect(point, &error);
  if (!socket.ok()) {
    return error == ECONNREFUSED ? Answer::kRefused : Answer::kSilence;
  }
  return AskOn(loop, *std::move(socket), point);
}

// Listened on a moment later; who connects between is refused, and asks again.
absl::StatusOr<uint16_t> FreePort() {
  for (const int family : {AF_INET6, AF_INET}) {
    const UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 address{};  // the port lies at the same place in both families' addresses
    address.sin6_family = static_cast<sa_family_t>(family);
    socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (socket.valid() && bind(socket.get(), any, size) == 0 &&
        getsockname(socket.get(), any, &size) == 0) {
      return ntohs(address.sin6_port);
    }
  }
  return absl::UnavailableError(absl::StrCat("no free port: ", std::strerror(errno)));
}

absl::Status CheckSameJob(const RendezvousPoint& there, const RendezvousPoint& own) {
  if (there.job_id != own.job_id) {
    return absl::FailedPreconditionError(
        absl::StrCat(Where(there), " meets there for job '", there.job_id, "', this is job '",
                     own.job_id, "': give this job another path, or the same --rdzv-id"));
  }
  return absl::OkStatus();
}

void Wait(uv_loop_t* loop, absl::Duration wait) {
  bool over = false;
  UvTimer timer(loop, [&over] { over = true; });
  timer.StartAfter(wait);
  UvRunUntil(loop, [&over] { return over; });
}

}  // namespace

bool Suspicion::IsDead(const RendezvousPoint& point, Answer answer, absl::Time now) {
  if (answer == Answer::kMaster || answer == Answer::kSilence) {
    nonce_.clear();
    return false;
  }
  if (nonce_ != point.nonce) {
    nonce_ = point.nonce;
    since_ = now;
  }
  return now - since_ >= kCertainAfter;
}

FileMeeting::FileMeeting(std::string path, RendezvousPoint point, bool serves)
    : file_(std::move(path)), point_(std::move(point)), serves_(serves) {}

FileMeeting::FileMeeting(FileMeeting&& other) noexcept
    : file_(std::move(other.file_)),
      point_(std::move(other.point_)),
      serves_(std::exchange(other.serves_, false)) {}

FileMeeting::~FileMeeting() {
  if (serves_) {
    file_.Remove(point_);
  }
}

absl::StatusOr<FileMeeting> MeetAtFile(uv_loop_t* loop, const std::string& path,
                                       RendezvousPoint own, absl::Duration within) {
  const RendezvousFile file(path);
  ASSIGN_OR_RETURN(own.port, FreePort());
  ASSIGN_OR_RETURN(own.secret, MakeSecret());
  ASSIGN_OR_RETURN(const std::string nonce, MakeNonce());
  own.nonce = absl::BytesToHexString(nonce);
  const absl::Time began = BootNow();
  SplitMix64 jitter(static_cast<uint64_t>(absl::ToUnixNanos(began)));
  Suspicion suspicion;
  bool told = false;
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<RendezvousPoint> there, file.Read());
    if (!there.has_value()) {
      ASSIGN_OR_RETURN(const bool elected, file.Publish(own));
      if (elected) {
        return FileMeeting(path, std::move(own), true);
      }
      continue;
    }
    const Answer answer = Ask(loop, *there);
    if (answer == Answer::kMaster) {
      RETURN_IF_ERROR(CheckSameJob(*there, own));
      return FileMeeting(path, *there, false);
    }
    if (answer == Answer::kStranger && there->build != own.build) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, " is of muster ", there->build, " on ", Where(*there), ", this is ", own.build,
          ": install the same build, or remove the file if no job of yours "
          "runs there"));
    }
    const absl::Time now = BootNow();
    if (suspicion.IsDead(*there, answer, now)) {
      ASSIGN_OR_RETURN(const bool elected, file.Replace(*there, own));
      if (elected) {
        LogInfo(absl::StrCat(path, " was left by a job that is gone, on ", Where(*there),
                             ": this node takes its place"));
        return FileMeeting(path, std::move(own), true);
      }
    } else if (now - began >= within) {
      return absl::DeadlineExceededError(absl::StrCat(path, " names ", Where(*there),
                                                      ", where no master answered for ",
                                                      absl::FormatDuration(within),
                                                      ": if no job of yours runs there, remove the "
                                                      "file (and ",
                                                      path, ".replaces-*)"));
    } else if (!told && now - began >= kTellAfter) {
      told = true;
      LogInfo(absl::StrCat(path, " names ", Where(*there),
                           ", where nothing answers: is that host "
                           "down, or behind a firewall? It is asked again and again; if no job of "
                           "yours runs there, remove the file"));
    }
    Wait(loop, kLookEvery * (0.5 + jitter.Unit()));
  }
}

}  // namespace muster
