// The memory of an arena (worker_link.h), before anybody maps it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"

namespace muster {

// Zero-filled, of a size that nobody can change any more; invalid: errno says why.
inline UniqueFd MakeArenaMemory(const ArenaGeometry& geometry) {
  UniqueFd memory(memfd_create("muster-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.valid() &&
      (ftruncate(memory.get(), static_cast<off_t>(geometry.Bytes())) != 0 ||
       fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
    memory.Reset();
  }
  return memory;
}

}  // namespace muster
