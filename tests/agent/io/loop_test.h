// For tests of what runs on a libuv loop: turns it until something is true. The deadline is no
// assertion about speed; it makes a hang a failure.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>
#include <uv.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <string>

#include "proto/base/unique_fd.h"

namespace muster {

inline constexpr int kHangMs = 30000;
inline constexpr uint64_t kLookAgainMs = 10;

struct TestPipe {
  UniqueFd reader;
  UniqueFd writer;
};

inline TestPipe MakePipe(int flags = O_CLOEXEC) {
  int fds[2] = {-1, -1};
  EXPECT_EQ(pipe2(fds, flags), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Up to `bytes` bytes, or to the end; shorter when nothing came for kHangMs.
inline std::string ReadBytes(int fd, size_t bytes) {
  std::string out;
  char buffer[65536];
  while (out.size() < bytes) {
    pollfd ready = {fd, POLLIN, 0};
    if (poll(&ready, 1, kHangMs) != 1) {
      ADD_FAILURE() << "nothing to read for " << kHangMs << " ms after '" << out << "'";
      break;
    }
    const ssize_t n = read(fd, buffer, std::min(sizeof(buffer), bytes - out.size()));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      break;
    }
    out.append(buffer, static_cast<size_t>(n));
  }
  return out;
}

// To the end of the stream: until nobody holds the writing end any more.
inline std::string ReadToEnd(int fd) { return ReadBytes(fd, SIZE_MAX); }

class LoopTest : public ::testing::Test {
 protected:
  LoopTest() {
    signal(SIGPIPE, SIG_IGN);  // as our programs do
    EXPECT_EQ(uv_loop_init(&loop_), 0);
  }
  // Every handle must have been closed by its owner.
  ~LoopTest() override {
    for (int i = 0; i < 1000 && uv_loop_alive(&loop_) != 0; ++i) {
      uv_run(&loop_, UV_RUN_ONCE);
    }
    uv_run(&loop_, UV_RUN_NOWAIT);
    EXPECT_EQ(uv_loop_close(&loop_), 0) << "a handle was left open";
  }

  bool RunUntil(const std::function<bool()>& done) {
    uv_timer_t timer;
    uv_timer_init(&loop_, &timer);
    // What another process does is no event here.
    uv_timer_start(
        &timer, [](uv_timer_t*) {}, kLookAgainMs, kLookAgainMs);
    const uint64_t until = uv_now(&loop_) + uint64_t{kHangMs};
    bool is_done = done();
    while (!is_done && uv_now(&loop_) < until) {
      uv_run(&loop_, UV_RUN_ONCE);
      is_done = done();
    }
    bool closed = false;
    timer.data = &closed;
    uv_close(reinterpret_cast<uv_handle_t*>(&timer),
             [](uv_handle_t* handle) { *static_cast<bool*>(handle->data) = true; });
    while (!closed) {
      uv_run(&loop_, UV_RUN_NOWAIT);
    }
    return is_done;
  }
  // What is ready now, and nothing that has to be waited for.
  void RunReady() {
    for (int i = 0; i < 10; ++i) {
      uv_run(&loop_, UV_RUN_NOWAIT);
    }
  }

  uv_loop_t loop_;
};

// What is tested does not keep the loop running; an agent's loop has other things to do.
class TickingLoopTest : public LoopTest {
 protected:
  TickingLoopTest() {
    uv_timer_init(&loop_, &tick_);
    uv_timer_start(
        &tick_, [](uv_timer_t*) {}, 5, 5);
  }
  ~TickingLoopTest() override {
    uv_close(reinterpret_cast<uv_handle_t*>(&tick_), nullptr);
    uv_run(&loop_, UV_RUN_NOWAIT);
  }

 private:
  uv_timer_t tick_;
};

}  // namespace muster
