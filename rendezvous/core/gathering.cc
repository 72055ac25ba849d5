// From nobody to a round that runs.
#include <algorithm>
#include <csignal>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/mutation.h"
#include "rendezvous/core/machine.h"
#include "rendezvous/core/rank_assign.h"
#include "rendezvous/core/why_waiting.h"

namespace muster {
namespace {

// What takes less needs no word, on any node: of two that start together either may be the first.
constexpr absl::Duration kTellFirst = absl::Seconds(3);
constexpr absl::Duration kTellEvery = absl::Seconds(10);
// The note for waiting agents is O(N) work: at most this often.
constexpr absl::Duration kNoteEvery = absl::Seconds(1);

// What it said is of another phase or round: no throttle.
void ForgetNote(RoundState& s) {
  s.note_stale = true;
  s.note_made = absl::InfinitePast();
}

std::vector<NodeId> ChooseMembers(const Machine& m) {
  const RoundState& s = m.state;
  std::set<NodeId> last;
  for (const Member& member : s.members) {
    last.insert(member.node);
  }
  std::vector<Candidate> candidates;
  for (const NodeId id : s.ready) {
    if (IsLeftOut(m.config, s, id, m.now)) {
      continue;
    }
    const NodeState& node = s.nodes.at(id);
    candidates.push_back({id, node.join.node_rank, node.rank_kept, last.count(id) != 0});
  }
  return AssignRanks(std::move(candidates), m.config.nodes_max);
}

bool IsLoopback(const std::string& address) {
  return absl::StartsWith(address, "127.") || address == "::1";
}

// Whether the nodes of `order` have, all together, each rank of the world once: from their places,
// or as they ask.
bool RanksAreWhole(const RoundState& s, const std::vector<NodeId>& order, uint64_t world) {
  std::vector<bool> seen(world);
  size_t asked = 0;
  for (const NodeId id : order) {
    for (const uint32_t rank : s.nodes.at(id).join.ranks) {
      if (rank >= world || seen[rank]) {
        return false;
      }
      seen[rank] = true;
      ++asked;
    }
  }
  return asked == 0 || asked == world;
}

void TellTakenBack(Machine& m, const std::vector<NodeId>& order) {
  for (const NodeId id : order) {
    if (IsSetAside(m.state, id, m.now)) {
      m.out.push_back(Tell{absl::StrCat(m.state.nodes.at(id).join.hostname,
                                        " was set aside and is taken: the others are too few")});
    }
  }
}

void StartRound(Machine& m) {
  RoundState& s = m.state;
  std::vector<NodeId> order = ChooseMembers(m);
  if (Mutated(Mutation::kRanksSwapped) && s.restarting && order.size() > 1) {
    std::swap(order[0], order[1]);
  }
  uint64_t world = 0;
  for (const NodeId id : order) {
    world += s.nodes.at(id).join.workers;
  }
  if (world > kWorldSizeMax) {
    return EndJob(m, 1, CauseKind::kNeverFormed,
                  absl::StrCat("the nodes would run ", world, " workers; the limit is ",
                               kWorldSizeMax, ": ask for fewer with --nproc-per-node"));
  }
  if (!RanksAreWhole(s, order, world)) {
    return EndJob(m, 1, CauseKind::kNeverFormed,
                  absl::StrCat("the ranks that the nodes ask for are not 0..", world - 1,
                               ", each once: all nodes of the list must be there"));
  }
  TellTakenBack(m, order);
  s.phase = JobPhase::kRunning;
  if (!Mutated(Mutation::kRoundIdReused) || s.round.IsNone()) {
    s.round = NextRound(m.config, s);
  }
  SetMembers(m, order);
  s.unstarted = {order.begin(), order.end()};
  s.ended.assign(s.world_size, false);
  s.told.assign(s.world_size, false);
  s.finished = 0;
  s.round_began = m.now;
  s.chain = s.round;
  s.started_in.assign(m.config.restart == RestartMode::kOne ? s.world_size : 0, s.round.n);
  s.next = Replacement();
  s.lost_in_place.clear();
  s.paid_for.clear();
  s.failures_told = 0;
  s.signals.clear();
  s.stop_reason = StopReason::kNone;
  s.stop_is_final = false;
  s.last_call_at = s.next_tell = absl::InfiniteFuture();
  ForgetNote(s);
  s.report.exits.clear();
  s.blamed.clear();
  s.report.ended_well.clear();
  s.report.lost_nodes.clear();
  s.report.first.reset();
  if (m.config.journal && !(Mutated(Mutation::kRoundNotKept) && s.restarting)) {
    m.record.round = KeepRound(s);
  }
  m.out.push_back(RoundStarted{s.round, s.world_size, static_cast<uint32_t>(order.size())});
  SendToMembers(m);
  TellUnlikePrograms(m);
}

// Whether a spare of the host list would run only because a node before it takes longer to come.
bool SpareBeforeItsTime(const Machine& m) {
  const RoundState& s = m.state;
  if (s.restarting || m.config.expected.size() <= m.config.nodes_max) {
    return false;
  }
  const auto placed = std::count_if(s.ready.begin(), s.ready.end(), [&](NodeId id) {
    return s.nodes.at(id).join.node_rank < static_cast<int32_t>(m.config.nodes_max);
  });
  return static_cast<size_t>(placed) + s.start_failed.size() < m.config.nodes_max;
}

}  // namespace

void SetMembers(Machine& m, const std::vector<NodeId>& order) {
  RoundState& s = m.state;
  s.members.clear();
  s.layout.clear();
  s.ranks_by_node.clear();
  s.pending.clear();
  s.world_size = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    NodeState& node = s.nodes.at(order[i]);
    const uint32_t workers = node.join.workers;
    const std::vector<uint32_t>& ranks = node.join.ranks;
    s.members.push_back(
        {order[i], node.incarnation, Rank{s.world_size}, workers, ranks, node.store_port, s.round});
    node.signals_before = 0;
    s.ranks_by_node.insert(s.ranks_by_node.end(), ranks.begin(), ranks.end());
    s.world_size += workers;
    node.place = static_cast<int32_t>(i);
    if (!node.rank_kept.has_value()) {
      node.rank_kept = NodeRank{static_cast<uint32_t>(i)};
    }
    s.pending.insert(order[i]);
    s.ready.erase(order[i]);
    if (!s.layout.empty() && s.layout.back().first == workers) {
      ++s.layout.back().second;
    } else {
      s.layout.push_back({workers, 1});
    }
  }
  SetAddresses(m.config, s);
}

