// `launch chaos`: whom it hits. The order goes to the node with every directive until it says that
// it has been carried out.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "rendezvous/core/machine.h"

namespace muster {
namespace {

struct Hit {
  NodeId node;
  LocalRank worker;
};

bool IsMember(const RoundState& s, const Member& member) {
  const NodeState& node = s.nodes.at(member.node);
  return node.incarnation == member.incarnation && node.IsLive();
}

absl::StatusOr<Hit> FindWorker(const RoundState& s, const std::string& text) {
  uint32_t rank = 0;
  if (s.phase != JobPhase::kRunning) {
    return absl::FailedPreconditionError("no round runs now");
  }
  if (!absl::SimpleAtoi(text, &rank) || rank >= s.world_size) {
    return absl::NotFoundError(
        absl::StrCat("there is no rank ", text, ": want 0..", s.world_size - 1));
  }
  for (const Member& member : s.members) {
    for (uint32_t local = 0; local < member.workers; ++local) {
      if (member.RankAt(local) != rank) {
        continue;
      }
      if (s.ended[rank] || !IsMember(s, member)) {
        return absl::FailedPreconditionError(absl::StrCat("rank ", rank, " has ended already"));
      }
      return Hit{member.node, LocalRank{local}};
    }
  }
  return absl::NotFoundError(absl::StrCat("nobody runs rank ", rank));
}

// By its place in the list of hosts, its node rank, or its host name.
absl::StatusOr<Hit> FindNode(const RoundConfig& config, const RoundState& s,
                             const std::string& text) {
  uint32_t number = 0;
  const bool is_number = absl::SimpleAtoi(text, &number);
  const auto listed = std::find(config.expected.begin(), config.expected.end(), text);
  std::optional<NodeId> found;
  for (const auto& [id, node] : s.nodes) {
    const bool named =
        is_number ? node.place == static_cast<int32_t>(number)
        : listed != config.expected.end()
            ? node.join.node_rank == static_cast<int32_t>(listed - config.expected.begin())
            : node.join.hostname == text;
    if (!node.IsLive() || !named) {
      continue;
    }
    if (found.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("several nodes are called ", text, ": give the node rank"));
    }
    found = id;
  }
  if (!found.has_value()) {
    return absl::NotFoundError(absl::StrCat("no node that is there is called ", text));
  }
  return Hit{*found, LocalRank{}};
}

// Where many nodes are one machine, they have names of their own.
std::string NameOf(const RoundConfig& config, const NodeState& node) {
  const auto place = static_cast<size_t>(node.join.node_rank);
  return node.join.node_rank >= 0 && place < config.expected.size() ? config.expected[place]
                                                                    : node.join.hostname;
}

std::string Sentence(const DrillAsked& asked, const std::string& host) {
  const std::string length = absl::StrCat(" for ", ShortDuration(asked.drill.length));
  switch (asked.drill.kind) {
    case DrillKind::kKillWorker:
      return absl::StrCat("rank ", asked.target, " on ", host, " is killed");
    case DrillKind::kKillNode:
      return absl::StrCat("the agent of ", host, " is killed, and all its workers");
    case DrillKind::kFreeze:
      return absl::StrCat(host, " stands still", length);
    case DrillKind::kCut:
      return absl::StrCat("nothing goes between ", host, " and the others", length);
    case DrillKind::kSlow:
      return absl::StrCat("what goes between ", host, " and the others arrives ",
                          ShortDuration(asked.drill.delay), " later", length);
  }
  return "";
}

struct Ordered {
  NodeId node;
  std::string sentence;
};

absl::StatusOr<Ordered> Order(Machine& m, const DrillAsked& asked) {
  RoundState& s = m.state;
  if (s.phase == JobPhase::kEnding || s.phase == JobPhase::kEnded) {
    return absl::FailedPreconditionError("the job ends");
  }
  ASSIGN_OR_RETURN(const Hit hit, asked.drill.kind == DrillKind::kKillWorker
                                      ? FindWorker(s, asked.target)
                                      : FindNode(m.config, s, asked.target));
  NodeState& node = s.nodes.at(hit.node);
  if (node.drills.size() >= kDrillsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(NameOf(m.config, node), " has not done the last ", kDrillsMax, " yet"));
  }
  DrillOrder order = asked.drill;
  order.seq = ++s.drills;
  order.worker = hit.worker;
  node.drills.push_back(order);
  return Ordered{hit.node, Sentence(asked, NameOf(m.config, node))};
}

}  // namespace

void OnDrill(Machine& m, const DrillAsked& asked) {
  const absl::StatusOr<Ordered> done = Order(m, asked);
  if (!done.ok()) {
    m.out.push_back(OrderAnswered{asked.ask, false, std::string(done.status().message())});
    return;
  }
  // The answer goes first: who is frozen or killed may be the process that passes it on.
  m.out.push_back(Tell{absl::StrCat("launch chaos: ", done->sentence)});
  m.out.push_back(OrderAnswered{asked.ask, true, done->sentence});
  SendDirective(m, done->node, nullptr);
}

void TakeDrillsDone(NodeState& node, uint32_t done) {
  std::vector<DrillOrder>& drills = node.drills;
  drills.erase(std::remove_if(drills.begin(), drills.end(),
                              [&](const DrillOrder& drill) { return drill.seq <= done; }),
               drills.end());
}

}  // namespace muster
