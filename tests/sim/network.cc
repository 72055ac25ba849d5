// Connections and what travels on them.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/world.h"

namespace muster::sim {
namespace {

constexpr Nanos kWireMin = 100'000;  // one way, without faults
constexpr Nanos kWireMax = 300'000;
constexpr Incarnation kOfOldMaster = {~uint64_t{0}};

}  // namespace

// The link of an agent retries by itself.
void World::Connect(uint32_t who) {
  Process& p = processes_[who];
  if (!p.alive || p.finished || p.connection != 0) {
    return;
  }
  if (!serving_ || p.cut_in || p.cut_out || now_ < std::max(master_frozen_, master_down_)) {
    return Post(Between(200 * kMilli, 1000 * kMilli), Kind::kConnect, who);
  }
  connections_.push_back({who, true, config_.epoch, NodeId(), Incarnation()});
  p.connection = connections_.size();
  Post(Between(kWireMin, kWireMax), Kind::kLinkUp, who, 0, p.connection);
}

void World::LinkIsUp(const Event& event) {
  const Process& p = processes_[event.who];
  if (p.alive && p.connection == event.number) {
    StepAgent(event.who, LinkUp{});
    if (p.state.epoch_max > 1 && now_ % 2 == 0) {  // a master that another has replaced wakes up
      SendToAgent(event.number,
                  Admitted{p.config.join.life, NodeId{1}, Incarnation{~uint64_t{0}},
                           config_.beat_interval, config_.lease, p.state.epoch_max - 1, true});
    }
  }
}

void World::LinkIsDown(const Event& event) {
  Process& p = processes_[event.who];
  if (!p.alive || p.connection != event.number) {
    return;
  }
  p.connection = 0;
  StepAgent(event.who, LinkDown{"reset"});
  Post(Between(10 * kMilli, 1000 * kMilli), Kind::kConnect, event.who);
}

void World::Close(uint64_t connection, bool agent_sees, bool master_sees) {
  if (connection == 0) {
    return;
  }
  if (agent_sees) {
    Post(Delay(), Kind::kLinkDown, connections_[connection - 1].process, 0, connection);
  }
  if (master_sees) {
    Post(Delay(), Kind::kMasterClosed, 0, 0, connection);
  }
}

Nanos World::Delay() {
  const Nanos base = Between(kWireMin, kWireMax);
  return !healed_ && Chance(wire_.late) ? base + Between(0, wire_.late_max) : base;
}

int World::Copies() {
  if (healed_) {
    return 1;
  }
  return Chance(wire_.loss) ? 0 : Chance(wire_.twice) ? 2 : 1;
}

void World::SendToMaster(uint32_t who, AgentMessage message) {
  const Process& p = processes_[who];
  if (p.connection == 0 || p.cut_out) {
    return;
  }
  const auto post = [&](uint32_t slot) { Post(Delay(), Kind::kToMaster, who, slot, p.connection); };
  const int copies = Copies();
  for (int i = 1; i < copies; ++i) {
    post(to_master_.Put(message));
  }
  if (copies > 0) {
    post(to_master_.Put(std::move(message)));
  }
}

void World::SendToAgent(uint64_t connection, MasterMessage message) {
  const uint32_t who = connections_[connection - 1].process;
  if (processes_[who].cut_in) {
    return;
  }
  const auto post = [&](uint32_t slot) { Post(Delay(), Kind::kToAgent, who, slot, connection); };
  const int copies = Copies();
  for (int i = 1; i < copies; ++i) {
    post(to_agent_.Put(message));
  }
  if (copies > 0) {
    post(to_agent_.Put(std::move(message)));
  }
}

void World::ArrivedAtMaster(const Event& event) {
  AgentMessage message = to_master_.Take(event.slot);
  // What a master's queue held when it closed the connection still comes out of it.
  const bool queued = !healed_ && serving_ && std::holds_alternative<Beat>(message) &&
                      connections_[event.number - 1].epoch == config_.epoch && Chance(0.3);
  if (!serving_ || now_ < master_down_ || (!connections_[event.number - 1].open && !queued)) {
    return Close(event.number, /*agent_sees=*/true, /*master_sees=*/false);
  }
  processes_[event.who].heard = now_;
  if (auto* beat = std::get_if<Beat>(&message)) {
    Mix(beat->seq ^ beat->round.Token());
    const NodeId node = beat->node;
    const Incarnation incarnation = beat->incarnation;
    const absl::Time heard = HeardOf(node);
    StepMaster(BeatReceived{std::move(*beat)});
    CheckOldLife(node, incarnation, heard);
  } else if (auto* join = std::get_if<Join>(&message)) {
    StepMaster(JoinReceived{ReplyId{event.number}, std::move(*join)});
  } else {
    StepMaster(LeaveReceived{std::get<Leave>(std::move(message))});
  }
}

void World::ArrivedAtAgent(const Event& event) {
  MasterMessage message = to_agent_.Take(event.slot);
  const Process& p = processes_[event.who];
  if (p.alive && p.connection == event.number) {
    StepAgent(event.who, MessageReceived{std::move(message)});
  }
  if (p.state.incarnation == kOfOldMaster) {
    Fail(absl::StrCat("A5: ", p.config.join.hostname, " believes a master of a lower epoch"));
  }
}

}  // namespace muster::sim
