#include "muster/communicator.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/base/arena_memory.h"
#include "worker_sdk/api/arguments.h"
#include "worker_sdk/bootstrap/agent_link.h"
#include "worker_sdk/bootstrap/environment.h"
#include "worker_sdk/executor/executor.h"
#include "worker_sdk/reduce/reduce.h"
#include "worker_sdk/transport/arena.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kWelcomeWithin{60};

// An argument, by its name.
struct Buffer {
  const char* name = nullptr;
  const void* data = nullptr;
};

struct Meeting {
  std::optional<AgentLink> link;
  std::unique_ptr<Arena> arena;
  Layout layout;
};

StatusOr<Meeting> MeetAlone(const WorkerIdentity& me) {
  const ArenaGeometry geometry = ArenaFor(1, 1, 1);
  const UniqueFd memory = MakeArenaMemory(geometry);
  if (!memory.valid()) {
    return Status(StatusCode::kInternal, std::string("memfd_create: ") + std::strerror(errno));
  }
  StatusOr<std::unique_ptr<Arena>> arena = Arena::Map(memory, geometry, 0, {me.rank}, {});
  if (!arena.ok()) {
    return arena.status();
  }
  return Meeting{std::nullopt, *std::move(arena), Layout::OneNode(1)};
}

StatusOr<Meeting> MeetAtAgent(const WorkerIdentity& me) {
  StatusOr<AgentLink> link = AgentLink::Open(me, kWelcomeWithin);
  if (!link.ok()) {
    return link.status();
  }
  StatusOr<Layout> layout = link->ReadLayout();
  if (!layout.ok()) {
    return layout.status();
  }
  const Layout::Seat seat = layout->SeatOf(me.rank);
  std::vector<uint32_t> ranks;
  for (uint32_t place = 0; place < layout->SizeOf(seat.node); ++place) {
    ranks.push_back(layout->RankOf(seat.node, place));
  }
  StatusOr<std::unique_ptr<Arena>> arena =
      Arena::Map(link->arena(), link->geometry(), seat.place, std::move(ranks),
                 WaitPolicyFor(me.local_size, link->cpus()));
  if (!arena.ok()) {
    return arena.status();
  }
  return Meeting{*std::move(link), *std::move(arena), *std::move(layout)};
}

// Ranks of a node that take part in a large reduction's traffic: a core each moves the data, and
// some are left to reduce the next chunk.
uint32_t CarriersFor(const Layout& layout, int64_t cpus) {
  constexpr int64_t kCarriersMax = 8;
  return std::min(layout.SmallestNode(),
                  static_cast<uint32_t>(std::clamp(cpus / 2, int64_t{1}, kCarriersMax)));
}

// What all ranks must have set alike: a number of it, and what it says.
int64_t SettingsOf(const WorkerIdentity& me) {
  return (me.wire == Wire::kFull ? 0 : 1) + (me.check ? 2 : 0);
}
std::string DescribeSettings(int64_t settings) {
  return std::string("MUSTER_WIRE=") + ((settings & 1) != 0 ? "bf16" : "full") +
         " MUSTER_CHECK=" + ((settings & 2) != 0 ? "crc" : "off");
}

// Above a rank in a number: the smallest has the lowest rank.
constexpr int64_t kAboveRank = int64_t{1} << 32;

// `least`, `most`: the smallest settings * kAboveRank + rank, and -settings * kAboveRank + rank.
Status CheckSettings(int64_t least, int64_t most) {
  const int64_t low = least / kAboveRank;
  const int64_t most_rank = (most % kAboveRank + kAboveRank) % kAboveRank;
  const int64_t high = (most_rank - most) / kAboveRank;
  if (low == high) {
    return {};
  }
  return {StatusCode::kFailedPrecondition,
          "ranks disagree on how to work together: rank " + std::to_string(least % kAboveRank) +
              " has " + DescribeSettings(low) + ", rank " + std::to_string(most_rank) + " has " +
              DescribeSettings(high) + ": give all the same (launch -x NAME=VALUE)"};
}

}  // namespace

class Communicator::Impl {
 public:
  Impl(const WorkerIdentity& me, Meeting meeting)
      : me_(me),
        link_(std::move(meeting.link)),
        executor_(
            std::move(meeting.arena), std::move(meeting.layout),
            [this](const std::vector<uint32_t>& ranks, const Executor::Take& take,
                   const Peers::GiveUp& give_up) { return link_->Connect(ranks, take, give_up); }) {
  }

  // The first call of all ranks: they agree on what schedules depend on.
  Status Meet() {
    const int64_t settings = SettingsOf(me_) * kAboveRank;
    const int64_t cpus = link_.has_value() ? link_->cpus() : 1;
    int64_t all[] = {cpus, settings + me_.rank, -settings + me_.rank};
    const Call smallest = {OpKind::kAllReduce, DType::kInt64, ReduceOp::kMin, 0, std::size(all)};
    if (Status status = executor_.Run(smallest, all, all); !status.ok()) {
      return status;
    }
    executor_.SetCarriers(CarriersFor(executor_.layout(), all[0]));
    return CheckSettings(all[1], all[2]);
  }

  const WorkerIdentity& me() const { return me_; }
  Wire wire() const { return wire_; }
  void SetWire(Wire wire) { wire_ = wire; }
  Executor& executor() { return executor_; }

