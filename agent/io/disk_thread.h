// A thread of its own for work on files that may hang (a TMPDIR or a log folder on a dead server):
// the loop, its beats and everybody else's files go on. Loop thread only; only `work` runs on the
// thread.
//
// Invariants:
//  D1 works run one at a time in the order of Run; so come their `done`s, on the loop;
//  D2 no `done` comes from within Run, nor after the destructor, which never waits: works that were
//     accepted still run, and the thread ends after the last one (at the latest with the process);
//  D3 the loop is kept running only while a work or its `done` is outstanding.
//
// At most kDiskWorksMax works are outstanding, and for each that owns a file one more that closes
// it: a log file has one write under way and one close, and asks Full before the write; the spool
// has a write, a read and a truncation.
#pragma once

#include <uv.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "proto/base/limits.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class DiskThread {
 public:
  // `before_each`, for tests: runs on the thread in front of each work, as a slow disk.
  explicit DiskThread(uv_loop_t* loop, std::function<void()> before_each = nullptr)
      : loop_(loop), before_each_(std::move(before_each)) {}
  ~DiskThread();
  DiskThread(const DiskThread&) = delete;
  DiskThread& operator=(const DiskThread&) = delete;

  // The thread, if it is not there yet. Errors: ResourceExhausted (no thread; says what to raise).
  absl::Status Start();
  // After Start. `work` and what it captured are destroyed on the thread as soon as it has run: it
  // owns (by shared_ptr) what it touches. `done` may be empty; it is destroyed on the loop thread.
  void Run(std::function<void()> work, std::function<void()> done);
  // The disk hangs: no more than what closes a file may come.
  bool Full() const { return dones_.size() >= kDiskWorksMax; }
  // Works whose `done` has not come.
  size_t outstanding() const { return dones_.size(); }

 private:
  struct Shared;
  void Deliver();

  uv_loop_t* const loop_;
  const std::function<void()> before_each_;
  // Ours and the thread's: a thread that hangs outlives us, and we may outlive its last work.
  std::shared_ptr<Shared> shared_;
  std::optional<UvAsync> wake_;              // the thread reaches it through shared_ only
  std::deque<std::function<void()>> dones_;  // in the order of their works
  uint64_t delivered_ = 0;
};

}  // namespace muster
