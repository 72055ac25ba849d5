#include "agent/io/life_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "absl/strings/str_cat.h"

namespace muster {

bool EndGroupWith(int end, pid_t group) {
  return fcntl(end, F_SETOWN, -group) == 0 && fcntl(end, F_SETSIG, SIGKILL) == 0 &&
         fcntl(end, F_SETFL, O_NONBLOCK | O_ASYNC) == 0;
}

bool LifePipe::Open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return false;
  }
  reads_.Reset(ends[0]);
  writes_.Reset(ends[1]);
  path_ = absl::StrCat("/proc/self/fd/", reads_.get());
  return true;
}

bool LifePipe::MoveWriterTo(int number) {
  writes_.Reset(fcntl(writes_.get(), F_DUPFD_CLOEXEC, number));
  return writes_.valid();
}

}  // namespace muster
