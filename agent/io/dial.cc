#include "agent/io/dial.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "agent/io/tcp_connector.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"
#include "proto/wire/secret.h"
#include "proto/wire/uv_handles.h"

namespace muster {
namespace {

constexpr absl::Duration kTryWithin = absl::Seconds(3);    // one address
constexpr absl::Duration kTalkWithin = absl::Seconds(10);  // its answers
constexpr std::chrono::milliseconds kBetweenRounds{300};

absl::Status AwaitBytes(int fd, absl::Time deadline) {
  for (;;) {
    const int64_t left = absl::ToInt64Milliseconds(deadline - BootNow());
    pollfd one = {fd, POLLIN, 0};
    const int ready = poll(&one, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30)));
    if (ready > 0) {
      return absl::OkStatus();
    }
    if (ready == 0 && left <= 0) {
      return absl::DeadlineExceededError("nothing came in time");
    }
  }
}

// Up to the newline, which is read, too, and not one byte more.
absl::StatusOr<std::string> ReadLine(int fd, absl::Time deadline) {
  std::string line;
  while (line.size() <= kDialLineBytesMax) {
    RETURN_IF_ERROR(AwaitBytes(fd, deadline));
    char one = 0;
    const ssize_t n = read(fd, &one, 1);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
      return absl::UnavailableError("the connection was closed");
    }
    if (n == 1 && one == '\n') {
      return line;
    }
    line.append(n == 1 ? 1 : 0, one);
  }
  return absl::InvalidArgumentError("what answers there is no launch");
}

absl::StatusOr<UniqueFd> Connect(const std::string& target) {
  uv_loop_t loop;
  uv_loop_init(&loop);
  std::optional<absl::StatusOr<UniqueFd>> connected;
  {
    TcpConnector connector(&loop, target, kTryWithin, [&connected](absl::StatusOr<UniqueFd> fd) {
      connected = std::move(fd);
    });
    UvRunUntil(&loop, [&connected] { return connected.has_value(); });
  }
  uv_run(&loop, UV_RUN_DEFAULT);  // what is being closed
  uv_loop_close(&loop);
  return *std::move(connected);
}

absl::Status Talk(const DialTicket& ticket, const std::string& node, int socket) {
  const absl::Time deadline = BootNow() + kTalkWithin;
  ASSIGN_OR_RETURN(const std::string nonce, MakeNonce());
  ASSIGN_OR_RETURN(const std::string greeting, ReadLine(socket, deadline));
  ASSIGN_OR_RETURN(const DialCall call, CallLaunch(ticket, node, nonce, greeting));
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

}  // namespace

absl::StatusOr<DialTicket> ReadTicket(int fd, absl::Time deadline) {
  std::string text;
  while (!absl::EndsWith(text, "\nend\n")) {
    RETURN_IF_ERROR(AwaitBytes(fd, deadline));
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

absl::StatusOr<UniqueFd> Dial(const DialTicket& ticket, const std::string& node,
                              absl::Time deadline) {
  std::string wrong;
  for (size_t i = 0; BootNow() < deadline; ++i) {
    const std::string& target = ticket.targets[i % ticket.targets.size()];
    if (i > 0 && i % ticket.targets.size() == 0) {
      std::this_thread::sleep_for(kBetweenRounds);
    }
    absl::StatusOr<UniqueFd> socket = Connect(target);
    const absl::Status talked = socket.ok() ? Talk(ticket, node, socket->get()) : socket.status();
    if (talked.ok()) {
      return socket;
    }
    wrong = absl::StrCat(target, ": ", talked.message());
    if (absl::IsPermissionDenied(talked)) {
      return absl::PermissionDeniedError(wrong);
    }
  }
  return absl::DeadlineExceededError(absl::StrCat("launch cannot be reached: ", wrong));
}

}  // namespace muster
