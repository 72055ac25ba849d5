#include "worker_sdk/bootstrap/agent_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "proto/base/fd_message.h"

namespace muster {
namespace {

Status NoAgent(const std::string& what) {
  return {StatusCode::kUnavailable,
          "cannot reach the agent that started this worker: " + what +
              ". The descriptor in MUSTER_AGENT_FD must stay open until the communicator is made."};
}

// poll() that no signal cuts short.
int PollUntil(int fd, int16_t events, std::chrono::steady_clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    pollfd one = {fd, events, 0};
    const int ready = poll(&one, 1, static_cast<int>(left.count() > 0 ? left.count() : 0));
    if (ready >= 0 || errno != EINTR) {
      return ready;
    }
  }
}

}  // namespace

StatusOr<AgentLink> AgentLink::Open(const WorkerIdentity& me, std::chrono::milliseconds within) {
  const auto until = std::chrono::steady_clock::now() + within;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return Status(StatusCode::kInternal, std::string("socketpair: ") + std::strerror(errno));
  }
  AgentLink link;
  link.socket_.Reset(ends[0]);
  {
    const UniqueFd theirs(ends[1]);
    LinkHello hello;
    hello.round = me.round;
    hello.rank = me.rank;
    iovec part = {&hello, sizeof(hello)};
    // Other workers knock at the same door: it may be full for a moment.
    while (SendWithFd(me.agent_fd, &part, 1, theirs.get(), MSG_DONTWAIT) < 0) {
      if (errno != EAGAIN) {
        return NoAgent(std::strerror(errno));
      }
      if (PollUntil(me.agent_fd, POLLOUT, until) == 0) {
        return Status(StatusCode::kDeadlineExceeded, "the agent of this node takes no message");
      }
    }
  }
  if (PollUntil(link.socket_.get(), POLLIN, until) == 0) {
    return Status(StatusCode::kDeadlineExceeded, "the agent of this node does not answer");
  }
  if (Status status = link.TakeWelcome(me); !status.ok()) {
    return status;
  }
  return link;
}

Status AgentLink::TakeWelcome(const WorkerIdentity& me) {
  ranks_.resize(me.local_size);
  iovec parts[2] = {{&welcome_, sizeof(welcome_)},
                    {ranks_.data(), ranks_.size() * sizeof(uint32_t)}};
  const ssize_t got = ReceiveWithFd(socket_.get(), parts, 2, arena_, 0);
  if (got <= 0) {
    return NoAgent(got == 0 ? "it is gone" : std::strerror(errno));
  }
  if (got < static_cast<ssize_t>(sizeof(welcome_)) || welcome_.magic != kLinkMagic) {
    return {StatusCode::kInternal, "the agent's answer is none of ours"};
  }
  if (welcome_.answer == LinkAnswer::kRefused) {
    return {StatusCode::kFailedPrecondition,
            std::string(welcome_.why, strnlen(welcome_.why, sizeof(welcome_.why)))};
  }
  if (!arena_.valid() || welcome_.local_size != me.local_size ||
      got != static_cast<ssize_t>(sizeof(welcome_) + ranks_.size() * sizeof(uint32_t))) {
    return {StatusCode::kInternal, "the agent's welcome does not fit this worker's environment"};
  }
  return {};
}

AgentLink::~AgentLink() {
  if (socket_.valid()) {
    const LinkBye bye;
    [[maybe_unused]] const ssize_t sent =
        send(socket_.get(), &bye, sizeof(bye), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

}  // namespace muster
