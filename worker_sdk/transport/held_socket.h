// A connection with a rank of another node, on which the agent may hold up what goes over it, both
// ways: `launch chaos cut` and `slow`. Nothing here waits.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"

namespace muster {

// What the agent says of it in the arena, which outlives this. Any thread.
class LinkHold {
 public:
  LinkHold() = default;  // nobody says anything
  explicit LinkHold(ArenaHeader* header) : header_(header) {}

  struct Order {
    std::chrono::nanoseconds until{0};  // of the steady clock
    std::chrono::nanoseconds delay{0};  // of each burst
  };
  Order order() const;
  bool is_on() const;

 private:
  ArenaHeader* header_ = nullptr;
};

// One way of a connection. A burst is held up once: what comes less than kGap behind the rest of
// it belongs to it. Pure.
class Gate {
 public:
  static constexpr std::chrono::milliseconds kGap{1};

  // Whether what is there at `now` may pass.
  bool Opens(std::chrono::nanoseconds now, const LinkHold::Order& order);

 private:
  std::chrono::nanoseconds until_{0};  // of the order that the rest is about
  std::chrono::nanoseconds opens_{0};  // 0: nothing waits
  std::chrono::nanoseconds closes_{0};
};

class HeldSocket {
 public:
  HeldSocket() = default;
  explicit HeldSocket(UniqueFd fd, LinkHold hold = {}) : fd_(std::move(fd)), hold_(hold) {}

  int fd() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  // sendmsg and recv that never wait: EAGAIN also stands for what is held up.
  ssize_t Send(const msghdr& message);
  ssize_t Receive(void* to, size_t bytes);
  // Bytes that the other machine does not have yet. Of a socket that is closed while something
  // unread is in it the kernel takes them back.
  uint64_t unsent() const;

 private:
  bool Passes(Gate& gate, const LinkHold::Order& order) const;

  UniqueFd fd_;
  LinkHold hold_;
  Gate out_;
  Gate in_;
};

}  // namespace muster
