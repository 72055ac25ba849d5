// The folder of an agent for small files of its workers: error files, what a PMIx server keeps.
// It is in memory where there is /dev/shm: the loop reads it, and a TMPDIR may be on a server that
// hangs.
//
// Invariants:
//  D1 an agent holds a lock in its folder as long as it lives. What would remove the folder may be
//     killed together with it (Slurm does so at the end of a step): the next agent of this user
//     there removes what nobody holds;
//  D2 nothing is removed but folders that have such a lock, of this user.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "proto/base/unique_fd.h"

namespace muster {

class RunDir {
 public:
  explicit RunDir(std::vector<std::string> places = {"/dev/shm", "/tmp"})
      : places_(std::move(places)) {}

  // Makes it, if it is not there yet, and removes what others have left (D1). False: no place takes
  // it; workers then have no error files, and their exit codes still tell.
  bool Make();
  void Remove();  // with all that is in it
  // "": there is none.
  const std::string& path() const { return path_; }

 private:
  bool MakeAt(const std::string& place);

  const std::vector<std::string> places_;
  std::string path_;
  UniqueFd lock_;
};

}  // namespace muster
