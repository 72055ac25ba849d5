// A pipe whose end is the end of process groups: nobody writes to it, and a group that owns an open
// end of it gets a SIGKILL from the kernel when its writer is gone. Single thread.
#pragma once

#include <sys/types.h>

#include <string>

#include "proto/base/unique_fd.h"

namespace muster {

// Makes the group the owner of `end`, which is open for reading. System calls only, so that a child
// of vfork may; false with errno: the group has ended.
bool EndGroupWith(int end, pid_t group);

class LifePipe {
 public:
  bool Open();
  bool is_open() const { return writes_.valid(); }
  // To be opened: each group needs an open file of its own, for that is what has an owner.
  const char* path() const { return path_.c_str(); }
  // The writer's descriptor; MoveWriterTo: `number`, or the first free one above.
  int writer() const { return writes_.get(); }
  bool MoveWriterTo(int number);

 private:
  UniqueFd reads_;
  UniqueFd writes_;
  std::string path_;
};

}  // namespace muster
