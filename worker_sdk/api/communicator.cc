#include "muster/communicator.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker_sdk/algorithm/agreement.h"
#include "worker_sdk/algorithm/split.h"
#include "worker_sdk/api/calls.h"
#include "worker_sdk/api/meeting.h"
#include "worker_sdk/bootstrap/agent_link.h"
#include "worker_sdk/bootstrap/environment.h"
#include "worker_sdk/executor/call_queue.h"
#include "worker_sdk/executor/executor.h"
#include "worker_sdk/transport/direct_read.h"
#include "worker_sdk/transport/messages.h"

namespace muster {
namespace {

// Connections for messages, from the agent, and what it is told of failures.
class LinkSource : public MessageSource {
 public:
  LinkSource(const std::optional<AgentLink>& link, const Layout& layout, uint32_t mine)
      : link_(link), layout_(layout), mine_(mine) {}
  Status Seek(uint32_t rank) override {
    return link_->Seek(layout_.InJob(rank), LinkChannel::kMessages);
  }
  std::optional<StatusOr<UniqueFd>> Take(uint32_t rank) override {
    std::optional<StatusOr<UniqueFd>> out =
        link_->Take(layout_.InJob(rank), LinkChannel::kMessages);
    if (out.has_value() && !out->ok()) {
      return StatusOr<UniqueFd>(AboutPeer(out->status(), rank));
    }
    return out;
  }
  // Once: what fails later may fail because of that. Of a rank that others have told us of, too.
  void Blame(uint32_t rank) override {
    if (link_.has_value() && rank < layout_.world() && rank != mine_ && !blamed_.exchange(true)) {
      link_->Blame(layout_.InJob(rank));
    }
  }

 private:
  const std::optional<AgentLink>& link_;  // a world of one sends to itself only, and needs none
  const Layout& layout_;
  const uint32_t mine_;
  std::atomic<bool> blamed_ = false;
};

// One that was started.
class MessageWork : public Pending {
 public:
  MessageWork(std::shared_ptr<Messages> messages, uint32_t rank, TransferPtr transfer,
              std::chrono::nanoseconds timeout)
      : messages_(std::move(messages)),
        rank_(rank),
        transfer_(std::move(transfer)),
        timeout_(timeout) {}
  Status Wait() override { return messages_->Wait(rank_, transfer_, timeout_); }
  bool Test() override { return messages_->Test(transfer_); }

