// The words of `launch chaos` that say what to do. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/drill.h"

namespace muster {

// What a length or a delay may be: kDrillLengthMax.
inline constexpr absl::string_view kDrillTimes = "more than 0 and at most 1h";

struct DrillSpec {
  bool master = false;  // the launcher itself is killed; the rest says nothing then
  DrillKind kind = DrillKind::kKillWorker;
  std::string target;  // kKillWorker: a rank; else a node, as people name it
  absl::Duration delay;
  absl::Duration length;
};

// "kill rank 3", "kill node1", "kill master", "freeze node1", "cut node1", "slow node1 200ms";
// `length`: of those that last. InvalidArgument: names the word, and what is wanted.
absl::StatusOr<DrillSpec> ParseDrill(const std::vector<std::string>& words, absl::Duration length);

}  // namespace muster
