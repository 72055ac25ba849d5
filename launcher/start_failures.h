// Nodes that could not be started, told together: who finds three of many hosts down hears of all
// three, and not of the first alone. Loop thread only.
//
// Invariants (cited by tests):
//  T1 each failure is told once, in the order they came;
//  T2 not later than `together` after the first that is not told yet, and at once when no start is
//     under way any more.
#pragma once

#include <uv.h>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class StartFailures {
 public:
  // A refused connection is tried again twice, with jitter (schedule/ssh_starter).
  static constexpr absl::Duration kTogether = absl::Seconds(3);

  // `under_way`: starts that will succeed or fail. `tell` comes from the loop.
  StartFailures(uv_loop_t* loop, size_t under_way,
                std::function<void(size_t index, const std::string& reason)> tell,
                absl::Duration together = kTogether);

  void Succeeded();
  void Failed(size_t index, std::string reason);

 private:
  void OneLess();
  void Tell();

  const std::function<void(size_t, const std::string&)> tell_;
  const absl::Duration together_;
  size_t under_way_;
  std::vector<std::pair<size_t, std::string>> untold_;
  UvTimer timer_;
};

}  // namespace muster
