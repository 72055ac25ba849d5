// A thread of this process for what nobody waits for: messages whose Send has returned, and that
// could not leave yet.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

namespace muster {

// There until the process ends, as its thread is.
class Mover {
 public:
  struct Pushed {
    bool moved = false;  // something
    bool more = false;   // is there to be moved
  };
  // `push` moves what can be moved now; called by the thread, again and again while there is more.
  explicit Mover(std::function<Pushed()> push) : push_(std::move(push)) {}
  Mover(const Mover&) = delete;
  Mover& operator=(const Mover&) = delete;

  // There is something to be moved. Does not wait; starts the thread, if need be. Where there is
  // none to be had, it is moved by whoever calls next.
  void Ask();

 private:
  void Run();

  const std::function<Pushed()> push_;
  std::mutex mutex_;
  std::condition_variable asked_;
  bool runs_ = false;
  std::atomic<bool> is_asked_{false};
};

}  // namespace muster
