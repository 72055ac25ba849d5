// The calls of one communicator, one after the other as they came.
//
// Who waits for a call runs it, and those before it, on his own thread: that costs nothing. What
// nobody waits for within a moment, or what Hurry() asks for, runs on a thread of ours, which the
// first call brings about. Messages move when somebody looks at them: that thread does, too.
// A listener may take as long as it likes, or wait for what others do: where it has our thread,
// another one comes for what is there or added meanwhile.
// Whoever waits may hold Python's lock, which listeners may take, and so may the end of what a call
// holds: neither happens before the call has ended, and with no lock of ours held.
// A child by fork() has none of our threads, and whatever lock they held: there we end nothing, and
// what it adds or waits for throws.
// Standard C++ only.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace muster_torch {

// How something ends, for whoever wants to know. Any thread.
class Ending {
 public:
  using Listener = std::function<void(std::exception_ptr)>;

  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // Null: well, or not yet.
  std::exception_ptr error() const { return ended() ? error_ : nullptr; }
  // Once it has ended, or now if it has; one listener only.
  void Then(Listener listener);

 protected:
  // The first one counts. The listener, if there is one, is the caller's to call.
  std::function<void()> Settle(std::exception_ptr error);

 private:
  std::mutex mutex_;
  std::atomic<bool> ended_{false};
  std::exception_ptr error_;
  Listener listener_;
};

class Call : public Ending {
 public:
  // What it throws is how it ends.
  explicit Call(std::function<void()> body) : body_(std::move(body)) {}

 private:
  friend class Calls;
  struct ToDo {
    std::function<void()> tell;  // a listener; may be null
    std::function<void()> body;  // what it holds goes
  };
  // What is still to be done once all know that it has ended.
  ToDo Run();

  std::function<void()> body_;
};

// What moves when it is looked at.
class Watched {
 public:
  Watched() = default;
  virtual ~Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  // Whether it has ended.
  virtual bool Test() = 0;
};

class Calls {
 public:
  static constexpr size_t kCallsMax = 4096;  // that wait; the next one runs the first of them
  static constexpr size_t kThreadsMax = 8;   // as deep may listeners wait in each other
  static constexpr std::chrono::microseconds kNap{1000};

  // The last hold may go on a thread of ours; Close() is called then.
  static std::shared_ptr<Calls> New();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // Close() of all that there are: before the interpreter ends, as no thread may have the last hold
  // of a tensor when it does. Those that end on a thread of theirs have ended.
  static void CloseAll();

  // `hurry`: it is large, or somebody listens.
  void Add(std::shared_ptr<Call> call, bool hurry);
  // All that is there begins as soon as it can.
  void Hurry();
  // Until it has ended.
  void Wait(const Call& call);
  // Whether it has, for at most `timeout`; it runs on our thread.
  bool WaitFor(const Call& call, std::chrono::milliseconds timeout);
  // Looked at about once a kNap, until it has ended; ours even if this throws, as no thread is to
  // be had.
  void Watch(std::shared_ptr<Watched> watched);
  // What was added runs, and our threads end; one of ours waits for neither. What is watched is not
  // looked at any more, and held until our end. What is added later runs when somebody waits for
  // it.
  void Close();

 private:
  explicit Calls(uint64_t number);
  ~Calls() = default;
  static void End(Calls* calls);
  static void Delete(Calls* calls);
  bool IsParents() const;
  void CheckIsOurs() const;
  // Another thread, unless one is not with a listener. Why none is to be had, if so.
  std::exception_ptr EnsureThread();
  // Whoever calls can do nothing without.
  void WantThread();
  // Does it without the lock, as it may take long.
  template <typename Listeners>
  void Tell(std::unique_lock<std::mutex>& lock, const Listeners& listeners);
  void Wake();
  void RunFirst(std::unique_lock<std::mutex>& lock);
  void LookAtWatched(std::unique_lock<std::mutex>& lock);
  void Loop();

  const uint64_t number_;  // of all of this process
  const uint32_t forks_;   // that lay before this process
  std::mutex mutex_;
  std::condition_variable ended_;   // a call has
  std::condition_variable wanted_;  // one of our threads is
  std::vector<std::shared_ptr<Watched>> watched_;
  std::deque<std::shared_ptr<Call>> waiting_;  // what they hold goes before what is watched
  uint64_t added_ = 0;                         // so far, of either
  bool running_ = false;                       // one of them, on some thread
  bool hurry_ = false;
  bool closing_ = false;
  bool left_ = false;                 // by all but threads of ours, whose end is ours
  std::vector<std::thread> threads_;  // ours
  size_t loops_ = 0;                  // of ours, that have not come to their end
  size_t asleep_ = 0;                 // of ours, until something is added
  size_t telling_ = 0;                // of ours, and may be for long
};

}  // namespace muster_torch
