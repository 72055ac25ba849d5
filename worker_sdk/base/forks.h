// Whether this process is another one than before: a child by fork() has its parent's memory and
// connections, and would speak in its place.
#pragma once

#include <atomic>
#include <cstdint>

namespace muster {

extern std::atomic<uint32_t> forks_so_far;

// Counts from now on; not what is made by clone(2) itself. Once is enough.
void CountForks();
// How many fork() lie between the first CountForks and this process. Costs a load.
inline uint32_t Forks() { return forks_so_far.load(std::memory_order_relaxed); }

}  // namespace muster
