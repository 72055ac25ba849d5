// Looks whether a worker has loaded an MPI that nothing showed before it ran (a module that a
// script imports, a library opened by name), and that is not served therefore. Loop thread only.
#pragma once

#include <sys/types.h>
#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "agent/core/facts.h"
#include "agent/io/disk_thread.h"
#include "proto/wire/uv_handles.h"

namespace muster {

// The first mapped file that is an MPI's, of the text of /proc/PID/maps.
LoadedMpi MpiOfMaps(const std::string& maps);

class MpiWatch {
 public:
  explicit MpiWatch(uv_loop_t* loop);

  // Of this worker and the processes that it started itself: what a script starts, but not what
  // an mpirun does, there or as the worker. Said once, however many rounds there are.
  // `has_come`: whether it has found the server that speaks to MPICH.
  void Begin(uint32_t rank, pid_t pid, uint32_t world_size, std::function<bool()> has_come);
  // That worker has ended, or its round.
  void End();

 private:
  void LookAgain();
  void Found(const LoadedMpi& found);

  uv_loop_t* const loop_;
  uint32_t rank_ = 0;
  pid_t pid_ = 0;
  uint32_t world_size_ = 0;
  std::function<bool()> has_come_;
  bool told_ = false;
  absl::Duration wait_;
  UvTimer timer_;
  // Whoever reads a process's maps waits for that process while it maps something, from a file
  // server that hangs, say. Of this worker alone.
  std::unique_ptr<DiskThread> reader_;
};

}  // namespace muster
