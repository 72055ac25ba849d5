// What threads of a test wait for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

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
  bool Wait(std::chrono::milliseconds at_most = std::chrono::minutes(1)) {
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
    return changed_.wait_for(lock, std::chrono::seconds(30), [this] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

}  // namespace muster