 private:
  const std::shared_ptr<Messages> messages_;
  const uint32_t rank_;
  const TransferPtr transfer_;
  const std::chrono::nanoseconds timeout_;
};

}  // namespace

class Communicator::Impl {
 public:
  // `job`: as the agent knows this process; `me`: in this communicator.
  Impl(const WorkerIdentity& job, const WorkerIdentity& me, Meeting meeting)
      : job_(job),
        me_(me),
        link_(std::move(meeting.link)),
        executor_(std::move(meeting.arena), std::move(meeting.layout),
                  [this](const std::vector<uint32_t>& ranks, const Executor::Take& take,
                         const Peers::GiveUp& give_up) {
                    return Connect(*link_, executor_.layout(), ranks, take, give_up);
                  }),
        source_(link_, executor_.layout(), me.rank),
        messages_(std::make_shared<Messages>(&executor_.arena(), &executor_.layout(), &source_)) {
    executor_.SetBackground(&Messages::ProgressAll);
  }
  ~Impl() {
    (void)queue_.Run([] { return Status(); });  // it has come to its end
    messages_->Close();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // The first calls of all ranks: they agree on what schedules depend on.
  Status Meet() { return Told(MeetAll()); }

  pid_t process() const { return process_; }
  const WorkerIdentity& job() const { return job_; }
  const WorkerIdentity& me() const { return me_; }

  Wire wire() const { return wire_; }
  void SetWire(Wire wire) { wire_ = wire; }
  // With its arguments checked.
  Calls calls() const { return {static_cast<int>(me_.rank), static_cast<int>(me_.size), wire_}; }
  std::chrono::nanoseconds timeout() const { return timeout_; }
  void SetTimeout(std::chrono::nanoseconds timeout) { timeout_ = timeout; }
  Status Run(const Collective& it) {
    return it.wrong.ok() ? queue_.Run([&] { return RunNow(it, timeout_); }) : it.wrong;
  }
  Work Start(const Collective& it) {
    if (!it.wrong.ok()) {
      return Work(it.wrong);
    }
    StatusOr<std::shared_ptr<Pending>> started =
        queue_.Start([this, it, timeout = timeout_] { return RunNow(it, timeout); });
    return started.ok() ? Work(*std::move(started)) : Work(started.status());
  }
  Counters counters() {
    return queue_.Run([&] { return executor_.counters(); });
  }
  std::chrono::nanoseconds WaitedFor(uint32_t rank) {
    return queue_.Run([&] { return executor_.WaitedFor(rank); });
  }
  Status Send(const OneMessage& it) {
    return it.wrong.ok()
               ? messages_->SendNow(it.peer, it.tag, it.dtype, it.data, it.bytes, timeout_)
               : it.wrong;
  }
  Work StartSend(const OneMessage& it) {
    return it.wrong.ok()
               ? Started(it.peer, messages_->Send(it.peer, it.tag, it.dtype, it.data, it.bytes))
               : Work(it.wrong);
  }
  Status Receive(const OneMessage& it) {
    return it.wrong.ok()
               ? messages_->ReceiveNow(it.peer, it.tag, it.dtype, it.data, it.bytes, timeout_)
               : it.wrong;
  }
  Work StartReceive(const OneMessage& it) {
    return it.wrong.ok()
               ? Started(it.peer, messages_->Receive(it.peer, it.tag, it.dtype, it.data, it.bytes))
               : Work(it.wrong);
  }

  // Where this rank's group has met; nullopt: it wants none.
  StatusOr<std::optional<Meeting>> Split(const SplitWish& wish) {
    const uint64_t number = link_.has_value() ? link_->number() : 0;
    return queue_.Run([&] {
      executor_.SetTimeout(timeout_);
      StatusOr<std::optional<Meeting>> met =
          MeetInGroup(executor_, job_, {number, splits_++}, wish);
      (void)Told(met.status());
      return met;
    });
  }

 private:
  Work Started(uint32_t peer, TransferPtr transfer) {
    return Work(std::make_shared<MessageWork>(messages_, peer, std::move(transfer), timeout_));
  }
  Status MeetAll() {
    executor_.SetTimeout(timeout_);
    const SettingsVote mine = VoteOf({me_.wire, me_.check}, me_.rank);
    StatusOr<bool> direct = MeetDirectly();
    if (!direct.ok()) {
      return direct.status();
    }
    int64_t all[] = {link_.has_value() ? link_->cpus() : 1, mine.least, mine.most, *direct ? 1 : 0};
    if (Status status = Smallest(all, std::size(all)); !status.ok()) {
      return status;
    }
    executor_.SetCarriers(CarriersFor(executor_.layout(), all[0]));
    if (all[3] != 0) {
      executor_.SetDirect(&direct_);
      messages_->SetDirect(&direct_);
    }
    if (Status status = CheckVotes({all[1], all[2]}); !status.ok()) {
      return status;
    }
    return executor_.layout().nodes() == 1 ? Status() : MeasureDelay();
  }
  // How a call of ours has gone: the agent hears which rank is to blame, if one is.
  Status Told(Status status) {
    if (status.peer() >= 0) {
      source_.Blame(static_cast<uint32_t>(status.peer()));
    }
    return status;
  }
  // In place.
  Status Smallest(int64_t* values, uint64_t count) {
    return executor_.Run({OpKind::kAllReduce, DType::kInt64, ReduceOp::kMin, 0, count}, values,
                         values);
  }
  // Whether we can read from all ranks of this node.
  StatusOr<bool> MeetDirectly() {
    if (me_.direct && me_.local_size > 1) {
      DirectReader::Allow();
    }
    const DirectCard mine = direct_.card();
    std::vector<DirectCard> cards(executor_.arena().geometry().local_size);
    if (Status status = executor_.GatherOnNode(&mine, cards.data(), sizeof(mine)); !status.ok()) {
      return status;
    }
    return me_.direct && direct_.Meet(std::move(cards));
  }
  // How long a small call takes, connections standing: all agree on the shortest. Of several in a
  // row, as a message that came early makes one call short and the next one long.
  Status MeasureDelay() {
    constexpr int kCalls = 4;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) {
      if (Status status = executor_.Run({OpKind::kBarrier}, nullptr, nullptr); !status.ok()) {
        return status;
      }
    }
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
    int64_t delay = took.count() / kCalls;
    Status status = Smallest(&delay, 1);
    executor_.SetDelay(std::chrono::nanoseconds(delay));
    return status;
  }
  Status RunNow(const Collective& it, std::chrono::nanoseconds timeout) {
    executor_.SetTimeout(timeout);
    Call call = it.call;
    call.parts = it.parts.empty() ? nullptr : it.parts.data();
    Status status = call.kind == OpKind::kAllToAllV
                        ? executor_.RunAllToAllV(call, it.expected.data(), it.in, it.out)
                        : executor_.Run(call, it.in, it.out);
    return Told(status.ok() && me_.check ? executor_.Check(call, it.out) : std::move(status));
  }

