// A libuv loop for tests. Everything on the test's thread.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <uv.h>

#include <functional>
#include <memory>
#include <utility>

#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class TestLoop {
  static constexpr absl::Duration kLookAgain = absl::Milliseconds(10);

 public:
  TestLoop() { uv_loop_init(&loop_); }
  ~TestLoop() {
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0) << "a handle is left open";
  }
  uv_loop_t* get() { return &loop_; }

  // Runs until `condition`; a test that waits longer than this hangs for a reason of ours.
  void Until(const std::function<bool()>& condition, const char* what) {
    bool late = false;
    {
      UvTimer guard(&loop_, [&late] { late = true; });
      guard.StartAfter(absl::Seconds(60));
      // What a file says changes without an event here.
      std::unique_ptr<UvTimer> again;
      again = std::make_unique<UvTimer>(&loop_, [&again] { again->StartAfter(kLookAgain); });
      again->StartAfter(kLookAgain);
      // A timer's callback may make it true, and nothing else may ever happen.
      UvPrepare look(&loop_, [this, &condition] {
        if (condition()) {
          uv_stop(&loop_);
        }
      });
      while (!condition() && !late) {
        uv_run(&loop_, UV_RUN_ONCE);
      }
    }
    ASSERT_FALSE(late) << "never came: " << what;
  }

 private:
  uv_loop_t loop_{};
};

inline std::pair<UniqueFd, UniqueFd> SocketPair() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace muster
