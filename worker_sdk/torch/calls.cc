#include "worker_sdk/torch/calls.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <stdexcept>
#include <utility>

#include "worker_sdk/base/forks.h"

namespace muster_torch {
namespace {

struct Life {
  std::weak_ptr<Calls> hold;
  uint32_t forks = 0;  // a child by fork() has those of its parent, too, which end nowhere
};

struct Living {
  std::mutex mutex;
  std::condition_variable ended;  // one has
  std::map<uint64_t, Life> all;   // by number: an address may be the next one's already
  uint64_t last = 0;
};

// Never destroyed: the last of them may go after whatever is.
Living& TheLiving() {
  static Living& living = *new Living;
  return living;
}

thread_local const Calls* thread_of = nullptr;  // whose thread this is

}  // namespace

Calls::Calls(uint64_t number) : number_(number), forks_(muster::Forks()) {}

std::shared_ptr<Calls> Calls::New() {
  muster::CountForks();
  const std::lock_guard<std::mutex> lock(TheLiving().mutex);
  std::shared_ptr<Calls> calls(new Calls(++TheLiving().last), &End);
  TheLiving().all[calls->number_] = {calls, calls->forks_};
  return calls;
}

bool Calls::IsParents() const { return forks_ != muster::Forks(); }

void Calls::CheckIsOurs() const {
  if (IsParents()) {
    throw std::runtime_error(
        "muster: this process group is of the process that made it; a child of that by fork() is "
        "no rank");
  }
}

void Calls::End(Calls* calls) {
  if (calls->IsParents()) {
    return;
  }
  calls->Close();
  if (thread_of == calls) {
    const std::lock_guard<std::mutex> lock(calls->mutex_);
    calls->left_ = true;
    return;
  }
  Delete(calls);
}

void Calls::Delete(Calls* calls) {
  const uint64_t number = calls->number_;
  delete calls;
  const std::lock_guard<std::mutex> lock(TheLiving().mutex);
  TheLiving().all.erase(number);
  TheLiving().ended.notify_all();
}

void Calls::CloseAll() {
  std::vector<std::shared_ptr<Calls>> all;
  std::unique_lock<std::mutex> lock(TheLiving().mutex);
  for (const auto& [number, life] : TheLiving().all) {
    if (std::shared_ptr<Calls> held = life.hold.lock(); held != nullptr) {
      all.push_back(std::move(held));
    }
  }
  lock.unlock();
  for (const std::shared_ptr<Calls>& calls : all) {
    calls->Close();
  }
  all.clear();
  lock.lock();
  TheLiving().ended.wait(lock, [] {
    return std::none_of(TheLiving().all.begin(), TheLiving().all.end(), [&](const auto& one) {
      return one.second.forks == muster::Forks() && one.second.hold.expired();
    });
  });
}

void Ending::Then(Listener listener) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!ended()) {
      listener_ = std::move(listener);
      return;
    }
  }
  listener(error_);
}

std::function<void()> Ending::Settle(std::exception_ptr error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (ended()) {
    return nullptr;
  }
  error_ = std::move(error);
  ended_.store(true, std::memory_order_release);
  if (!listener_) {
    return nullptr;
  }
  return [listener = std::exchange(listener_, nullptr), this] { listener(error_); };
}

Call::ToDo Call::Run() {
  std::exception_ptr error;
  try {
    body_();
  } catch (...) {
    error = std::current_exception();
  }
  return {Settle(std::move(error)), std::exchange(body_, nullptr)};
}

void Calls::Add(std::shared_ptr<Call> call, bool hurry) {
  CheckIsOurs();
  std::unique_lock<std::mutex> lock(mutex_);
  WantThread();
  while (waiting_.size() >= kCallsMax) {
    running_ ? ended_.wait(lock) : RunFirst(lock);
  }
  waiting_.push_back(std::move(call));
  hurry_ = hurry_ || hurry;
  Wake();
}

void Calls::Hurry() {
  CheckIsOurs();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!waiting_.empty() && !hurry_) {
    hurry_ = true;
    wanted_.notify_one();
  }
}

void Calls::Wait(const Call& call) {
  if (call.ended()) {
    return;
  }
  CheckIsOurs();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!call.ended()) {
    running_ ? ended_.wait(lock) : RunFirst(lock);
  }
}

