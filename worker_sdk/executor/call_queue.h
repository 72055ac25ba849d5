// The calls of a communicator, one after the other as they came. Who waits for his call runs it
// himself as soon as none stands before it; those that are only started run on a thread of their
// own, which the first of them brings about.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "muster/status.h"
#include "worker_sdk/base/pending.h"

namespace muster {

// Of one thread, but for the Pending it gives out.
class CallQueue {
 public:
  static constexpr size_t kStartedMax = 4096;

  CallQueue() = default;
  ~CallQueue();  // all that was started has ended
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  template <typename Function>
  auto Run(const Function& call) {
    WaitUntilIdle();
    return call();
  }
  // Returns at once, unless kStartedMax have not ended. Internal: there is no thread to be had.
  StatusOr<std::shared_ptr<Pending>> Start(std::function<Status()> call);

 private:
  class Started;

  void WaitUntilIdle();
  Status EnsureThread();
  void Loop();

  std::atomic<size_t> open_{0};  // started, and not ended
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Started>> waiting_;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace muster
