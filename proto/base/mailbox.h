// A bounded queue from any thread to one loop thread. Posting never blocks; a full mailbox refuses.
// The owner gives a `wake` function (uv_async_send, a pipe write) that is called without the lock,
// when the mailbox turns from empty to not empty; wake-ups may coalesce, so the loop always takes
// all.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "proto/base/mutex.h"

namespace muster {

template <typename T>
class Mailbox {
 public:
  Mailbox(size_t capacity, std::function<void()> wake)
      : capacity_(capacity), wake_(std::move(wake)) {}

  // False when full: the caller drops or closes what it cannot deliver. `spare`: places that this
  // item leaves to others, which have to get in.
  [[nodiscard]] bool Post(T item, size_t spare = 0) {
    bool was_empty = false;
    {
      MutexLock lock(mutex_);
      if (items_.size() + spare >= capacity_) {
        return false;
      }
      was_empty = items_.empty();
      items_.push_back(std::move(item));
    }
    if (was_empty) {
      wake_();
    }
    return true;
  }

  // All items in order of posting; empty when there is none.
  std::vector<T> TakeAll() {
    std::vector<T> out;
    MutexLock lock(mutex_);
    out.swap(items_);
    return out;
  }

 private:
  const size_t capacity_;
  const std::function<void()> wake_;
  Mutex mutex_;
  std::vector<T> items_ MUSTER_GUARDED_BY(mutex_);
};

}  // namespace muster
