#include "worker_sdk/transport/mover.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

#include "worker_sdk/base/quiet_thread.h"

namespace muster {
namespace {

// Before the first look: a sender often waits for something soon, and moves it then.
constexpr std::chrono::milliseconds kFirstNap{1};
// Between looks at what does not move.
constexpr std::chrono::milliseconds kLastNap{16};

}  // namespace

void Mover::Ask() {
  if (is_asked_.exchange(true)) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!runs_) {
    std::thread thread;
    runs_ = StartQuietThread(
                "that moves messages", [this] { Run(); }, thread)
                .ok();
    if (!runs_) {
      is_asked_ = false;
      return;
    }
    thread.detach();
  }
  asked_.notify_one();
}

void Mover::Run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      asked_.wait(lock, [this] { return is_asked_.load(); });
    }
    Pushed pushed;
    for (auto nap = kFirstNap; is_asked_.load();
         nap = pushed.moved ? kFirstNap : std::min(2 * nap, kLastNap)) {
      std::this_thread::sleep_for(nap);
      is_asked_ = false;  // from now on another one's question counts
      try {
        pushed = push_();
      } catch (const std::bad_alloc&) {
        pushed = {false, true};
      }
      if (pushed.more) {
        is_asked_ = true;
      }
    }
  }
}

}  // namespace muster
