#include "agent/io/dial.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "agent/io/tcp_connector.h"
#include "proto/base/await_fd.h"
#include "proto/base/clock.h"
#include "proto/base/connect_tcp.h"
#include "proto/base/status_macros.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

constexpr absl::Duration kTryWithin = absl::Seconds(3);    // one address
constexpr absl::Duration kTalkWithin = absl::Seconds(10);  // its answers
constexpr std::chrono::milliseconds kBetweenRounds{300};

absl::StatusOr<std::string> ReadLine(int fd, absl::Time deadline) {
  const absl::StatusOr<std::string> line = AwaitLine(fd, kDialLineBytesMax, deadline, "an answer");
  return absl::IsInvalidArgument(line.status())
             ? absl::InvalidArgumentError("what answers there is no launch")
             : line;
}

// `tls`: what became of its handshake; null = there is none.
absl::Status Talk(const DialTicket& ticket, const std::string& node, int socket,
                  const TlsOutcome* tls) {
  const absl::Time deadline = BootNow() + kTalkWithin;
  ASSIGN_OR_RETURN(const std::string nonce, MakeNonce());
  const absl::StatusOr<std::string> greeting = ReadLine(socket, deadline);
  const TlsOutcome::Facts* facts = tls == nullptr ? nullptr : tls->facts();
  RETURN_IF_ERROR(facts == nullptr ? absl::OkStatus() : facts->status);
  RETURN_IF_ERROR(greeting.status());
  ASSIGN_OR_RETURN(const DialCall call, CallLaunch(ticket, node, nonce, *greeting,
                                                   facts == nullptr ? "" : facts->channel));
  if (send(socket, call.line.data(), call.line.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(call.line.size())) {  // the first bytes of a connection: there is room
    return absl::UnavailableError(absl::StrCat("send: ", std::strerror(errno)));
  }
  const absl::StatusOr<std::string> answer = ReadLine(socket, deadline);
  if (absl::IsUnavailable(answer.status())) {
    return absl::PermissionDeniedError(absl::StrCat(
        "launch does not take us: it is of another job, or awaits no agent of '", node, "' now"));
  }
  RETURN_IF_ERROR(answer.status());
  return CheckAnswer(call, *answer);
}

absl::Status Call(const DialTicket& ticket, const std::string& node, const std::string& target,
                  Dialed& out) {
  ASSIGN_OR_RETURN(const auto parts, SplitTarget(target));
  ASSIGN_OR_RETURN(out.socket, ConnectTcp(parts.first, parts.second, BootNow() + kTryWithin));
  if (ticket.secret.empty()) {
    return Talk(ticket, node, out.socket.get(), nullptr);
  }
  if (out.tls == nullptr) {
    out.tls = std::make_unique<TlsThread>();
  }
  TlsExpected expected;
  expected.fingerprint = FingerprintOfSecret(ticket.secret);
  ASSIGN_OR_RETURN(TlsThread::Dialed dialed,
                   out.tls->Connect(std::move(out.socket), std::move(expected), kTalkWithin));
  out.socket = std::move(dialed.inner);
  return Talk(ticket, node, out.socket.get(), dialed.outcome.get());
}

}  // namespace

absl::StatusOr<DialTicket> ReadTicket(int fd, absl::Time deadline) {
  std::string text;
  while (!absl::EndsWith(text, "\nend\n")) {
    RETURN_IF_ERROR(AwaitFd(fd, POLLIN, deadline, "the ticket"));
    char bytes[4096];
    const ssize_t n = read(fd, bytes, sizeof(bytes));
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
      return absl::UnavailableError("stdin ends before the ticket does");
    }
    text.append(bytes, n > 0 ? static_cast<size_t>(n) : 0);
    if (text.size() > kTicketBytesMax) {
      return absl::InvalidArgumentError("what comes on stdin is no ticket");
    }
  }
  return ParseTicket(text);
}

absl::StatusOr<DialTicket> TicketOfWords(const std::vector<std::string>& words,
                                         const char* cookie) {
  ASSIGN_OR_RETURN(OpenTicket open, ParseTicketWords(words));
  absl::string_view key = open.key;
  if (absl::ConsumePrefix(&key, kFileKey)) {
    ASSIGN_OR_RETURN(open.ticket.secret, LoadSecret(std::string(key)));
  } else if (key != kNoKey) {
    if (cookie == nullptr || *cookie == '\0') {
      return absl::FailedPreconditionError(
          "PBS_JOBCOOKIE is not set here, but the job's secret follows from it");
    }
    open.ticket.secret = CookieSecret(cookie, open.key);
  }
  return std::move(open.ticket);
}

absl::StatusOr<Dialed> Dial(const DialTicket& ticket, const std::string& node, absl::Time deadline,
                            const std::function<void(const std::string& why)>& on_unreachable) {
  Dialed out;
  std::string wrong;
  for (size_t i = 0; BootNow() < deadline; ++i) {
    const std::string& target = ticket.targets[i % ticket.targets.size()];
    if (i > 0 && i % ticket.targets.size() == 0) {
      std::this_thread::sleep_for(kBetweenRounds);
    }
    const absl::Status talked = Call(ticket, node, target, out);
    if (talked.ok()) {
      return out;
    }
    wrong = absl::StrCat(target, ": ", talked.message());
    if (absl::IsPermissionDenied(talked)) {
      return absl::PermissionDeniedError(wrong);
    }
    if (i + 1 == 2 * ticket.targets.size()) {
      on_unreachable(wrong);
    }
  }
  return absl::DeadlineExceededError(absl::StrCat("launch cannot be reached: ", wrong));
}

}  // namespace muster
