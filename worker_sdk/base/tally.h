// A number that one thread at a time adds to, and that any thread may read meanwhile.
#pragma once

#include <atomic>

namespace muster {

template <typename T>
class Tally {
 public:
  // Of the thread whose turn it is: no other one's addition is under way.
  void Add(T more) {
    value_.store(value_.load(std::memory_order_relaxed) + more, std::memory_order_release);
  }
  T Get() const { return value_.load(std::memory_order_acquire); }

 private:
  static_assert(std::atomic<T>::is_always_lock_free);
  std::atomic<T> value_ = T(0);
};

}  // namespace muster
