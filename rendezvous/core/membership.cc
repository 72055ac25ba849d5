// Nodes that come while a round runs, and lost ones whose agents are started again.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/limits.h"
#include "proto/base/mutation.h"
#include "proto/base/rng.h"
#include "proto/base/text.h"
#include "rendezvous/core/machine.h"

namespace muster {
namespace {

constexpr size_t kNewcomersNamed = 4;
// Nodes that are gone, beyond one for each place, which get that back when they come again.
constexpr size_t kGoneKept = 64;

// Whether all workers may be stopped for the sake of a node that comes or goes.
bool RegroupsAll(const RoundConfig& config) {
  return config.on_failure == OnFailure::kStop && config.restart == RestartMode::kAll;
}

// "node3 came: 3 nodes"
std::string WhoCame(const Machine& m) {
  const RoundState& s = m.state;
  const size_t places = m.config.nodes_max - s.members.size();
  const size_t came = std::min(places, NewcomersCount(s, m.now));
  std::vector<std::string> names;
  for (const NodeId id : s.ready) {
    if (names.size() < std::min(came, kNewcomersNamed) && !IsSetAside(s, id, m.now)) {
      names.push_back(s.nodes.at(id).join.hostname);
    }
  }
  if (came > names.size()) {
    names.push_back(absl::StrCat(came - names.size(), " more"));
  }
  return absl::StrCat(absl::StrJoin(names, ", "),
                      " came: ", Plural(s.members.size() + came, "node", "nodes"));
}

// Who has begun to end is not disturbed any more.
bool MayGrow(const Machine& m) {
  const RoundState& s = m.state;
  const bool ends = s.finished != 0 && !Mutated(Mutation::kGrowsAtTheEnd);
  return s.phase == JobPhase::kRunning && !s.paused && !ends && RegroupsAll(m.config) &&
         s.members.size() < m.config.nodes_max && NewcomersCount(s, m.now) > 0;
}

// Many nodes that are lost together do not come back in one moment.
absl::Duration BackOff(const std::string& key, uint32_t attempt) {
  uint64_t seed = attempt;
  for (const char c : key) {
    seed = seed * 31 + static_cast<unsigned char>(c);
  }
  absl::Duration wait = kStartAgainAfter;
  for (uint32_t i = 1; i < attempt && wait < kStartAgainAtMost; ++i) {
    wait *= kStartAgainGrowth;
  }
  wait = std::min(wait, kStartAgainAtMost);
  return absl::Trunc(wait * (0.5 + SplitMix64(seed).Unit()), absl::Milliseconds(1));
}

void Schedule(Machine& m, const std::string& key, Comeback& comeback) {
  RoundState& s = m.state;
  ++comeback.attempt;
  comeback.tries += comeback.failed == 0 ? 1 : 0;
  s.coming += comeback.awaited ? 0 : 1;
  comeback.awaited = true;
  comeback.due = m.now + BackOff(key, comeback.tries + comeback.failed);
  s.comebacks_due.insert({comeback.due, key});
}

bool MayTryAgain(const Comeback& comeback) {
  return comeback.tries < kStartsAgainMax || comeback.failed > 0 ||
         Mutated(Mutation::kStartsAgainEndless);
}

// What follows a start that failed; "" = it was said before.
std::string NextTry(const Comeback& comeback) {
  return comeback.failed == 0
             ? absl::StrCat("try ", comeback.tries, " of ", kStartsAgainMax, " follows")
         : comeback.failed < kStartsAgainMax ? "it is tried again"
         : comeback.failed == kStartsAgainMax
             ? absl::StrCat("it is tried again about every ", ShortDuration(kStartAgainAtMost),
                            ", for as long as the job waits or may grow")
             : "";
}

// Whether a round may follow that has a place for a node that comes back.
bool RoundMayFollow(const Machine& m) {
  const RoundState& s = m.state;
  switch (s.phase) {
    case JobPhase::kGathering:
      return true;
    case JobPhase::kRunning:
      return !GoesOn(m) || m.config.restart == RestartMode::kOne;
    case JobPhase::kStopping:
      return !s.stop_is_final;
    case JobPhase::kEnding:
    case JobPhase::kEnded:
      return false;
  }
  return false;
}

// A machine that was not there at the start, and that the job can do without, may be switched on.
bool MayComeLater(const Machine& m, const std::string& key) {
  const RoundState& s = m.state;
  return m.config.starts_again && m.config.machines_return && RegroupsAll(m.config) &&
         m.config.nodes_min < m.config.nodes_max && RoundMayFollow(m) && s.by_key.count(key) == 0 &&
         s.start_failed.count(key) == 0 && EnoughWithout(m.config, s.start_failed.size() + 1);
}

}  // namespace

bool NodesMayGo(const Machine& m) {
  return RegroupsAll(m.config) &&
         (m.config.nodes_min < m.config.nodes_max || m.config.spares.value_or(0) > 0);
}

bool EnoughWithout(const RoundConfig& config, size_t given_up) {
  const size_t all = std::max<size_t>(config.expected.size(), config.nodes_max);
  return all >= given_up + config.nodes_min;
}

bool EnoughMayCome(const Machine& m) {
  return m.config.expected.empty() || m.live() + m.state.coming >= m.config.nodes_min;
}

void ForgetGone(Machine& m) {
  RoundState& s = m.state;
  const size_t kept_max = m.config.nodes_max + kGoneKept;
  // Members that are lost, and nodes that are awaited or set aside, stay: so it pays to look.
  const size_t stay = s.live + s.members.size() + s.coming + s.set_aside.size();
  if (s.nodes.size() <= kept_max + stay) {
    return;
  }
  std::set<NodeId> members;
  for (const Member& member : s.members) {
    members.insert(member.node);
  }
  std::vector<std::pair<absl::Time, NodeId>> gone;
  for (const auto& [id, node] : s.nodes) {
    const auto comeback = s.comebacks.find(node.join.key);
    const bool awaited = comeback != s.comebacks.end() && comeback->second.awaited;
    if (!node.IsLive() && members.count(id) == 0 && !awaited && s.set_aside.count(id) == 0) {
      gone.emplace_back(node.last_sign, id);
    }
  }
  std::sort(gone.begin(), gone.end());
  gone.resize(gone.size() - std::min(gone.size(), kept_max));
  for (const auto& [last_sign, id] : gone) {
    const Join& join = s.nodes.at(id).join;
    s.by_key.erase(join.key);
    s.comebacks.erase(join.key);
    if (const auto wish = s.by_wish.find(join.node_rank);
        wish != s.by_wish.end() && wish->second == id) {
      s.by_wish.erase(wish);
    }
    s.nodes.erase(id);
  }
  std::erase_if(s.by_life, [&s](const auto& life) { return s.nodes.count(life.second) == 0; });
}

void TryGrow(Machine& m) {
  RoundState& s = m.state;
  if (!MayGrow(m)) {
    s.note_stale = s.note_stale || s.grow_at != absl::InfiniteFuture();
    s.grow_at = absl::InfiniteFuture();
    return;
  }
  const absl::Duration wait =
      Mutated(Mutation::kGrowsTooSoon) ? absl::ZeroDuration() : kGrowthEvery;
  const absl::Time earliest = s.round_began + wait;
  const bool all = s.members.size() + NewcomersCount(s, m.now) >= m.config.nodes_max;
  if (s.grow_at == absl::InfiniteFuture()) {
    s.grow_at = std::max(m.now + m.config.last_call, earliest);
    s.note_stale = true;
  }
  if (all && s.grow_at > earliest) {
    s.grow_at = earliest;
    s.note_stale = true;
  }
  if (m.now >= s.grow_at) {
    s.grow_at = absl::InfiniteFuture();
    StopForGrowth(m, WhoCame(m));
  }
}

bool PlanComeback(Machine& m, const NodeState& node) {
  if (!m.config.starts_again || !RoundMayFollow(m) || Mutated(Mutation::kComebackForgotten)) {
    return false;
  }
  const std::string& key = node.join.key;
  Comeback& comeback = m.state.comebacks[key];
  if (m.now - node.admitted >= kStartsForgotten) {
    comeback.tries = 0;
  }
  if (!MayTryAgain(comeback)) {
    m.state.start_failed.insert(key);
    return false;
  }
  Schedule(m, key, comeback);
  return true;
}

void SendComebacks(Machine& m) {
  RoundState& s = m.state;
  while (!s.comebacks_due.empty() && s.comebacks_due.begin()->first <= m.now) {
    const std::string key = s.comebacks_due.begin()->second;
    s.comebacks_due.erase(s.comebacks_due.begin());
    Comeback& comeback = s.comebacks.at(key);
    comeback.due = absl::InfiniteFuture();
    if (!RoundMayFollow(m)) {
      EndComeback(m, key);
      continue;
    }
    m.out.push_back(StartAgain{key, comeback.attempt, comeback.failed});
  }
}

void EndComeback(Machine& m, const std::string& key) {
  RoundState& s = m.state;
  const auto it = s.comebacks.find(key);
  if (it == s.comebacks.end() || !it->second.awaited) {
    return;
  }
  s.comebacks_due.erase({it->second.due, key});
  it->second.due = absl::InfiniteFuture();
  it->second.awaited = false;
  it->second.failed = 0;
  --s.coming;
}

void OnStartFailed(Machine& m, const StartFailed& event) {
  RoundState& s = m.state;
  const auto it = s.comebacks.find(event.key);
  if (event.attempt != (it == s.comebacks.end() ? 0 : it->second.attempt)) {
    return;  // of an earlier life, whose end has been seen
  }
  const auto known = s.by_key.find(event.key);
  if (s.phase == JobPhase::kEnding && known != s.by_key.end() &&
      s.nodes.at(known->second).status == NodeStatus::kLeft) {
    return;  // it has heard of the job's end, and has gone: others may take longer
  }
  const bool awaited = it != s.comebacks.end() && it->second.awaited;
  // What befalls an agent in the moment before it joins is as if it had joined. Where the first
  // says why it cannot, another would say the same.
  const bool lost = it == s.comebacks.end() && event.killed && m.config.starts_again &&
                    s.by_key.count(event.key) == 0 && s.start_failed.count(event.key) == 0;
  const bool was_there = known != s.by_key.end();
  if (awaited && m.config.machines_return && (was_there || it->second.failed > 0)) {
    ++it->second.failed;
  }
  if ((lost || (awaited && MayTryAgain(it->second))) && RoundMayFollow(m)) {
    Comeback& comeback = s.comebacks[event.key];
    Schedule(m, event.key, comeback);
    if (const std::string next = NextTry(comeback); !next.empty()) {
      m.out.push_back(Tell{absl::StrCat(event.reason, "; ", next)});
    }
    return;
  }
  EndComeback(m, event.key);
  if (!MayComeLater(m, event.key)) {
    return GiveUpNode(m, event.key, event.reason);
  }
  GiveUpNode(m, event.key,
             absl::StrCat(event.reason, "; it is tried again while the job may grow"));
  Comeback& comeback = s.comebacks[event.key];
  comeback.failed = 1;
  Schedule(m, event.key, comeback);
}

}  // namespace muster
