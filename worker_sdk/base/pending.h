// What a Work stands for: something that was started and ends by itself.
#pragma once

#include <cstdint>

#include "muster/status.h"
#include "muster/types.h"
#include "worker_sdk/base/forks.h"

namespace muster {

class Pending {
 public:
  Pending() = default;
  virtual ~Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  // Any thread, any number of times.
  virtual Status Wait() = 0;  // until it has ended
  virtual bool Test() = 0;    // whether it has; gives it a chance to
  // Of a receive: whose message it has got.
  virtual int Source() const { return kAnyRank; }

  // This is a child of the process that started it.
  bool is_parents() const { return Forks() != forks_; }

 private:
  const uint32_t forks_ = Forks();
};

}  // namespace muster