bool Calls::WaitFor(const Call& call, std::chrono::milliseconds timeout) {
  if (call.ended()) {
    return true;
  }
  Hurry();
  std::unique_lock<std::mutex> lock(mutex_);
  return ended_.wait_for(lock, timeout, [&] { return call.ended(); });
}

void Calls::Watch(std::shared_ptr<Watched> watched) {
  CheckIsOurs();
  const std::lock_guard<std::mutex> lock(mutex_);
  watched_.push_back(std::move(watched));
  WantThread();
  Wake();
}

void Calls::Close() {
  if (IsParents()) {
    return;
  }
  std::vector<std::thread> threads;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    if (thread_of != this) {  // another one of ours may wait for this one
      threads.swap(threads_);
    }
    wanted_.notify_all();
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

std::exception_ptr Calls::EnsureThread() {
  if (closing_ || telling_ < threads_.size() || threads_.size() == kThreadsMax) {
    return nullptr;
  }
  // Signals are the program's: none is delivered on a thread that it does not know.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::exception_ptr why;
  try {
    threads_.emplace_back([this] { Loop(); });
    ++loops_;
  } catch (...) {
    why = std::current_exception();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return why;
}

void Calls::WantThread() {
  const std::exception_ptr why = EnsureThread();
  if (why != nullptr && (threads_.empty() || thread_of == this)) {
    std::rethrow_exception(why);
  }
}

// A thread that naps looks by itself before long.
void Calls::Wake() {
  ++added_;
  if (asleep_ > 0 || hurry_) {
    wanted_.notify_one();
  }
}

void Calls::RunFirst(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Call> first = std::move(waiting_.front());
  waiting_.pop_front();
  running_ = true;
  lock.unlock();
  Call::ToDo to_do = first->Run();
  lock.lock();
  running_ = false;
  hurry_ = hurry_ && !waiting_.empty();
  ended_.notify_all();
  if (thread_of != this && (hurry_ || closing_)) {
    wanted_.notify_one();
  }
  if (to_do.tell) {
    Tell(lock, to_do.tell);
  }
  lock.unlock();
  to_do = {};
  lock.lock();
}

template <typename Listeners>
void Calls::Tell(std::unique_lock<std::mutex>& lock, const Listeners& listeners) {
  const size_t ours = thread_of == this ? 1 : 0;
  telling_ += ours;
  if (ours > 0 && !waiting_.empty()) {  // this may take until what waits has ended
    (void)EnsureThread();
    if (asleep_ > 0) {
      wanted_.notify_one();
    }
  }
  lock.unlock();
  listeners();
  lock.lock();
  telling_ -= ours;
}

void Calls::LookAtWatched(std::unique_lock<std::mutex>& lock) {
  std::vector<std::shared_ptr<Watched>> looked_at = std::move(watched_);
  watched_.clear();
  std::vector<std::shared_ptr<Watched>> open;
  Tell(lock, [&] {
    for (std::shared_ptr<Watched>& one : looked_at) {
      if (!one->Test()) {
        open.push_back(std::move(one));
      }
    }
    looked_at.clear();
  });
  watched_.insert(watched_.begin(), open.begin(), open.end());
}

void Calls::Loop() {
  thread_of = this;
  std::unique_lock<std::mutex> lock(mutex_);
  uint64_t seen = 0;
  while (!closing_ || !waiting_.empty()) {
    if (!closing_ && waiting_.empty() && watched_.empty() && added_ == seen) {
      ++asleep_;
      wanted_.wait(lock, [&] { return closing_ || added_ != seen; });
      --asleep_;
    }
    seen = added_;
    // Whoever has added a call may be about to wait for it, and saves us the trouble.
    wanted_.wait_for(lock, kNap, [this] { return (closing_ || hurry_) && !running_; });
    while (!waiting_.empty() && !running_) {
      RunFirst(lock);
    }
    if (!watched_.empty()) {
      LookAtWatched(lock);
    }
  }
  if (--loops_ == 0 && left_) {
    for (std::thread& thread : threads_) {
      thread.detach();
    }
    lock.unlock();
    Delete(this);
  }
}

}  // namespace muster_torch
