// Whether this process is another one than before: a child by fork() has its parent's memory and
// connections, and would speak in its place.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace muster {

inline std::atomic<uint32_t> forks_so_far{0};

// Counts from now on; not what is made by clone(2) itself. Once is enough.
inline void CountForks() {
  static const int once = pthread_atfork(nullptr, nullptr, [] { ++forks_so_far; });
  (void)once;  // without memory for it, a child is not told apart
}
// How many fork() lie between the first CountForks and this process. Costs a load.
inline uint32_t Forks() { return forks_so_far.load(std::memory_order_relaxed); }

}  // namespace muster
