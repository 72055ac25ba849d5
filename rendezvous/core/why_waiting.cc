#include "rendezvous/core/why_waiting.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/text.h"
#include "rendezvous/core/liveness.h"
#include "rendezvous/core/policy.h"

namespace muster {
namespace {

constexpr size_t kNamesMax = 8;

std::string Minutes(absl::Duration d) {
  const int64_t seconds = absl::ToInt64Seconds(d);
  return seconds >= 60 && seconds % 60 == 0 ? absl::StrCat(seconds / 60, " min") : ShortDuration(d);
}

std::string NotReadyBecause(const NodeState& node) {
  return absl::StrCat(node.join.hostname,
                      node.status == NodeStatus::kSuspect ? " (its connection closed)"
                      : node.phase != AgentPhase::kReady  ? " (still ends its workers)"
                                                          : " (has no port for the store yet)");
}

// "a (why), b": what is wrong with one is mostly wrong with all.
std::string WhoIsRefused(const RoundState& state) {
  std::vector<std::string> names;
  for (const auto& [hostname, why] : state.refused) {
    names.push_back(names.empty() ? absl::StrCat(hostname, " (", why, ")") : hostname);
  }
  return FewNames(std::move(names));
}

// "have a, b; not ready: c (...); missing d; refused: e (...)", each part only where there is one.
std::string WhoIsThere(const RoundConfig& config, const RoundState& state, absl::Time now) {
  std::vector<std::string> have;
  std::vector<std::string> not_ready;
  for (const auto& [id, node] : state.nodes) {
    if (IsSetAside(state, id, now) && node.IsLive()) {
      not_ready.push_back(absl::StrCat(node.join.hostname, " (set aside)"));
    } else if (state.ready.count(id) != 0) {
      have.push_back(node.join.hostname);
    } else if (node.IsLive()) {
      not_ready.push_back(NotReadyBecause(node));
    }
  }
  const std::vector<std::string> missing = MissingNodes(config, state);
  return absl::StrCat(
      have.empty() ? "have none" : absl::StrCat("have ", FewNames(have)),
      not_ready.empty() ? "" : absl::StrCat("; not ready: ", FewNames(not_ready)),
      missing.empty() ? "" : absl::StrCat("; missing ", FewNames(missing)),
      state.refused.empty() ? "" : absl::StrCat("; refused: ", WhoIsRefused(state)));
}

// "4 nodes", "2 to 4 nodes"
std::string NodesWanted(const RoundConfig& config) {
  return config.nodes_min == config.nodes_max
             ? Plural(config.nodes_max, "node", "nodes")
             : absl::StrCat(config.nodes_min, " to ", config.nodes_max, " nodes");
}

}  // namespace

std::string FewNames(std::vector<std::string> names) {
  const size_t all = names.size();
  if (all > kNamesMax) {
    names.resize(kNamesMax);
    names.push_back(absl::StrCat("and ", all - kNamesMax, " more"));
  }
  return absl::StrJoin(names, ", ");
}

std::string WhyWaiting(const RoundConfig& config, const RoundState& state, absl::Time now) {
  const size_t have = ReadyCount(config, state, now);
  const RestartRecord& last = state.last_restart;
  const std::string waited = ShortDuration(now - state.gathering_since);
  if (have >= config.nodes_min && now < last.not_before) {
    return absl::StrCat(last.text, " in ", ShortDuration(last.not_before - now),
                        ": the last round lived ", ShortDuration(state.lived));
  }
  if (have >= config.nodes_min) {
    return absl::StrCat("have ", have, " of ", NodesWanted(config), "; starting in ",
                        ShortDuration(state.last_call_at - now), " unless more come");
  }
  return absl::StrCat("waiting for ", config.nodes_min - have, " of ", NodesWanted(config), ": ",
                      WhoIsThere(config, state, now), "; ", waited,
                      config.join_timeout == absl::InfiniteDuration()
                          ? ""
                          : absl::StrCat(", until ", Minutes(config.join_timeout)));
}

std::string NeverFormed(const RoundConfig& config, const RoundState& state, absl::Time now) {
  return absl::StrCat("only ", state.ready.size(), " of ", NodesWanted(config),
                      " came together within ", Minutes(now - state.gathering_since), ": ",
                      WhoIsThere(config, state, now),
                      "; check that the command runs on every node and that each can reach this "
                      "one, or give more time (--rdzv-conf join_timeout=SECONDS)");
}

std::vector<std::string> MissingNodes(const RoundConfig& config, const RoundState& state) {
  std::set<std::string> names;
  std::set<size_t> places;
  for (const auto& [id, node] : state.nodes) {
    if (!node.IsLive()) {
      continue;
    }
    if (node.join.node_rank >= 0) {
      places.insert(static_cast<size_t>(node.join.node_rank));
    } else {
      names.insert(node.join.hostname);
    }
  }
  std::vector<std::string> missing;
  for (size_t i = 0; i < config.expected.size(); ++i) {
    if (places.count(i) == 0 && names.count(config.expected[i]) == 0) {
      missing.push_back(config.expected[i]);
    }
  }
  return missing;
}

std::string WhySetAside(const SetAside& one, absl::Time now) {
  return absl::StrCat("this node is set aside for another ", ShortDuration(one.until - now), ": ",
                      one.why);
}

bool WaitsForLease(const RoundConfig& config, const RoundState& state, const NodeState& node) {
  const auto before = state.nodes.find(node.behind);
  return config.journal && before != state.nodes.end() &&
         before->second.status == NodeStatus::kSuspect && InRound(state, before->second);
}

std::string WhyWaitsForLease(const RoundConfig& config, const RoundState& state,
                             const NodeState& node) {
  return absl::StrCat("the job runs with ", Plural(state.members.size(), "node", "nodes"),
                      "; this node waits until the lease of its predecessor on ",
                      state.nodes.at(node.behind).join.hostname, " ends, ",
                      ShortDuration(SuspectTime(config)),
                      " after that lost its connection: workers of it may still run");
}

bool WantsSpares(const RoundConfig& config) {
  return config.spares.has_value() || !config.expected.empty();
}

std::string WhySpare(const RoundConfig& config, const RoundState& state, absl::Time now) {
  const std::string runs =
      absl::StrCat("the job runs with ", Plural(state.members.size(), "node", "nodes"));
  if (state.members.size() >= config.nodes_max) {
    return absl::StrCat(runs, "; this node waits as a spare",
                        WantsSpares(config) ? "" : " (for a job of its own: another --rdzv-id)");
  }
  return absl::StrCat(runs, "; this node joins the next round",
                      state.grow_at == absl::InfiniteFuture()
                          ? ""
                          : absl::StrCat(", in ", ShortDuration(state.grow_at - now)));
}

}  // namespace muster
