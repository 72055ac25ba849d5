// Tells other agents of this user on this machine which CPUs ours has for its workers alone
// (core/cpu_claims.h).
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "agent/core/cpu_count.h"
#include "proto/base/unique_fd.h"

namespace muster {

class CpuClaimSockets {
 public:
  // So long waits who chooses for others that do, at most; then it chooses without its turn.
  static constexpr absl::Duration kTurnWithin = absl::Milliseconds(50);

  // `choose` gets what others claim, and returns what is claimed from now on, in place of what was
  // before: until the next call, or our end, or this process's. Where the system gives no sockets,
  // or does not show them, others do not learn of it or nothing is known of them. A launch inside a
  // worker has that one's CPUs: it heeds no claims, and makes none.
  void Choose(absl::FunctionRef<CpuSet(const CpuSet& taken)> choose);

 private:
  std::vector<UniqueFd> sockets_;
};

}  // namespace muster
