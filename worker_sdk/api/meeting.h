// How the ranks of a communicator come together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "muster/status.h"
#include "worker_sdk/algorithm/layout.h"
#include "worker_sdk/algorithm/split.h"
#include "worker_sdk/bootstrap/agent_link.h"
#include "worker_sdk/bootstrap/environment.h"
#include "worker_sdk/bootstrap/link.h"
#include "worker_sdk/executor/executor.h"
#include "worker_sdk/transport/arena.h"

namespace muster {

struct Meeting {
  std::unique_ptr<Link> link;  // null: a communicator of one rank needs none
  std::unique_ptr<Arena> arena;
  Layout layout;
  uint32_t rank = 0;
  bool has_agent = true;  // false: its ranks look after themselves, and no group is made of it
  // Of all ranks of the job, from the agent.
  uint64_t round = 0;
  bool replaces = false;  // AgentLink
};

// `layout`: of one rank.
StatusOr<Meeting> MeetAlone(Layout layout);
// All ranks of the job.
StatusOr<Meeting> MeetAtAgent(const WorkerIdentity& job);
// At the arena of `link`; `local_size` ranks share the cores of this node.
StatusOr<Meeting> MeetAt(std::unique_ptr<Link> link, Layout layout, uint32_t rank,
                         uint32_t local_size);
// In the round after that of `job`, when there is one: AgentLink::Follow.
StatusOr<Meeting> MeetInNextRound(const WorkerIdentity& job,
                                  const std::function<Status()>& give_up);

// A group of the job's ranks, with a number that nothing else of its round has (from kGroupMin on).
StatusOr<Meeting> MeetAsGroup(SplitGroup group, const WorkerIdentity& job, uint64_t number);

// A split of a communicator: the same two numbers on all its ranks.
struct SplitId {
  uint64_t communicator = 0;  // Link::number()
  uint64_t splits = 0;        // before this one
};
// The group that `wish` asks for, once all ranks of `all` have made theirs and have entered their
// groups; nullopt: it asks for none. Where one rank fails all do, and `all` goes on unless the
// error is its own. `job`: as the agent knows this process.
StatusOr<std::optional<Meeting>> MeetInGroup(Executor& all, const WorkerIdentity& job,
                                             const SplitId& id, const SplitWish& wish);

// This process as `rank` of a group.
WorkerIdentity IdentityIn(const Layout& group, uint32_t rank, const WorkerIdentity& job);

// What the agent says of a rank, as an error about `rank` of a communicator.
Status AboutPeer(const Status& status, uint32_t rank);

// Link::Connect, with ranks as `layout` counts them.
Status Connect(const Link& link, const Layout& layout, const std::vector<uint32_t>& ranks,
               const Executor::Take& take, const Peers::GiveUp& give_up);

}  // namespace muster
