// A thread of this process beside its loop. All signals are blocked on it: they are for the other
// threads.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace muster {

class Thread {
 public:
  // Runs `body` on a thread called `name` (at most 15 characters). Errors: ResourceExhausted (the
  // limit of processes or of memory; says what to raise).
  static absl::StatusOr<Thread> Start(const char* name, std::function<void()> body);
  // Waits until `body` has returned, unless detached.
  ~Thread();
  Thread(Thread&& other) noexcept;
  Thread& operator=(Thread&& other) = delete;

  void Detach();

 private:
  friend absl::Status CheckThreads(uint32_t count);
  explicit Thread(pthread_t thread) : thread_(thread) {}

  pthread_t thread_;
  bool ours_ = true;  // neither detached nor moved away
};

// Whether `count` threads may run at the same time beside those that do. For code of others that
// aborts where it gets none. Errors as of Start.
absl::Status CheckThreads(uint32_t count);

inline constexpr uint32_t kThreadsOfGrpc = 16;  // and of libuv, at a start

}  // namespace muster
