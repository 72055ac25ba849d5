#include "worker_sdk/api/meeting.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "proto/base/arena_memory.h"
#include "proto/base/why_no_memory.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kWelcomeWithin{60};

Status InSplit(const Status& status) {
  return {status.code(), "split: " + status.message(), status.peer()};
}

StatusOr<Meeting> MeetAllAt(StatusOr<std::unique_ptr<AgentLink>> link, const WorkerIdentity& job) {
  if (!link.ok()) {
    return link.status();
  }
  const AgentLink& agent = **link;
  StatusOr<Layout> layout = agent.ReadLayout();
  if (!layout.ok()) {
    return layout.status();
  }
  const uint64_t round = agent.round();
  const bool replaces = agent.replaces();
  StatusOr<Meeting> out = MeetAt(*std::move(link), *std::move(layout), job.rank, job.local_size);
  if (out.ok()) {
    out->round = round;
    out->replaces = replaces;
  }
  return out;
}

// Nobody waits in a group for a rank that could not enter it.
Status AgreeThatAllEntered(Executor& all, const Status& mine) {
  int32_t failed = mine.ok() ? -1 : static_cast<int32_t>(all.rank());
  const Call highest = {OpKind::kAllReduce, DType::kInt32, ReduceOp::kMax, 0, 1};
  const Status agreed = all.Run(highest, &failed, &failed);
  if (!mine.ok() || !agreed.ok()) {
    return mine.ok() ? agreed : mine;
  }
  return failed < 0 ? Status()
                    : Status(StatusCode::kFailedPrecondition,
                             all.layout().NameOf(static_cast<uint32_t>(failed)) +
                                 " could not enter its group: its own error says why",
                             failed);
}

}  // namespace

StatusOr<Meeting> MeetAlone(Layout layout) {
  const ArenaGeometry geometry = ArenaFor(1, 1, 1);
  const UniqueFd memory = MakeArenaMemory(geometry);
  if (!memory.valid()) {
    return Status(StatusCode::kResourceExhausted,
                  "no shared memory: " + WhyNoMemory(errno, geometry.Bytes()));
  }
  StatusOr<std::unique_ptr<Arena>> arena = Arena::Map(memory, geometry, 0, {0}, {});
  if (!arena.ok()) {
    return arena.status();
  }
  return Meeting{nullptr, *std::move(arena), std::move(layout), 0};
}

StatusOr<Meeting> MeetAt(std::unique_ptr<Link> link, Layout layout, uint32_t rank,
                         uint32_t local_size) {
  const Layout::Seat seat = layout.SeatOf(rank);
  StatusOr<std::unique_ptr<Arena>> arena =
      Arena::Map(link->arena(), link->geometry(), seat.place, layout.RanksOf(seat.node),
                 WaitPolicyFor(local_size, link->cpus()));
  if (!arena.ok()) {
    return arena.status();
  }
  return Meeting{std::move(link), *std::move(arena), std::move(layout), rank};
}

StatusOr<Meeting> MeetAtAgent(const WorkerIdentity& job) {
  return MeetAllAt(AgentLink::Open(job, kWelcomeWithin), job);
}

StatusOr<Meeting> MeetInNextRound(const WorkerIdentity& job,
                                  const std::function<Status()>& give_up) {
  return MeetAllAt(AgentLink::Follow(job, give_up), job);
}

StatusOr<Meeting> MeetAsGroup(SplitGroup group, const WorkerIdentity& job, uint64_t number) {
  const Layout& layout = group.layout;
  if (layout.world() == 1) {
    return MeetAlone(std::move(group.layout));
  }
  const Layout::Seat seat = layout.SeatOf(group.rank);
  LinkGroup link_group = {number, seat.place, layout.nodes(), layout.world(), {}};
  for (const uint32_t rank : layout.RanksOf(seat.node)) {
    link_group.ranks_here.push_back(layout.InJob(rank));
  }
  if (!job.launched) {
    return Status(StatusCode::kUnimplemented,
                  "these processes met at a store: make the group at a store of its own");
  }
  StatusOr<std::unique_ptr<AgentLink>> link = AgentLink::Open(job, kWelcomeWithin, link_group);
  if (!link.ok()) {
    return link.status();
  }
  return MeetAt(*std::move(link), std::move(group.layout), group.rank, job.local_size);
}

StatusOr<std::optional<Meeting>> MeetInGroup(Executor& all, const WorkerIdentity& job,
                                             const SplitId& id, const SplitWish& wish) {
  static_assert(sizeof(SplitWish) == 2 * sizeof(int64_t));
  std::vector<SplitWish> wishes(all.layout().world());
  const Call gather = {OpKind::kSplit, DType::kInt64, ReduceOp::kSum, 0, 2};
  if (Status status = all.Run(gather, &wish, wishes.data()); !status.ok()) {
    return InSplit(status);
  }
  std::optional<Meeting> out;
  Status entered;
  if (wish.color >= 0) {
    StatusOr<Meeting> met = MeetAsGroup(GroupOf(all.layout(), wishes, all.rank()), job,
                                        GroupNumber(id.communicator, id.splits, wish.color));
    entered = met.status();
    if (met.ok()) {
      out.emplace(*std::move(met));
    }
  }
  if (Status status = AgreeThatAllEntered(all, entered); !status.ok()) {
    return InSplit(status);
  }
  return out;
}

WorkerIdentity IdentityIn(const Layout& group, uint32_t rank, const WorkerIdentity& job) {
  const Layout::Seat seat = group.SeatOf(rank);
  WorkerIdentity out = job;
  out.rank = rank;
  out.size = group.world();
  out.local_rank = seat.place;
  out.local_size = group.SizeOf(seat.node);
  out.node_rank = seat.node;
  out.nodes = group.nodes();
  return out;
}

Status AboutPeer(const Status& status, uint32_t rank) {
  return {status.code(), status.message(), status.peer() < 0 ? -1 : static_cast<int>(rank)};
}

Status Connect(const Link& link, const Layout& layout, const std::vector<uint32_t>& ranks,
               const Executor::Take& take, const Peers::GiveUp& give_up) {
  std::vector<uint32_t> in_job;
  in_job.reserve(ranks.size());
  for (const uint32_t rank : ranks) {
    in_job.push_back(layout.InJob(rank));
  }
  const auto ours = [&](uint32_t rank_of_job) {
    return ranks[static_cast<size_t>(std::find(in_job.begin(), in_job.end(), rank_of_job) -
                                     in_job.begin())];
  };
  return link.Connect(
      in_job,
      [&](uint32_t rank, StatusOr<UniqueFd> answer) -> Status {
        if (!answer.ok()) {
          return AboutPeer(answer.status(), ours(rank));
        }
        take(ours(rank), *std::move(answer));
        return {};
      },
      [&](uint32_t rank) { return give_up(ours(rank)); });
}

}  // namespace muster
