// An operator new that fails, and an operator delete that does something else first, in programs
// with scarce_memory.cc.
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

// While it lives, its thread does `work` before it frees memory the time `number`, counted from 0.
class AtFree {
 public:
  AtFree(int number, void (*work)(void* of), void* of);
  ~AtFree();
  AtFree(const AtFree&) = delete;
  AtFree& operator=(const AtFree&) = delete;
};

}  // namespace muster
