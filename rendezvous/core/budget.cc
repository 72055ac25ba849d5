#include "rendezvous/core/budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/mutation.h"
#include "proto/base/rng.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr double kJitter = 0.2;         // of a wait, to either side
constexpr uint32_t kDoublingsMax = 20;  // 12 days of a wait that began with 1 s

template <typename Key>
uint32_t UsedBy(const std::map<Key, uint32_t>& used, const Key& key) {
  const auto it = used.find(key);
  return it == used.end() ? 0 : it->second;
}

std::string HasUsed(const std::string& who, uint32_t limit, const char* option) {
  return limit == 0 ? absl::StrCat(who, " has no restart (", option, " 0)")
                    : absl::StrCat(who, " has used ", limit == 1 ? "its " : "all its ",
                                   Plural(limit, "restart", "restarts"), " (", option, ")");
}

}  // namespace

void Charge(RestartsUsed& used, const Origin& origin) {
  used.job += Mutated(Mutation::kRestartNotCounted) ? 0 : 1;
  if (Mutated(Mutation::kOwnBudgetForgotten)) {
    return;
  }
  if (origin.rank.has_value()) {
    ++used.by_rank[*origin.rank];
  }
  ++used.by_node[origin.node];
}

std::string UsedUp(const RestartRules& rules, uint32_t restarts_max, const RestartsUsed& used,
                   const Origin& origin) {
  if (used.job >= restarts_max) {
    return HasUsed("the job", restarts_max, "--max-restarts");
  }
  if (rules.of_rank.has_value() && origin.rank.has_value() &&
      UsedBy(used.by_rank, *origin.rank) >= *rules.of_rank) {
    return HasUsed(absl::StrCat("rank ", origin.rank->value), *rules.of_rank,
                   "--restarts-per-rank");
  }
  if (rules.of_node.has_value() && UsedBy(used.by_node, origin.node) >= *rules.of_node) {
    return HasUsed(origin.hostname, *rules.of_node, "--restarts-per-node");
  }
  return "";
}

std::string UsedText(const RestartRules& rules, uint32_t restarts_max, const RestartsUsed& used,
                     const Origin& origin) {
  std::vector<std::string> own;
  if (rules.of_rank.has_value() && origin.rank.has_value()) {
    own.push_back(absl::StrCat("rank ", origin.rank->value, ": ",
                               UsedBy(used.by_rank, *origin.rank), " of ", *rules.of_rank));
  }
  if (rules.of_node.has_value()) {
    own.push_back(absl::StrCat(origin.hostname, ": ", UsedBy(used.by_node, origin.node), " of ",
                               *rules.of_node));
  }
  return absl::StrCat(used.job, " of ", restarts_max,
                      own.empty() ? "" : absl::StrCat(" (", absl::StrJoin(own, "; "), ")"));
}

absl::Duration WaitBeforeRestart(const RestartRules& rules, uint32_t short_rounds, uint64_t seed) {
  if (short_rounds < 2 || Mutated(Mutation::kBackoffSkipped)) {
    return absl::ZeroDuration();
  }
  const uint32_t doublings = std::min(short_rounds - 2, kDoublingsMax);
  const absl::Duration wait =
      std::min(rules.wait_first * (int64_t{1} << doublings), rules.wait_max);
  const double jitter = 1 - kJitter + 2 * kJitter * SplitMix64(seed).Unit();
  return absl::Floor(std::min(wait * jitter, rules.wait_max), absl::Milliseconds(1));
}

}  // namespace muster
