// What the user says about restarts besides their number and kind: how many a rank or a node may
// cost, how long to wait between them, what follows which end. Values only; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace muster {

inline constexpr size_t kExitRulesMax = 64;  // a list for people; on the wire
inline constexpr uint32_t kExitCodeMax = 255;

enum class ExitAction : uint8_t {
  kStop,         // no restart
  kRestart,      // as without a rule
  kRestartFree,  // ... that no budget counts
  kReplaceNode,  // a restart without the node where it began
};
enum class ExitMatch : uint8_t { kCode, kSignal, kOom, kNodeLost };

// --on-exit: what follows when this is the first cause of a round's end.
struct ExitRule {
  ExitMatch match = ExitMatch::kCode;
  std::vector<uint32_t> values;  // kCode, kSignal: these, ascending; else empty
  ExitAction action = ExitAction::kRestart;
  bool operator==(const ExitRule&) const = default;
};

struct RestartRules {
  absl::Duration window;            // --restart-window; zero = what is used up stays so
  std::optional<uint32_t> of_rank;  // --restarts-per-rank; none = as many as the job has
  std::optional<uint32_t> of_node;
  absl::Duration wait_first = absl::Seconds(1);  // --restart-wait; zero = never wait
  absl::Duration wait_max = absl::Seconds(30);
  uint32_t bad_node_after = 3;  // failures; zero = no node is set aside for their number
  absl::Duration bad_node_for = absl::Minutes(5);
  std::vector<ExitRule> on_exit;  // the first that fits counts
  bool operator==(const RestartRules&) const = default;
};

// "stop", "restart", "restart-free", "replace-node": as they are typed, in the order of ExitAction.
std::string ExitActionName(ExitAction action);
// "code=3,64-78:stop", as it is typed.
std::string ExitRuleText(const ExitRule& rule);

}  // namespace muster
