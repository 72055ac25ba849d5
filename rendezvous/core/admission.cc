// Who is let in, as whom.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/mutation.h"
#include "proto/base/text.h"
#include "rendezvous/core/agreement.h"
#include "rendezvous/core/latecomer.h"
#include "rendezvous/core/liveness.h"
#include "rendezvous/core/machine.h"
#include "rendezvous/core/why_waiting.h"

namespace muster {
namespace {

void TurnAway(Machine& m, const JoinReceived& event, std::string reason) {
  m.out.push_back(Reply{event.reply, Refused{event.join.life, std::move(reason)}});
}

// A node for which others wait: they are told why that is in vain.
void Refuse(Machine& m, const JoinReceived& event, const std::string& reason) {
  constexpr size_t kNotedMax = 32;
  RoundState& s = m.state;
  const std::string& hostname = event.join.hostname;
  if (s.phase == JobPhase::kGathering &&
      (s.refused.size() < kNotedMax || s.refused.count(hostname) != 0)) {
    s.refused[hostname] = reason;
    s.note_stale = true;
  }
  TurnAway(m, event, reason);
  if (m.config.refused_is_final && s.start_failed.count(event.join.key) == 0) {
    GiveUpNode(m, event.join.key, absl::StrCat(hostname, " is refused: ", reason));
  }
}

void Admit(Machine& m, ReplyId reply, NodeId id, const NodeState& node) {
  m.out.push_back(
      Reply{reply, Admitted{node.join.life, id, node.incarnation, m.config.beat_interval,
                            m.config.lease, m.config.epoch, m.config.journal}});
}

// Nobody is there to agree with.
bool NobodyBefore(const RoundState& state) { return state.live == 0 && state.round.IsNone(); }

// Why the options of this node do not fit the job's; "" if they do.
std::string Disagreement(const Machine& m, const Join& join) {
  const bool by_first = m.config.agreed.by.empty();
  if (by_first && NobodyBefore(m.state)) {
    return "";
  }
  const Agreement& agreed = by_first ? m.state.agreed : m.config.agreed;
  const auto differs = FirstDifference(agreed.options, join.must_agree);
  if (!differs.has_value()) {
    return "";
  }
  const auto quoted = [](const std::string* value) {
    return value == nullptr ? "none" : absl::StrCat("'", *value, "'");
  };
  const bool one_host = agreed.by == join.hostname;
  return absl::StrCat(differs->option, ": ", one_host ? "another launch on " : "", agreed.by,
                      " has ", quoted(differs->one), ", ", one_host ? "this one" : join.hostname,
                      " has ", quoted(differs->other),
                      "; give the same value on every node, or another job another --rdzv-id");
}

std::string TwiceAskedFor(const std::string& place, const Join& first, const Join& second) {
  return absl::StrCat(place, ": asked for by ",
                      first.hostname == second.hostname
                          ? absl::StrCat("two launches on ", first.hostname)
                          : absl::StrCat("both ", first.hostname, " and ", second.hostname),
                      "; give each node its own");
}

// Whether `join` shows that nothing of this life is left: it has what that one held to its end. Of
// two machines that say the same (a clone of one that ran) only one has the address. A Join that
// was sent by a life before this one, and comes late, shows nothing.
bool Follows(const Join& join, const NodeState& node) {
  const bool same = join.hold.id == node.join.hold.id || Mutated(Mutation::kHoldNotCompared);
  return !join.hold.id.empty() && same && join.hold.taken > node.join.hold.taken &&
         join.address == node.join.address && join.life != node.join.life;
}

// The job before is over for whoever comes now: it begins the next one of that name, when this one
// has ended. One that still holds workers is no newcomer.
bool BeginsTheNext(const Machine& m, const Join& join) {
  return m.config.next_job_follows && OnlyEnds(m.state) && join.holds.IsNone() &&
         !ComesTooLate(m.config, m.state, join);
}

void AskAgain(Machine& m, const JoinReceived& event) {
  std::string why = absl::StrCat("the job '", m.config.job_id,
                                 "' before this one is being stopped: this one begins when that "
                                 "has ended");
  m.out.push_back(Reply{event.reply, Refused{event.join.life, std::move(why)},
                        /*asks_again=*/true});
}

// The living holder of the very place that `join` asks for. With a journal also one without a
// connection: its workers may run, unless `join` shows that they do not.
const NodeState* Holder(const Machine& m, const Join& join) {
  const RoundState& state = m.state;
  const auto it = state.by_key.find(join.key);
  if (!join.key_is_exact || it == state.by_key.end()) {
    return nullptr;
  }
  const NodeState& node = state.nodes.at(it->second);
  const bool holds = node.status == NodeStatus::kAlive || (m.config.journal && node.IsLive());
  return holds && !Follows(join, node) ? &node : nullptr;
}

// The key under which a new life is kept. A key that names a machine, not a place, may have several
// live holders.
std::string KeyFor(const RoundState& state, const Join& join) {
  std::string key = join.key;
  for (uint32_t n = 2; !join.key_is_exact; ++n) {
    const auto it = state.by_key.find(key);
    if (it == state.by_key.end() || !state.nodes.at(it->second).IsLive() ||
        Follows(join, state.nodes.at(it->second))) {
      break;
    }
    key = absl::StrCat(join.key, "#", n);
  }
  return key;
}

std::string TookItsPlace(const Join& join) {
  return absl::StrCat("a new agent on ", join.hostname, " took its place");
}

// Why it makes no sense, whoever sends it; "" if it does.
std::string WhySenseless(const Join& join) {
  if (join.workers < 1 || join.workers > kWorkersPerNodeMax) {
    return absl::StrCat("--nproc-per-node: want 1..", kWorkersPerNodeMax, ", got ", join.workers,
                        " on ", join.hostname);
  }
  if (!join.ranks.empty() && join.ranks.size() != join.workers) {
    return absl::StrCat(join.hostname, " asks for ", join.ranks.size(), " ranks and has ",
                        join.workers, " workers");
  }
  if (!join.worker_ports.empty() && join.worker_ports.size() != join.workers) {
    return absl::StrCat(join.hostname, " has kept ", join.worker_ports.size(), " ports and has ",
                        join.workers, " workers");
  }
  return "";
}

// Why a new life cannot come in; "" if it can.
std::string WhyNot(const Machine& m, const Join& join) {
  const RoundState& s = m.state;
  if (std::string why = WhySenseless(join); !why.empty()) {
    return why;
  }
  if (s.live >= kNodesMax) {
    return absl::StrCat("the job has ", s.live, " nodes already; the limit is ", kNodesMax);
  }
  if (m.config.spares.has_value() && m.config.expected.empty()) {
    const auto before = s.by_key.find(KeyFor(s, join));
    const bool takes_over = before != s.by_key.end() && s.nodes.at(before->second).IsLive();
    const uint32_t others = s.live - (takes_over ? 1 : 0);
    if (others >= m.config.nodes_max + *m.config.spares) {
      return absl::StrCat("the job has its ", Plural(m.config.nodes_max, "node", "nodes"), " and ",
                          Plural(*m.config.spares, "spare", "spares"),
                          " (--nnodes, --spares): start the command on ", join.hostname,
                          " again when one of them has gone");
    }
  }
  if (join.node_rank >= 0) {
    const uint32_t places = m.config.nodes_max + m.config.spares.value_or(0);
    const bool too_high = static_cast<uint32_t>(join.node_rank) >= places;
    if (too_high && m.config.expected.empty()) {
      return absl::StrCat("--node-rank: want 0..", places - 1, " with --nnodes ",
                          m.config.nodes_max, ", got ", join.node_rank, " on ", join.hostname);
    }
    const auto holder = s.by_wish.find(join.node_rank);
    if (holder != s.by_wish.end()) {
      const NodeState& other = s.nodes.at(holder->second);
      if (other.IsLive() && other.join.node_rank == join.node_rank && other.join.key != join.key) {
        return TwiceAskedFor(absl::StrCat("--node-rank ", join.node_rank), other.join, join);
      }
    }
  }
  return Disagreement(m, join);
}

std::string PlaceOf(const Join& join) {
  return join.node_rank >= 0 ? absl::StrCat("--node-rank ", join.node_rank)
                             : absl::StrCat("the place '", join.key, "'");
}

// For one who cannot know why it waits. An agent that a starter has started has nobody to read it.
void TellContender(Machine& m, const JoinReceived& event, const NodeState& holder) {
  if (m.config.starts_again) {
    return;
  }
  const absl::Duration left = std::max(holder.expires - m.now, absl::ZeroDuration());
  std::string why = absl::StrCat(
      PlaceOf(event.join), " is held by an earlier launch on ", holder.join.hostname, ", which ",
      holder.status == NodeStatus::kAlive ? "has not been heard since"
                                          : "has lost its connection: workers of it may still run",
      "; this one begins when its lease ends, in ",
      ShortDuration(absl::Ceil(left, absl::Seconds(1))), ", unless that one is back");
  m.out.push_back(Reply{event.reply, Refused{event.join.life, std::move(why)},
                        /*asks_again=*/true});
}

// A newcomer for a place that is held: its holder may have crashed unseen, and then the newcomer
// comes in when the lease ends; or be well, as its next beat shows, and then the newcomer is one
// too many. False: it has to ask again.
bool MayReplace(Machine& m, const JoinReceived& event) {
  std::map<uint64_t, absl::Time>& contenders = m.state.contenders;
  const NodeState* holder = Holder(m, event.join);
  if (holder == nullptr) {
    contenders.erase(event.join.life);
    return true;
  }
  if (contenders.size() >= kNodesMax) {
    contenders.clear();  // they only wait a little longer
  }
  const auto [entry, first] = contenders.try_emplace(event.join.life, m.now);
  if (holder->heard > entry->second) {
    contenders.erase(event.join.life);
    Refuse(m, event, TwiceAskedFor(PlaceOf(event.join), holder->join, event.join));
  } else if (first) {
    TellContender(m, event, *holder);
  }
  return false;
}

// A life says again who it is: what it was let in with stays. Where it was `lost`, its place is
// given away: it may run something else there, as a node whose place another life has had.
void TakeAgain(NodeState& node, const Join& again, bool lost) {
  const Join first = std::exchange(node.join, again);
  node.join.key = first.key;
  node.join.key_is_exact = first.key_is_exact;
  node.join.node_rank = first.node_rank;
  node.join.must_agree = first.must_agree;
  if (!lost) {
    node.join.workers = first.workers;
    node.join.ranks = first.ranks;
    if (again.workers != first.workers) {
      node.join.worker_ports = first.worker_ports;
    }
  }
}

// One life, seen again: its connection came back, a Join was repeated, or it had been given up.
void Readmit(Machine& m, const JoinReceived& event, NodeId id, NodeState& node) {
  RoundState& s = m.state;
  const std::string key = node.join.key;
  const bool was_lost = !node.IsLive();
  // A Join proves only that it can speak, not that it hears: it does not renew a live node.
  if (node.status != NodeStatus::kAlive) {
    node.status = NodeStatus::kAlive;
    Watch(s, id, node, m.now + m.config.lease + m.config.lease_slack);
  }
  TakeAgain(node, event.join, was_lost);
  if (was_lost) {
    ++s.live;
    s.start_failed.erase(key);
    EndComeback(m, key);
    node.admitted = m.now;
    node.incarnation = Incarnation{++s.incarnations};
    node.place = -1;
    node.phase = AgentPhase::kStopping;  // until it beats
    node.ended = false;
    if (s.phase == JobPhase::kEnding) {
      s.pending.insert(id);
    }
  }
  UpdateReady(m, id, node);
  s.note_stale = true;
  Admit(m, event.reply, id, node);
}

// What the node is there for is done; with no word its user would take it to have run.
void TellTooLate(Machine& m, NodeId id, const NodeState& node) {
  const RoundState& s = m.state;
  const bool did_well = s.report.ended && s.report.exit_code == 0;
  if (!did_well || node.rank_kept.has_value() || s.members.size() >= m.config.nodes_max) {
    return SendDirective(m, id, nullptr);
  }
  SendNotices(m, id,
              {absl::StrCat("the job has ended well before ", node.join.hostname,
                            " came: nothing runs here (to run it again, give another --rdzv-id)")});
}

void AdmitNewLife(Machine& m, const JoinReceived& event) {
  RoundState& s = m.state;
  const std::string key = KeyFor(s, event.join);
  NodeId id;
  if (const auto it = s.by_key.find(key); it != s.by_key.end()) {
    id = it->second;
    m.admits = true;  // OnJoin looks whether a round can start
    Lose(m, id, TookItsPlace(event.join));
    m.admits = false;
    if (BeginsTheNext(m, event.join)) {
      return AskAgain(m, event);  // the job could not do without the life before
    }
  } else {
    id = NodeId{++s.node_ids};
    s.by_key[key] = id;
  }
  NodeState& node = s.nodes[id];
  const std::optional<NodeRank> kept = node.rank_kept;
  node = NodeState();
  node.rank_kept = kept;
  node.join = event.join;
  node.join.key = key;
  node.incarnation = Incarnation{++s.incarnations};
  node.store_port = event.join.store_port;
  node.behind = key == event.join.key ? NodeId() : s.by_key.at(event.join.key);
  node.admitted = node.heard = node.last_sign = m.now;
  // Of a job that is over it needs to hear only that; nobody waits for it.
  node.ended = s.phase == JobPhase::kEnding || s.phase == JobPhase::kEnded;
  s.by_life[event.join.life] = id;
  if (event.join.node_rank >= 0) {
    s.by_wish[event.join.node_rank] = id;
  }
  s.start_failed.erase(key);
  s.refused.erase(event.join.hostname);
  EndComeback(m, key);
  if (NobodyBefore(s)) {
    s.agreed = {event.join.must_agree, event.join.hostname};
  }
  ++s.live;
  Watch(s, id, node, m.now + m.config.lease + m.config.lease_slack);
  UpdateReady(m, id, node);
  s.note_stale = true;
  Admit(m, event.reply, id, node);
  if (node.ended) {
    TellTooLate(m, id, node);
  } else if (s.phase == JobPhase::kRunning && s.next.vacant.empty() &&
             s.members.size() >= m.config.nodes_max) {
    m.out.push_back(Tell{absl::StrCat(
        event.join.hostname,
        WaitsForLease(m.config, s, node) ? " waits until the lease of its predecessor there ends"
                                         : " waits as a spare",
        ": the job runs with ", s.members.size(), " of at most ", m.config.nodes_max, " nodes")});
  }
}

}  // namespace

void LoseTheOneBefore(Machine& m, const Join& join) {
  const auto it = m.state.by_key.find(KeyFor(m.state, join));
  if (it != m.state.by_key.end() && Follows(join, m.state.nodes.at(it->second))) {
    Lose(m, it->second, TookItsPlace(join));
  }
}

void OnJoin(Machine& m, const JoinReceived& event) {
  RoundState& s = m.state;
  if (event.join.holds > s.round) {
    return Refuse(
        m, event,
        absl::StrCat("this master does not know round ", event.join.holds.ToString(), ", which ",
                     event.join.hostname,
                     " runs: the master that started it has ended, and no journal brought "
                     "the job to this one; start the job again"));
  }
  const auto known = s.by_life.find(event.join.life);
  if (known == s.by_life.end() && BeginsTheNext(m, event.join)) {
    LoseTheOneBefore(m, event.join);
    AskAgain(m, event);
  } else if (known == s.by_life.end()) {
    std::string why = WhyNot(m, event.join);
    if (!why.empty()) {
      LoseTheOneBefore(m, event.join);
      if (BeginsTheNext(m, event.join)) {
        return AskAgain(m, event);
      }
      why = WhyNot(m, event.join);  // it may have been for the sake of that one
    }
    if (!why.empty()) {
      return Refuse(m, event, why);
    }
    if (MayReplace(m, event)) {
      AdmitNewLife(m, event);
    }
  } else {
    NodeState& node = s.nodes.at(known->second);
    if (node.join.life != event.join.life) {
      return TurnAway(m, event,
                      absl::StrCat("the place of this agent was taken by a newer one on ",
                                   node.join.hostname, "; start one agent for each node"));
    }
    if (const std::string why = WhySenseless(event.join); !why.empty()) {
      return TurnAway(m, event, why);
    }
    Readmit(m, event, known->second, node);
  }
  TryStart(m);
}

}  // namespace muster
