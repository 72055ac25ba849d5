// How a process that passes output on uses its heap.
#pragma once

#include <malloc.h>

namespace muster {

// What is freed stays with the process, up to 64 MiB of it: a flood of output needs the same memory
// again at once, and to clear new pages for it takes longer than to copy what is in them.
inline void KeepFreedMemory() {
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
}

}  // namespace muster
