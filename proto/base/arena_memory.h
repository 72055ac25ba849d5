// The memory of an arena and of a pipe (worker_link.h), before anybody maps it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "proto/base/unique_fd.h"
#include "proto/base/why_no_memory.h"
#include "proto/base/worker_link.h"

namespace muster {

// Zero-filled, of a size that nobody can change any more; invalid: errno says why (and
// WhyNoMemory() in a sentence). The limit of file sizes holds here, too, and the kernel would end a
// program that goes beyond it (SIGXFSZ): it is asked for first.
inline UniqueFd MakeSealedMemory(const char* name, uint64_t bytes) {
  if (bytes > SoftLimitOf(RLIMIT_FSIZE)) {
    errno = EFBIG;
    return UniqueFd();
  }
  UniqueFd memory(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.valid() &&
      (ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0 ||
       fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
    const int error = errno;
    memory.Reset();
    errno = error;
  }
  return memory;
}

inline UniqueFd MakeArenaMemory(const ArenaGeometry& geometry) {
  return MakeSealedMemory("muster-arena", geometry.Bytes());
}

inline UniqueFd MakePipeMemory() { return MakeSealedMemory("muster-pipe", sizeof(Pipe)); }

}  // namespace muster
