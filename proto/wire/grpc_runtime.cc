#include "proto/wire/grpc_runtime.h"

#include <grpc/grpc.h>

#include "absl/base/internal/cycleclock.h"
#include "absl/synchronization/mutex.h"

namespace muster {

void KeepGrpcRunning() {
  static const bool kept = [] {
    // Debian's Abseil looks for deadlocks, in one graph of all locks with one spinlock that sleeps:
    // each lock that gRPC takes would pay for it. Ours are not Abseil's.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    grpc_init();
    return true;
  }();
  static_cast<void>(kept);
}

void MeasureClock() { static_cast<void>(absl::base_internal::CycleClock::Frequency()); }

}  // namespace muster
