// Reading straight from the memory of the other ranks of a node (process_vm_readv(2)): one copy
// where shared memory takes two. Linux allows it between processes of one user, but for containers
// that filter system calls, and for Yama (kernel.yama.ptrace_scope): ranks try it when they meet.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/status.h"

namespace muster {

// What a rank says of itself to the others.
struct DirectCard {
  int64_t process = 0;
  uint64_t address = 0;  // there, in that process, lies `word`
  uint64_t word = 0;     // by chance: who finds it there has the right process
};

class DirectReader {
 public:
  DirectReader();

  // Lets the descendants of this process's parent, the other workers of the node, read from it
  // where Yama would not.
  static void Allow();
  DirectCard card() const;
  // `cards`: of all ranks of this node, by place. False: not all of them can be read.
  bool Meet(std::vector<DirectCard> cards);
  // Whether others may read our `bytes` at `address`, and we theirs, as far as we can tell: this
  // process has not changed its user or group since this was made, nor made itself undumpable
  // (PR_SET_DUMPABLE; a change of capabilities does), and the kernel lets its own reads pass at
  // both ends (it does not for memfd_secret(2), or what a device has mapped).
  bool MayBeRead(const void* address, uint64_t bytes) const;
  // `bytes` from `address` in the process at `place`, after Meet(). Errors: Unavailable (that
  // process is gone), FailedPrecondition (it may not be read any more: one of the two has changed
  // its user, or its capabilities, or is not dumpable any more), Internal (what is there cannot be
  // read).
  Status Read(uint32_t place, void* to, uint64_t address, uint64_t bytes) const;

 private:
  std::unique_ptr<const uint64_t> word_;
  const uid_t user_;
  const gid_t group_;
  std::vector<DirectCard> cards_;
};

}  // namespace muster
