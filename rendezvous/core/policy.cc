#include "rendezvous/core/policy.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/mutation.h"
#include "proto/base/text.h"
#include "rendezvous/core/machine.h"

namespace muster {
namespace {

constexpr absl::string_view kOfRound = ": ";  // between the name of a round and what is told of it

constexpr size_t kHistoryMax = 16;  // the reasons of earlier rounds, in a report on one page

bool Fits(const ExitRule& rule, const ExitRecord* worker) {
  if (worker == nullptr || rule.match == ExitMatch::kNodeLost) {
    return worker == nullptr && rule.match == ExitMatch::kNodeLost;
  }
  const WorkerExit& exit = worker->exit;
  if (rule.match == ExitMatch::kOom) {
    return exit.oom_killed;
  }
  const ExitKind kind = rule.match == ExitMatch::kSignal ? ExitKind::kSignaled : ExitKind::kExited;
  return exit.kind == kind &&
         std::count(rule.values.begin(), rule.values.end(), static_cast<uint32_t>(exit.code)) != 0;
}

// For a while after it woke.
bool LosesForStandstill(const RoundState& state) {
  return !state.stood_still.empty() && state.stepped_at <= state.stood_still_tells;
}

// SIGKILL before the time was over that a stop by the master gave it: its node's lease was.
bool EndedWithLease(const RoundState& state, const ExitRecord& record) {
  const WorkerExit& exit = record.exit;
  const bool had_time = state.stop_grace > absl::ZeroDuration();
  return exit.stopped_by_us && exit.kind == ExitKind::kSignaled && exit.code == SIGKILL &&
         !exit.oom_killed && had_time && record.seen < state.stop_began + state.stop_grace / 2;
}

Origin OriginOf(const RoundState& state, const Failure& failure) {
  if (failure.of_standstill) {
    return {};
  }
  if (failure.worker != nullptr) {
    return {failure.worker->exit.rank, failure.node, failure.worker->hostname};
  }
  const auto it = state.nodes.find(failure.node);
  return {std::nullopt, failure.node, it == state.nodes.end() ? "" : it->second.join.hostname};
}

// Of `nodes`, those that are not set aside.
template <typename Contains>
size_t Without(const RoundState& state, size_t nodes, absl::Time now, const Contains& contains) {
  for (const auto& [id, one] : state.set_aside) {
    nodes -= one.until > now && contains(id) ? 1 : 0;
  }
  return nodes;
}

// Live nodes that are not set aside.
size_t GoodCount(const RoundState& state, absl::Time now) {
  return Without(state, state.live, now, [&](NodeId id) { return state.nodes.at(id).IsLive(); });
}

// Whether the others are enough. At the end of the time to come together anybody is welcome.
bool AreEnough(const RoundConfig& config, const RoundState& state, absl::Time now) {
  return GoodCount(state, now) >= config.nodes_min &&
         now < state.gathering_since + config.join_timeout;
}

// "restart 2 of 3 (rank 5: 1 of 2), as --on-exit code=75:restart says"
std::string RestartText(const Machine& m, const Origin& origin, const Verdict& verdict) {
  const std::string used = UsedText(m.config.rules, m.config.restarts_max, m.state.used, origin);
  if (verdict.action == ExitAction::kRestartFree && verdict.rule.empty()) {  // of no node, nor rank
    return absl::StrCat("restart free of charge; used are ", m.state.used.job, " of ",
                        m.config.restarts_max);
  }
  if (verdict.action == ExitAction::kRestartFree) {
    return absl::StrCat("restart free of charge, as --on-exit ", verdict.rule, " says; used are ",
                        used);
  }
  return absl::StrCat(
      "restart ", used,
      verdict.rule.empty() ? "" : absl::StrCat(", as --on-exit ", verdict.rule, " says"));
}

}  // namespace

Failure LossOf(const RoundState& state, NodeId id, const std::string& headline) {
  return {id, nullptr, !headline.empty() && headline == state.stood_still};
}

const std::string& WhyLost(const RoundState& state, const std::string& headline) {
  return LosesForStandstill(state) ? state.stood_still : headline;
}

bool FollowsStandstill(const RoundState& state, const ExitRecord& failure) {
  const bool then = !state.stood_still.empty() && failure.seen >= state.stood_still_from &&
                    failure.seen <= state.stood_still_tells;
  const auto is_lost = [&](const Member& member) {
    const NodeState& node = state.nodes.at(member.node);
    return node.incarnation != member.incarnation || !node.IsLive();
  };
  return then && (std::any_of(state.members.begin(), state.members.end(), is_lost) ||
                  std::any_of(state.report.exits.begin(), state.report.exits.end(),
                              [&](const ExitRecord& one) { return EndedWithLease(state, one); }));
}

std::optional<Rank> MissedForEver(const RoundState& state, const Failure& failure) {
  const std::optional<Rank> missed =
      failure.worker == nullptr ? std::nullopt : failure.worker->exit.because_of;
  const bool ended_well = missed.has_value() && missed->value < state.started_in.size() &&
                          state.started_in[missed->value] == 0;
  return ended_well ? missed : std::nullopt;
}

Verdict Judge(const RoundConfig& config, const RoundState& state, const Failure& failure) {
  Verdict verdict;
  const auto rule = std::find_if(config.rules.on_exit.begin(), config.rules.on_exit.end(),
                                 [&](const ExitRule& one) { return Fits(one, failure.worker); });
  if (failure.of_standstill) {
    verdict.action = config.restarts_max > 0 ? ExitAction::kRestartFree : verdict.action;
  } else if (rule != config.rules.on_exit.end()) {
    verdict.action = rule->action;
    verdict.rule = ExitRuleText(*rule);
  }
  if (config.restart == RestartMode::kNever) {
    verdict.why_not = "--restart=never";
  } else if (const std::optional<Rank> missed = MissedForEver(state, failure); missed.has_value()) {
    verdict.why_not = absl::StrCat("it needs rank ", missed->value,
                                   ", which has ended well and is not started again");
  } else if (verdict.action == ExitAction::kStop) {
    verdict.why_not = absl::StrCat("--on-exit ", verdict.rule);
  } else if (state.report.restarts + state.next.restarts >= kRestartsMax) {
    verdict.why_not = absl::StrCat("a job is started again at most ", kRestartsMax, " times");
  } else if (verdict.action != ExitAction::kRestartFree) {
    verdict.why_not =
        UsedUp(config.rules, config.restarts_max, state.used, OriginOf(state, failure));
  }
  return verdict;
}

bool MayEverRestart(const RoundConfig& config, const RoundState& state) {
  const auto is_free = [](const ExitRule& rule) { return rule.action == ExitAction::kRestartFree; };
  const std::vector<ExitRule>& rules = config.rules.on_exit;
  return config.restart != RestartMode::kNever && state.report.restarts < kRestartsMax &&
         (state.used.job < config.restarts_max ||
          (config.restarts_max > 0 && LosesForStandstill(state)) ||
          std::any_of(rules.begin(), rules.end(), is_free));
}

absl::Time RefilledAt(const RoundConfig& config, const RoundState& state) {
  const bool waits = config.rules.window > absl::ZeroDuration() &&
                     state.phase == JobPhase::kRunning && !state.paused &&
                     (state.used.job > 0 || !state.failures.empty());
  return waits ? state.round_began + config.rules.window : absl::InfiniteFuture();
}

bool IsSetAside(const RoundState& state, NodeId node, absl::Time now) {
  const auto it = state.set_aside.find(node);
  return it != state.set_aside.end() && it->second.until > now;
}

bool IsLeftOut(const RoundConfig& config, const RoundState& state, NodeId node, absl::Time now) {
  return IsSetAside(state, node, now) && AreEnough(config, state, now) &&
         !Mutated(Mutation::kSetAsideChosen);
}

size_t NewcomersCount(const RoundState& state, absl::Time now) {
  return Without(state, state.ready.size(), now,
                 [&](NodeId id) { return state.ready.count(id) != 0; });
}

size_t ReadyCount(const RoundConfig& config, const RoundState& state, absl::Time now) {
  return AreEnough(config, state, now) ? NewcomersCount(state, now) : state.ready.size();
}

size_t LiveCount(const RoundConfig& config, const RoundState& state, absl::Time now) {
  return AreEnough(config, state, now) ? GoodCount(state, now) : state.live;
}

void Refill(Machine& m) {
  RoundState& s = m.state;
  if (m.now < RefilledAt(m.config, s)) {
    return;
  }
  s.used = RestartsUsed();
  s.next.used_before.reset();
  s.failures.clear();
  m.out.push_back(Tell{absl::StrCat("round ", s.round.ToString(), " has run for ",
                                    ShortDuration(m.config.rules.window), ": all ",
                                    Plural(m.config.restarts_max, "restart is", "restarts are"),
                                    " there again (--restart-window)")});
}

// P3
std::string NoteFailure(Machine& m, const Failure& failure, const Verdict& verdict) {
  const Origin origin = OriginOf(m.state, failure);
  RoundState& s = m.state;
  const RestartRules& rules = m.config.rules;
  const bool asked = verdict.action == ExitAction::kReplaceNode;
  if (verdict.action == ExitAction::kRestartFree || s.nodes.count(origin.node) == 0) {
    return "";
  }
  const uint32_t failures = ++s.failures[origin.node];
  const bool bad = rules.bad_node_after > 0 && failures >= rules.bad_node_after;
  if ((!asked && !bad) || s.nodes.size() == 1) {
    return "";
  }
  const std::string began = absl::StrCat(Plural(failures, "failure", "failures"), " began there");
  s.set_aside[origin.node] = {m.now + rules.bad_node_for,
                              asked ? absl::StrCat("--on-exit ", verdict.rule) : began};
  if (const size_t others = GoodCount(s, m.now); others < m.config.nodes_min) {
    s.set_aside.erase(origin.node);
    return absl::StrCat("; ", origin.hostname, " stays in", asked ? "" : " though " + began,
                        ": there ", others == 1 ? "is " : "are ",
                        Plural(others, "other node", "other nodes"), ", the job needs ",
                        m.config.nodes_min);
  }
  s.failures.erase(origin.node);
  return absl::StrCat("; ", origin.hostname, " is set aside for ",
                      ShortDuration(rules.bad_node_for), asked ? "" : ": " + began);
}

std::string ChargeRestart(Machine& m, const Failure& failure, const Verdict& verdict) {
  const Origin origin = OriginOf(m.state, failure);
  if (verdict.action != ExitAction::kRestartFree || Mutated(Mutation::kFreeCharged)) {
    Charge(m.state.used, origin);
  }
  return RestartText(m, origin, verdict);
}

void CountRestart(Machine& m, const Failure& failure, const Verdict& verdict,
                  const std::string& headline) {
  RoundState& s = m.state;
  const RestartRules& rules = m.config.rules;
  ++s.report.restarts;
  RestartRecord& last = s.last_restart;
  last = RestartRecord();
  last.origin = OriginOf(s, failure);
  last.action = verdict.action;
  last.of_standstill = failure.of_standstill;
  last.decided = m.now;
  last.text = ChargeRestart(m, failure, verdict);
  if (failure.worker != nullptr) {
    last.worker = failure.worker->exit;
  }
  s.short_rounds = s.lived < rules.wait_max ? s.short_rounds + 1 : 0;
  const absl::Duration wait =
      WaitBeforeRestart(rules, s.short_rounds, m.config.seed + s.report.restarts);
  last.not_before = m.now + wait;
  std::string line = absl::StrCat(headline, "; ", last.text);
  if (wait > absl::ZeroDuration()) {
    absl::StrAppend(&line, " in ", ShortDuration(wait), ": the last round lived ",
                    ShortDuration(s.lived));
  }
  line += NoteFailure(m, failure, verdict);
  TellNext(m, std::move(line));
}

void CountUserRestart(Machine& m) {
  RoundState& s = m.state;
  ++s.report.restarts;
  if (s.next.used_before.has_value()) {
    s.used = *s.next.used_before;  // what was about to be replaced starts anew with all the rest
  }
  s.short_rounds = 0;
  s.last_restart = RestartRecord();
  s.last_restart.by_user = true;
  s.last_restart.action = ExitAction::kRestartFree;
  s.last_restart.decided = s.last_restart.not_before = m.now;
  s.last_restart.text = s.lost_headline;
  TellNext(m, absl::StrCat(s.lost_headline, ", free of charge"));
}

// Who did not end within the grace, and may have lost what it was about to save.
std::string KilledText(const RoundState& s) {
  constexpr absl::Duration kClocks = absl::Seconds(1);  // that of the agent began a little earlier
  const absl::Time killed_at = s.stop_began + s.stop_grace - kClocks;
  std::vector<uint32_t> killed;
  for (const ExitRecord& record : s.report.exits) {
    const WorkerExit& exit = record.exit;
    if (record.round == s.round && exit.stopped_by_us && exit.kind == ExitKind::kSignaled &&
        exit.code == SIGKILL && !exit.oom_killed && record.seen >= killed_at) {
      killed.push_back(exit.rank.value);
    }
  }
  std::sort(killed.begin(), killed.end());
  return killed.empty() || s.phase != JobPhase::kStopping || s.stop_grace <= absl::ZeroDuration()
             ? ""
             : absl::StrCat("; killed, as ", killed.size() == 1 ? "it" : "they",
                            " had not ended after ", ShortDuration(s.stop_grace),
                            " (--restart-grace): ", killed.size() == 1 ? "rank " : "ranks ",
                            RangeList(killed));
}

void TellNext(Machine& m, std::string line) {
  line += KilledText(m.state);
  std::vector<std::string>& history = m.state.report.history;
  history.push_back(absl::StrCat("round ", m.state.round.ToString(), kOfRound, line));
  if (history.size() > kHistoryMax) {
    history.erase(history.begin());
  }
  m.out.push_back(Tell{std::move(line)});
}

std::string ToldLast(const RoundState& s) {
  const std::vector<std::string>& history = s.report.history;
  if (history.empty()) {
    return "";
  }
  const absl::string_view line = history.back();
  const size_t name = line.find(kOfRound);  // which the name of a round has not
  return std::string(name == absl::string_view::npos ? line : line.substr(name + kOfRound.size()));
}

}  // namespace muster
