#include "worker_sdk/transport/held_socket.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "worker_sdk/base/momentary.h"

namespace muster {
namespace {

std::chrono::nanoseconds Now() { return std::chrono::steady_clock::now().time_since_epoch(); }

}  // namespace

LinkHold::Order LinkHold::order() const {
  if (header_ == nullptr) {
    return {};
  }
  const uint64_t until = std::atomic_ref(header_->held_until).load(std::memory_order_acquire);
  if (until == 0) {
    return {};
  }
  const uint64_t delay = std::atomic_ref(header_->held_for).load(std::memory_order_relaxed);
  return {std::chrono::nanoseconds(until), std::chrono::nanoseconds(delay)};
}

bool LinkHold::is_on() const {
  const Order now = order();
  return now.until.count() != 0 && Now() < now.until;
}

bool Gate::Opens(std::chrono::nanoseconds now, const LinkHold::Order& order) {
  if (order.until != until_) {
    *this = Gate();
    until_ = order.until;
  }
  if (now >= until_) {
    return true;
  }
  if (now >= closes_) {
    if (opens_.count() == 0) {
      opens_ = std::min(now + order.delay, until_);
    }
    if (now < opens_) {
      return false;
    }
    opens_ = {};
  }
  closes_ = now + std::min<std::chrono::nanoseconds>(order.delay, kGap);
  return true;
}

bool HeldSocket::Passes(Gate& gate, const LinkHold::Order& order) const {
  const bool passes = gate.Opens(Now(), order);
  if (!passes) {
    errno = EAGAIN;
  }
  return passes;
}

ssize_t HeldSocket::Send(const msghdr& message) {
  const LinkHold::Order order = hold_.order();
  if (order.until.count() != 0 && !Passes(out_, order)) {
    return -1;
  }
  return sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t HeldSocket::Receive(void* to, size_t bytes) {
  const LinkHold::Order order = hold_.order();
  if (order.until.count() != 0) {
    uint8_t first = 0;
    if (recv(fd_.get(), &first, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && IsMomentary(errno)) {
      return -1;  // nothing has come that could wait
    }
    if (!Passes(in_, order)) {
      return -1;
    }
  }
  return recv(fd_.get(), to, bytes, MSG_DONTWAIT);
}

uint64_t HeldSocket::unsent() const {
  int bytes = 0;
  if (ioctl(fd_.get(), SIOCOUTQ, &bytes) != 0 || bytes <= 0) {
    return 0;
  }
  // Of a connection that was reset the kernel still counts what nobody will ever take.
  pollfd look = {fd_.get(), 0, 0};
  const bool is_over = poll(&look, 1, 0) == 1 && (look.revents & (POLLERR | POLLHUP)) != 0;
  return is_over ? 0 : static_cast<uint64_t>(bytes);
}

}  // namespace muster