  // Checks the arguments, then runs the call. `in`, `out`: what this rank has to have; null where
  // it needs none.
  Status Run(Call call, int64_t count, int root, const Buffer& in, const Buffer& out) {
    const char* const name = Name(call.kind);
    const int size = static_cast<int>(me_.size);
    Status status = CheckCount(name, count, call.dtype, size);
    if (status.ok()) {
      status = CheckRoot(name, root, size);
    }
    for (const Buffer* buffer : {&in, &out}) {
      if (status.ok() && buffer->name != nullptr) {
        status = CheckBuffer(name, buffer->name, buffer->data, count, call.dtype);
      }
    }
    if (!status.ok()) {
      return status;
    }
    call.count = static_cast<uint64_t>(count);
    call.root = static_cast<uint32_t>(root);
    status = executor_.Run(call, in.data, const_cast<void*>(out.data));
    return status.ok() && me_.check ? executor_.Check(call, out.data) : status;
  }
  Status Reduction(Call call, int64_t count, int root, const Buffer& in, const Buffer& out) {
    if (const Status status = CheckReduction(call.dtype, call.op); !status.ok()) {
      return {status.code(), std::string(Name(call.kind)) + ": " + status.message()};
    }
    call.wire = CanBeNarrow(call.kind, call.dtype, call.op) ? wire_ : Wire::kFull;
    return Run(call, count, root, in, out);
  }

 private:
  const WorkerIdentity me_;
  Wire wire_ = me_.wire;
  std::optional<AgentLink> link_;
  Executor executor_;
};

StatusOr<Communicator> Communicator::FromEnvironment() {
  StatusOr<WorkerIdentity> me =
      ReadIdentity([](const char* name) -> const char* { return std::getenv(name); });
  if (!me.ok()) {
    return me.status();
  }
  if (!me->notice.empty()) {
    std::fprintf(stderr, "%s\n", me->notice.c_str());
  }
  StatusOr<Meeting> meeting = me->launched ? MeetAtAgent(*me) : MeetAlone(*me);
  if (!meeting.ok()) {
    return meeting.status();
  }
  Communicator out(std::make_unique<Impl>(*me, *std::move(meeting)));
  out.SetTimeout(std::chrono::nanoseconds(static_cast<int64_t>(me->timeout_s * 1e9)));
  if (Status met = out.impl_->Meet(); !met.ok()) {
    return met;
  }
  return out;
}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const { return static_cast<int>(impl_->me().rank); }
int Communicator::size() const { return static_cast<int>(impl_->me().size); }
int Communicator::local_rank() const { return static_cast<int>(impl_->me().local_rank); }
int Communicator::local_size() const { return static_cast<int>(impl_->me().local_size); }
int Communicator::node_rank() const { return static_cast<int>(impl_->me().node_rank); }
int Communicator::nodes() const { return static_cast<int>(impl_->me().nodes); }
uint64_t Communicator::round() const { return impl_->me().round; }

void Communicator::SetTimeout(std::chrono::nanoseconds timeout) {
  impl_->executor().SetTimeout(timeout);
}

void Communicator::SetWire(Wire wire) { impl_->SetWire(wire); }
Wire Communicator::wire() const { return impl_->wire(); }

Status Communicator::Barrier() { return impl_->Run({OpKind::kBarrier}, 0, 0, {}, {}); }

Status Communicator::AllReduce(const void* in, void* out, int64_t count, DType dtype, ReduceOp op) {
  return impl_->Reduction({OpKind::kAllReduce, dtype, op}, count, 0, {"in", in}, {"out", out});
}

Status Communicator::Reduce(const void* in, void* out, int64_t count, DType dtype, ReduceOp op,
                            int root) {
  return impl_->Reduction({OpKind::kReduce, dtype, op}, count, root, {"in", in},
                          rank() == root ? Buffer{"out", out} : Buffer{});
}

Status Communicator::Broadcast(void* data, int64_t count, DType dtype, int root) {
  return impl_->Run({OpKind::kBroadcast, dtype}, count, root, {"data", data}, {"data", data});
}

Status Communicator::AllGather(const void* in, void* out, int64_t count, DType dtype) {
  return impl_->Run({OpKind::kAllGather, dtype}, count, 0, {"in", in}, {"out", out});
}

Status Communicator::Gather(const void* in, void* out, int64_t count, DType dtype, int root) {
  return impl_->Run({OpKind::kGather, dtype}, count, root, {"in", in},
                    rank() == root ? Buffer{"out", out} : Buffer{});
}

Status Communicator::Scatter(const void* in, void* out, int64_t count, DType dtype, int root) {
  return impl_->Run({OpKind::kScatter, dtype}, count, root,
                    rank() == root ? Buffer{"in", in} : Buffer{}, {"out", out});
}

Status Communicator::ReduceScatter(const void* in, void* out, int64_t count, DType dtype,
                                   ReduceOp op) {
  return impl_->Reduction({OpKind::kReduceScatter, dtype, op}, count, 0, {"in", in}, {"out", out});
}

Status Communicator::AllToAll(const void* in, void* out, int64_t count, DType dtype) {
  return impl_->Run({OpKind::kAllToAll, dtype}, count, 0, {"in", in}, {"out", out});
}

}  // namespace muster
