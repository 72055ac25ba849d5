#include "worker_sdk/executor/call_queue.h"

#include <string>
#include <utility>

#include "worker_sdk/base/no_memory.h"
#include "worker_sdk/base/quiet_thread.h"

namespace muster {

class CallQueue::Started : public Pending {
 public:
  explicit Started(std::function<Status()> call) : call_(std::move(call)) {}

  void Run() {
    Status status = RunGuarded();
    call_ = nullptr;
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    ended_ = true;
    changed_.notify_all();
  }
  Status Wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_; });
    return status_;
  }
  bool Test() override {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  Status RunGuarded() { return OrNoMemory(call_); }

  std::function<Status()> call_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  Status status_;
};

CallQueue::~CallQueue() {
  if (!thread_.joinable()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

StatusOr<std::shared_ptr<Pending>> CallQueue::Start(std::function<Status()> call) {
  if (Status status = EnsureThread(); !status.ok()) {
    return status;
  }
  auto started = std::make_shared<Started>(std::move(call));
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_ < kStartedMax; });
    waiting_.push_back(started);
    ++open_;
  }
  changed_.notify_all();
  return std::shared_ptr<Pending>(std::move(started));
}

Status CallQueue::EnsureThread() {
  if (thread_.joinable()) {
    return {};
  }
  return StartQuietThread(
      "for asynchronous calls", [this] { Loop(); }, thread_);
}

void CallQueue::WaitUntilIdle() {
  if (open_.load(std::memory_order_acquire) != 0) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_ == 0; });
  }
}

void CallQueue::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
    if (waiting_.empty()) {
      return;
    }
    const std::shared_ptr<Started> next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    next->Run();
    lock.lock();
    --open_;
    changed_.notify_all();
  }
}

}  // namespace muster