void SetAddresses(const RoundConfig& config, RoundState& state) {
  const Member& first = state.members.front();
  const auto address = [&state](const Member& member) -> const std::string& {
    return state.nodes.at(member.node).join.address;
  };
  const auto all = [&state](const auto& holds) {
    return std::all_of(state.members.begin(), state.members.end(), holds);
  };
  state.master_addr = config.master_addr.empty() ? address(first) : config.master_addr;
  state.master_port = config.master_port != 0 ? config.master_port : first.port;
  state.one_host = all([&](const Member& member) { return address(member) == address(first); }) ||
                   all([&](const Member& member) { return IsLoopback(address(member)); });
}

void BeginGathering(Machine& m, bool restarting) {
  RoundState& s = m.state;
  s.phase = JobPhase::kGathering;
  s.restarting = restarting;
  s.gathering_since = m.now;
  s.last_call_at = absl::InfiniteFuture();
  s.next_tell = m.now + kTellFirst;
  s.stop_signal = SIGTERM;
  s.stop_grace = m.config.restart_grace;
  ForgetNote(s);
  s.pending.clear();
  s.refused.clear();
  for (auto& [id, node] : s.nodes) {
    node.place = -1;
    UpdateReady(m, id, node);
  }
}

namespace {

// A node that was lost, and whose machine has not come back; "" = there is none.
std::string LostAndAwaited(const RoundState& s) {
  for (const auto& [key, comeback] : s.comebacks) {
    if (const auto it = s.by_key.find(key); comeback.awaited && it != s.by_key.end()) {
      return s.nodes.at(it->second).join.hostname;
    }
  }
  return "";
}

}  // namespace

void TryStart(Machine& m) {
  RoundState& s = m.state;
  if (m.admits) {
    return;
  }
  TryReplace(m);
  if (s.phase != JobPhase::kGathering || s.paused) {
    return;
  }
  const size_t ready = ReadyCount(m.config, s, m.now);
  if (ready < m.config.nodes_min) {
    s.last_call_at = absl::InfiniteFuture();
    if (m.now >= s.gathering_since + m.config.join_timeout) {
      s.report.lost_node = LostAndAwaited(s);
      EndJob(m, 1, s.report.lost_node.empty() ? CauseKind::kNeverFormed : CauseKind::kNodeLost,
             NeverFormed(m.config, s, m.now));
    }
    return;
  }
  if (s.last_call_at == absl::InfiniteFuture()) {
    s.last_call_at = m.now + m.config.last_call;
    s.note_stale = true;
  }
  // After a restart nobody else is expected: the nodes that are there go on at once.
  const bool all = (ready >= m.config.nodes_max && !SpareBeforeItsTime(m)) ||
                   (s.restarting && ready == LiveCount(m.config, s, m.now));
  if (m.now >= s.last_restart.not_before && (all || m.now >= s.last_call_at)) {
    StartRound(m);
  }
}

void GiveUpNode(Machine& m, const std::string& key, const std::string& reason) {
  RoundState& s = m.state;
  const auto it = s.by_key.find(key);
  const bool came_by_another_way = it != s.by_key.end() && s.nodes.at(it->second).IsLive();
  if (!came_by_another_way) {
    s.start_failed.insert(key);
  }
  const bool ends = s.phase == JobPhase::kGathering && !came_by_another_way &&
                    !EnoughWithout(m.config, s.start_failed.size());
  const bool is_all = ends && s.start_failed.size() == 1;  // then the report says it
  if (!is_all) {
    m.out.push_back(Tell{reason});
  }
  if (!ends) {
    return;
  }
  if (s.restarting && it != s.by_key.end()) {
    s.report.lost_node = s.nodes.at(it->second).join.hostname;
  }
  EndJob(m, 1, s.report.lost_node.empty() ? CauseKind::kNeverFormed : CauseKind::kNodeLost,
         is_all ? reason
                : absl::StrCat(s.start_failed.size(),
                               " nodes could not join the job; the last: ", reason));
}

void TellWaiting(Machine& m) {
  RoundState& s = m.state;
  if (s.phase == JobPhase::kGathering && m.now >= s.next_tell) {
    ForgetNote(s);
    m.out.push_back(Tell{WaitingNote(m)});
    s.next_tell = m.now + kTellEvery;
  }
}

std::string WaitingNote(Machine& m) {
  RoundState& s = m.state;
  if (s.phase == JobPhase::kGathering && m.now < s.gathering_since + kTellFirst &&
      m.now >= s.last_restart.not_before) {
    return "";
  }
  if (s.note_stale && m.now >= s.note_made + kNoteEvery) {
    s.note = s.phase == JobPhase::kGathering ? WhyWaiting(m.config, s, m.now)
                                             : WhySpare(m.config, s, m.now);
    s.note_made = m.now;
    s.note_stale = false;
  }
  return s.note;
}

}  // namespace muster
