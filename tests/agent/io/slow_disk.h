// Disks that hang until the test lets them go on, and slow ones.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "agent/io/disk_thread.h"
#include "tests/agent/io/loop_test.h"

namespace muster {

// Closed at first. Shared with the threads that wait at it, which may outlive the test's frame.
class Gate {
 public:
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = false;
  }
  // True when it was opened in time.
  bool Wait(std::chrono::milliseconds at_most = std::chrono::milliseconds(2 * kHangMs)) {
    std::unique_lock<std::mutex> lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    const bool in_time = changed_.wait_for(lock, at_most, [this] { return open_; });
    --waiting_;
    return in_time;
  }
  // Until somebody waits at it.
  bool Reached() {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(kHangMs),
                             [this] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

// A disk that takes `each` longer for every work.
inline std::shared_ptr<DiskThread> SlowDisk(uv_loop_t* loop, std::chrono::milliseconds each) {
  auto never = std::make_shared<Gate>();
  return std::make_shared<DiskThread>(loop, [never, each] { EXPECT_FALSE(never->Wait(each)); });
}

// A disk that does nothing while `gate` is closed.
inline std::shared_ptr<DiskThread> GatedDisk(uv_loop_t* loop, const std::shared_ptr<Gate>& gate) {
  return std::make_shared<DiskThread>(loop, [gate] { EXPECT_TRUE(gate->Wait()); });
}

}  // namespace muster
