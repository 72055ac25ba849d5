// An operator new that fails, in programs with scarce_memory.cc.
#pragma once

namespace muster {

// While it lives, its thread's allocations fail from number `first` on, counted from 0: one of
// them, or all that follow.
class ScarceMemory {
 public:
  ScarceMemory(int first, bool all);
  ~ScarceMemory();
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;

  static bool has_failed();  // of this thread, since the last one began
};

}  // namespace muster
