// Communicators that are open when their process ends.
#include <stdlib.h>
#include <unistd.h>

#include <mutex>
#include <vector>

#include "worker_sdk/api/c_call.h"

namespace {

struct Open {
  std::mutex mutex;
  pid_t process = 0;  // a child by fork() ends nothing of its parent's
  std::vector<muster_comm*> comms;
};

// Never destroyed: what comes last uses it.
Open& TheOpen() {
  static Open& open = *new Open;
  return open;
}

void EndOpen(int status, void*) {
  Open& open = TheOpen();
  const std::lock_guard lock(open.mutex);
  if (open.process != getpid()) {
    return;
  }
  for (muster_comm* const comm : open.comms) {
    if (status != 0) {
      muster_abandon(comm);
    }
    muster_free(comm);
  }
  open.comms.clear();
}

}  // namespace

void muster_free_at_exit(muster_comm* comm) {
  Open& open = TheOpen();
  const std::lock_guard lock(open.mutex);
  if (open.process != getpid()) {
    open.comms.clear();
    if (on_exit(&EndOpen, nullptr) != 0) {
      return;  // the kernel ends it, and the others see a process that has died
    }
    open.process = getpid();
  }
  if (comm != nullptr) {
    open.comms.push_back(comm);
  }
}
