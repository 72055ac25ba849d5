// The round machine's invariants (round_machine.h), checked from outside: by tests and by the
// simulator after every event. O(N) a check.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rendezvous/core/types.h"

namespace muster {

// What holds in every state by itself: I1, I4, I6 (bounds), and that counters and sets agree.
absl::Status CheckState(const RoundConfig& config, const RoundState& state);

// What holds over time: I2, I3, I4, I5, I8, I9, I12, I13, and that the job ends once. One per job;
// every step in order.
class InvariantChecker {
 public:
  explicit InvariantChecker(const RoundConfig& config) : config_(config) {}

  // Another master has taken the job over, and nobody heard of what it does not know. I4: what
  // restarts have cost is what it was when the round began.
  absl::Status TakenOver(const RoundState& state);
  // After a step: its effects and the state after it. Without `whole` only what costs O(log N).
  absl::Status Check(const RoundState& state, const std::vector<RoundEffect>& effects,
                     bool whole = true);

 private:
  absl::Status CheckRoundStarted(const RoundState& state, const RoundStarted& started);
  absl::Status CheckStartAgain(const RoundState& state, const StartAgain& again);
  absl::Status CheckGrowth(const RoundState& state);
  absl::Status CheckRestart(const RoundState& state);
  absl::Status CheckSetAside(const RoundState& state) const;
  absl::Status CheckKept(const RoundState& state) const;
  absl::Status CheckSend(const RoundState& state, const Send& send);
  absl::Status CheckReport(const RoundState& state);

  const RoundConfig config_;
  std::map<RoundId, std::vector<Member>> rounds_;  // every round that started
  RoundId last_;
  uint32_t counted_ = 0;                      // restarts and regroupings
  JobPhase phase_ = JobPhase::kGathering;     // after the last step
  std::map<std::string, uint32_t> attempts_;  // the last one asked for, by key
  std::map<std::string, uint32_t> in_a_row_;  // ... without a Join between them
  uint32_t restarts_ = 0;
  RestartsUsed used_;
  bool used_is_after_end_ = false;  // of the last round: taken over, its end included
  uint32_t short_rounds_ = 0;
  std::string named_;  // exit code and headline of the report, once it is final
  bool ended_ = false;
};

}  // namespace muster