  const pid_t process_ = getpid();
  const WorkerIdentity job_;
  const WorkerIdentity me_;
  uint64_t splits_ = 0;  // so far, the same on every rank
  Wire wire_ = me_.wire;
  std::optional<AgentLink> link_;
  DirectReader direct_;
  Executor executor_;
  std::chrono::nanoseconds timeout_{0};
  LinkSource source_;
  const std::shared_ptr<Messages> messages_;
  CallQueue queue_;  // its thread uses all of the above
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
  StatusOr<Meeting> meeting = me->launched ? MeetAtAgent(*me) : MeetAlone(Layout::OneNode(1));
  if (!meeting.ok()) {
    return meeting.status();
  }
  Communicator out(std::make_unique<Impl>(*me, *me, *std::move(meeting)));
  out.SetTimeout(std::chrono::nanoseconds(static_cast<int64_t>(me->timeout_s * 1e9)));
  if (Status met = out.impl_->Meet(); !met.ok()) {
    return met;
  }
  return out;
}

StatusOr<std::optional<Communicator>> Communicator::Split(int64_t color, int64_t key) {
  StatusOr<std::optional<Meeting>> met = impl_->Split({color, key});
  if (!met.ok()) {
    return met.status();
  }
  if (!met->has_value()) {
    return std::optional<Communicator>();
  }
  Meeting& meeting = **met;
  const WorkerIdentity me = IdentityIn(meeting.layout, meeting.rank, impl_->job());
  std::optional<Communicator> out(
      Communicator(std::make_unique<Impl>(impl_->job(), me, std::move(meeting))));
  out->SetTimeout(impl_->timeout());
  out->SetWire(impl_->wire());
  if (Status status = out->impl_->Meet(); !status.ok()) {
    return status;
  }
  return out;
}

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  Communicator last(std::move(*this));  // ends as any other
  impl_ = std::move(other.impl_);
  return *this;
}
// A child by fork() has what is its parent's: it ends nothing.
Communicator::~Communicator() {
  if (impl_ && impl_->process() != getpid()) {
    [[maybe_unused]] const Impl* const parents = impl_.release();
  }
}

int Communicator::rank() const { return static_cast<int>(impl_->me().rank); }
int Communicator::size() const { return static_cast<int>(impl_->me().size); }
int Communicator::local_rank() const { return static_cast<int>(impl_->me().local_rank); }
int Communicator::local_size() const { return static_cast<int>(impl_->me().local_size); }
int Communicator::node_rank() const { return static_cast<int>(impl_->me().node_rank); }
int Communicator::nodes() const { return static_cast<int>(impl_->me().nodes); }
uint64_t Communicator::round() const { return impl_->me().round; }

void Communicator::SetTimeout(std::chrono::nanoseconds timeout) { impl_->SetTimeout(timeout); }

void Communicator::SetWire(Wire wire) { impl_->SetWire(wire); }
Wire Communicator::wire() const { return impl_->wire(); }

Counters Communicator::counters() const { return impl_->counters(); }
std::chrono::nanoseconds Communicator::WaitedFor(int rank) const {
  return rank < 0 || rank >= size() ? std::chrono::nanoseconds(0)
                                    : impl_->WaitedFor(static_cast<uint32_t>(rank));
}

Status Communicator::Send(const void* data, int64_t count, DType dtype, int to, int tag) {
  return impl_->Send(impl_->calls().Send(data, count, dtype, to, tag));
}
Work Communicator::SendAsync(const void* data, int64_t count, DType dtype, int to, int tag) {
  return impl_->StartSend(impl_->calls().Send(data, count, dtype, to, tag));
}
Status Communicator::Recv(void* data, int64_t count, DType dtype, int from, int tag) {
  return impl_->Receive(impl_->calls().Receive(data, count, dtype, from, tag));
}
Work Communicator::RecvAsync(void* data, int64_t count, DType dtype, int from, int tag) {
  return impl_->StartReceive(impl_->calls().Receive(data, count, dtype, from, tag));
}

Status Communicator::Barrier() { return impl_->Run(impl_->calls().Barrier()); }
Work Communicator::BarrierAsync() { return impl_->Start(impl_->calls().Barrier()); }

Status Communicator::AllReduce(const void* in, void* out, int64_t count, DType dtype, ReduceOp op) {
  return impl_->Run(impl_->calls().AllReduce(in, out, count, dtype, op));
}
Work Communicator::AllReduceAsync(const void* in, void* out, int64_t count, DType dtype,
                                  ReduceOp op) {
  return impl_->Start(impl_->calls().AllReduce(in, out, count, dtype, op));
}

Status Communicator::Reduce(const void* in, void* out, int64_t count, DType dtype, ReduceOp op,
                            int root) {
  return impl_->Run(impl_->calls().Reduce(in, out, count, dtype, op, root));
}
Work Communicator::ReduceAsync(const void* in, void* out, int64_t count, DType dtype, ReduceOp op,
                               int root) {
  return impl_->Start(impl_->calls().Reduce(in, out, count, dtype, op, root));
}

