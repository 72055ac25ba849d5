// Of invariants.h: what follows a failure. I4 (a second count of what restarts cost) and I13.
#include <algorithm>
#include <optional>
#include <vector>

#include "rendezvous/core/invariants.h"
#include "rendezvous/core/invariants_impl.h"

namespace muster {
namespace {

// What --on-exit says of this end; none = nothing. A second, simple reading of the rules.
std::optional<ExitAction> SaidOf(const RestartRules& rules, const std::optional<WorkerExit>& end) {
  for (const ExitRule& rule : rules.on_exit) {
    const auto has = [&](int32_t value) {
      return std::count(rule.values.begin(), rule.values.end(), static_cast<uint32_t>(value)) > 0;
    };
    bool fits = false;
    switch (rule.match) {
      case ExitMatch::kCode:
        fits = end.has_value() && end->kind == ExitKind::kExited && has(end->code);
        break;
      case ExitMatch::kSignal:
        fits = end.has_value() && end->kind == ExitKind::kSignaled && has(end->code);
        break;
      case ExitMatch::kOom:
        fits = end.has_value() && end->oom_killed;
        break;
      case ExitMatch::kNodeLost:
        fits = !end.has_value();
        break;
    }
    if (fits) {
      return rule.action;
    }
  }
  return std::nullopt;
}

}  // namespace

// I4
absl::Status InvariantChecker::CheckRestart(const RoundState& state) {
  const RestartRules& rules = config_.rules;
  const RestartRecord& last = state.last_restart;
  if (last.by_user) {
    short_rounds_ = 0;
    return used_.job == state.used.job ? absl::OkStatus()
                                       : Broken("I4", "a restart by the user is counted");
  }
  const std::optional<ExitAction> said = SaidOf(rules, last.worker);
  if ((said == ExitAction::kStop && !last.of_standstill) ||
      config_.restart == RestartMode::kNever) {
    return Broken("I4", "round ", state.round.ToString(), " follows an end that was to stop it");
  }
  const bool standstill = last.of_standstill && config_.restarts_max > 0;
  if (said != ExitAction::kRestartFree && !standstill) {
    ++used_.job;
    ++used_.by_node[last.origin.node];
    if (last.origin.rank.has_value()) {
      ++used_.by_rank[*last.origin.rank];
    }
  }
  if (used_.job != state.used.job || used_.by_rank != state.used.by_rank ||
      used_.by_node != state.used.by_node) {
    return Broken("I4", "after ", last.text, " ", used_.job, " restarts should count, not ",
                  state.used.job, ", or another rank's or node's");
  }
  short_rounds_ = state.lived < rules.wait_max ? short_rounds_ + 1 : 0;
  absl::Duration least = short_rounds_ < 2 ? absl::ZeroDuration() : rules.wait_first;
  for (uint32_t i = 2; i < short_rounds_ && least < rules.wait_max; ++i) {
    least *= 2;
  }
  least = std::min(least, rules.wait_max) * 0.8 - absl::Milliseconds(1);
  if (state.round_began - last.decided < least || last.not_before - last.decided > rules.wait_max) {
    return Broken("I4", "after ", short_rounds_, " short rounds a restart waits ",
                  absl::FormatDuration(state.round_began - last.decided), ", want ",
                  absl::FormatDuration(least), " or more");
  }
  return absl::OkStatus();
}

// I13
absl::Status InvariantChecker::CheckKept(const RoundState& state) const {
  const std::string round = state.round.ToString();
  if (last_.IsNone() || state.chain > last_) {
    return Broken("I13", "round ", round, " keeps workers from round ", state.chain.ToString(),
                  ", which is not among those before it");
  }
  const std::vector<Member>& before = rounds_.at(last_);
  const bool same_places =
      std::equal(state.members.begin(), state.members.end(), before.begin(), before.end(),
                 [&state](const Member& now, const Member& then) {
                   const bool same_ranks = now.rank_first == then.rank_first &&
                                           now.workers == then.workers && now.ranks == then.ranks;
                   return same_ranks && (now.since == state.round || Same(now, then));
                 });
  if (!same_places) {
    return Broken("I13", "round ", round,
                  " keeps workers, but has other places than the one before");
  }
  const auto started = static_cast<uint32_t>(
      std::count(state.started_in.begin(), state.started_in.end(), state.round.n));
  if (started == 0) {
    return Broken("I13", "round ", round, " starts nothing anew");
  }
  const uint32_t counted = state.report.restarts + state.report.regroupings;
  // A worker may have failed, and then its node have been lost.
  if (counted < counted_ || counted - counted_ > uint64_t{2} * started) {
    return Broken("I4", "round ", round, " starts ", started, " workers anew, but ", counted,
                  " restarts are counted after ", counted_);
  }
  const auto is_free = [](const ExitRule& rule) { return rule.action == ExitAction::kRestartFree; };
  const RestartRules& rules = config_.rules;
  const bool all_count = rules.window == absl::ZeroDuration() &&
                         std::none_of(rules.on_exit.begin(), rules.on_exit.end(), is_free);
  if (all_count && state.stood_still.empty() &&
      state.used.job - used_.job != state.report.restarts - restarts_) {
    return Broken("I4", "round ", round, " is told of ", state.report.restarts, " restarts after ",
                  restarts_, ", but ", state.used.job, " count after ", used_.job);
  }
  return absl::OkStatus();
}

}  // namespace muster