Status Communicator::Broadcast(void* data, int64_t count, DType dtype, int root) {
  return impl_->Run(impl_->calls().Broadcast(data, count, dtype, root));
}
Work Communicator::BroadcastAsync(void* data, int64_t count, DType dtype, int root) {
  return impl_->Start(impl_->calls().Broadcast(data, count, dtype, root));
}

Status Communicator::AllGather(const void* in, void* out, int64_t count, DType dtype) {
  return impl_->Run(impl_->calls().AllGather(in, out, count, dtype));
}
Work Communicator::AllGatherAsync(const void* in, void* out, int64_t count, DType dtype) {
  return impl_->Start(impl_->calls().AllGather(in, out, count, dtype));
}

Status Communicator::Gather(const void* in, void* out, int64_t count, DType dtype, int root) {
  return impl_->Run(impl_->calls().Gather(in, out, count, dtype, root));
}
Work Communicator::GatherAsync(const void* in, void* out, int64_t count, DType dtype, int root) {
  return impl_->Start(impl_->calls().Gather(in, out, count, dtype, root));
}

Status Communicator::Scatter(const void* in, void* out, int64_t count, DType dtype, int root) {
  return impl_->Run(impl_->calls().Scatter(in, out, count, dtype, root));
}
Work Communicator::ScatterAsync(const void* in, void* out, int64_t count, DType dtype, int root) {
  return impl_->Start(impl_->calls().Scatter(in, out, count, dtype, root));
}

Status Communicator::ReduceScatter(const void* in, void* out, int64_t count, DType dtype,
                                   ReduceOp op) {
  return impl_->Run(impl_->calls().ReduceScatter(in, out, count, dtype, op));
}
Work Communicator::ReduceScatterAsync(const void* in, void* out, int64_t count, DType dtype,
                                      ReduceOp op) {
  return impl_->Start(impl_->calls().ReduceScatter(in, out, count, dtype, op));
}

Status Communicator::AllToAll(const void* in, void* out, int64_t count, DType dtype) {
  return impl_->Run(impl_->calls().AllToAll(in, out, count, dtype));
}
Work Communicator::AllToAllAsync(const void* in, void* out, int64_t count, DType dtype) {
  return impl_->Start(impl_->calls().AllToAll(in, out, count, dtype));
}

Status Communicator::AllGatherV(const void* in, void* out, const int64_t* counts, DType dtype) {
  return impl_->Run(impl_->calls().AllGatherV(in, out, counts, dtype));
}
Work Communicator::AllGatherVAsync(const void* in, void* out, const int64_t* counts, DType dtype) {
  return impl_->Start(impl_->calls().AllGatherV(in, out, counts, dtype));
}

Status Communicator::GatherV(const void* in, void* out, const int64_t* counts, DType dtype,
                             int root) {
  return impl_->Run(impl_->calls().GatherV(in, out, counts, dtype, root));
}
Work Communicator::GatherVAsync(const void* in, void* out, const int64_t* counts, DType dtype,
                                int root) {
  return impl_->Start(impl_->calls().GatherV(in, out, counts, dtype, root));
}

Status Communicator::ScatterV(const void* in, void* out, const int64_t* counts, DType dtype,
                              int root) {
  return impl_->Run(impl_->calls().ScatterV(in, out, counts, dtype, root));
}
Work Communicator::ScatterVAsync(const void* in, void* out, const int64_t* counts, DType dtype,
                                 int root) {
  return impl_->Start(impl_->calls().ScatterV(in, out, counts, dtype, root));
}

Status Communicator::ReduceScatterV(const void* in, void* out, const int64_t* counts, DType dtype,
                                    ReduceOp op) {
  return impl_->Run(impl_->calls().ReduceScatterV(in, out, counts, dtype, op));
}
Work Communicator::ReduceScatterVAsync(const void* in, void* out, const int64_t* counts,
                                       DType dtype, ReduceOp op) {
  return impl_->Start(impl_->calls().ReduceScatterV(in, out, counts, dtype, op));
}

Status Communicator::AllToAllV(const void* in, const int64_t* send_counts, void* out,
                               const int64_t* recv_counts, DType dtype) {
  return impl_->Run(impl_->calls().AllToAllV(in, send_counts, out, recv_counts, dtype));
}
Work Communicator::AllToAllVAsync(const void* in, const int64_t* send_counts, void* out,
                                  const int64_t* recv_counts, DType dtype) {
  return impl_->Start(impl_->calls().AllToAllV(in, send_counts, out, recv_counts, dtype));
}

}  // namespace muster
