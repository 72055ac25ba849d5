#include "worker_sdk/api/communicator_impl.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "worker_sdk/base/at_end.h"
#include "worker_sdk/transport/copy.h"

namespace muster {
namespace {

// Between two looks whether a call of another thread, which is interrupted, has ended.
constexpr std::chrono::milliseconds kUntilItEnds(1);

uint32_t ForksFromNow() {
  CountForks();
  return Forks();
}

// One that was started.
class MessageWork : public Pending {
 public:
  MessageWork(std::shared_ptr<Messages> messages, uint32_t rank, const OneMessage& it,
              TransferPtr transfer, std::chrono::nanoseconds timeout)
      : messages_(std::move(messages)),
        rank_(rank),
        it_(it),
        transfer_(std::move(transfer)),
        timeout_(timeout) {}
  Status Wait() override {
    return OfMessage(it_, rank_, messages_->Wait(it_.peer, transfer_, timeout_));
  }
  bool Test() override { return messages_->Test(transfer_); }
  int Source() const override { return messages_->SourceOf(transfer_); }

 private:
  const std::shared_ptr<Messages> messages_;
  const uint32_t rank_;  // ours
  const OneMessage it_;
  const TransferPtr transfer_;
  const std::chrono::nanoseconds timeout_;
};

}  // namespace

Communicator::Impl::Impl(const WorkerIdentity& job, const WorkerIdentity& me, Meeting meeting,
                         const Settled& settled)
    : forks_(ForksFromNow()),
      job_(job),
      me_(me),
      is_group_(settled.is_group),
      wire_(settled.wire),
      link_(std::move(meeting.link)),
      executor_(std::move(meeting.arena), std::move(meeting.layout),
                [this](const std::vector<uint32_t>& ranks, const Executor::Take& take,
                       const Peers::GiveUp& give_up) {
                  return Connect(*link_, executor_.layout(), ranks, take, give_up);
                }),
      timeout_(Sane(settled.timeout)),
      source_(link_.get(), executor_.layout(), me.rank),
      messages_(std::make_shared<Messages>(&executor_.arena(), &executor_.layout(), &source_)) {
  executor_.SetBackground(&Messages::ProgressAll);
  if (link_ != nullptr) {
    executor_.arena().SetWatch([this] { link_->Watch(); });
  }
}

Communicator::Impl::~Impl() {
  (void)queue_.Run([] { return Status(); });  // it has come to its end
  WithMemory([this] { messages_->Close(); }, [this] { messages_->Drop(NoMemory()); });
}

Status Communicator::Impl::Meet(const Standing& mine) { return Told(MeetAll(mine)); }

Status Communicator::Impl::WhyNot(const Status& wrong) const {
  return wrong.ok() && is_parents() ? Status(StatusCode::kFailedPrecondition,
                                             "this communicator is of the process that made it, " +
                                                 executor_.layout().NameOf(me_.rank) +
                                                 "; a child of that by fork() is no rank")
                                    : wrong;
}

Status Communicator::Impl::WhyNotAlone() const {
  Status why = executor_.interruption();
  return why.ok() ? Status(StatusCode::kFailedPrecondition,
                           "another thread is in a call of this communicator: make one at a time")
                  : why;
}

Work Communicator::Impl::StartOne(const Collective& it) {
  if (!MayBegin(it.wrong)) {
    return Work(WhyNot(it.wrong));
  }
  std::optional<OneCall> call(std::in_place, busy_);
  if (!call->is_alone()) {
    return Work(WhyNotAlone());
  }
  StatusOr<std::shared_ptr<Pending>> started =
      queue_.Start([this, it, timeout = timeout_] { return RunNow(it, timeout); });
  if (started.status().code() == StatusCode::kResourceExhausted) {
    call.reset();
    return Work(DieOfNoMemory());
  }
  if (!started.ok()) {
    return Work(started.status());
  }
  made_.Add(1);
  return Work(*std::move(started));
}

// The others hear of it. What was started before may wait for those who wait for us, and ends, too.
Status Communicator::Impl::DieOfNoMemory() {
  Status why = NoMemory();
  if (is_parents()) {
    return why;
  }
  executor_.Interrupt(why);
  messages_->Fail(why);
  // One that is under way tells them only where it still waits: it may be at its end. It need not
  // look for us then, which would cost every call.
  std::optional<OneCall> call(std::in_place, busy_);
  while (!call->is_alone()) {
    std::this_thread::sleep_for(kUntilItEnds);
    call.emplace(busy_);
  }
  queue_.Run([&] {
    executor_.End(why);
    return 0;
  });
  return why;
}

Status Communicator::Impl::SendOne(const OneMessage& it) {
  return MayBegin(it.wrong)
             ? OfMessage(it, me_.rank,
                         messages_->SendNow(it.peer, it.tag, it.dtype, it.data, it.bytes, timeout_))
             : WhyNot(it.wrong);
}

Work Communicator::Impl::StartSendOf(const OneMessage& it) {
  return MayBegin(it.wrong)
             ? Started(it, messages_->Send(it.peer, it.tag, it.dtype, it.data, it.bytes))
             : Work(WhyNot(it.wrong));
}

Status Communicator::Impl::ReceiveOne(const OneMessage& it) {
  return MayBegin(it.wrong) ? OfMessage(it, me_.rank,
                                        messages_->ReceiveNow(it.peer, it.tag, it.dtype, it.data,
                                                              it.bytes, timeout_))
                            : WhyNot(it.wrong);
}

Work Communicator::Impl::StartReceiveOf(const OneMessage& it) {
  return MayBegin(it.wrong)
             ? Started(it, messages_->Receive(it.peer, it.tag, it.dtype, it.data, it.bytes))
             : Work(WhyNot(it.wrong));
}

StatusOr<std::optional<Meeting>> Communicator::Impl::Split(const SplitWish& wish) {
  if (Status why = WhyNot({}); !why.ok()) {
    return why;
  }
  const OneCall call(busy_);
  if (!call.is_alone()) {
    return WhyNotAlone();
  }
  made_.Add(1);
  const uint64_t number = link_ != nullptr ? link_->number() : 0;
  return queue_.Run([&] {
    executor_.SetTimeout(timeout_);
    return OrEnd([&] {
      return Counted([&] {
        StatusOr<std::optional<Meeting>> met =
            MeetInGroup(executor_, job_, {number, splits_++}, wish);
        (void)Told(met.status());
        return met;
      });
    });
  });
}

Work Communicator::Impl::Started(const OneMessage& it, TransferPtr transfer) {
  return Work(
      std::make_shared<MessageWork>(messages_, me_.rank, it, std::move(transfer), timeout_));
}

Status Communicator::Impl::MeetAll(const Standing& mine) {
  executor_.SetPartOf("the meeting of all ranks");
  const AtEnd met([this] { executor_.SetPartOf(nullptr); });
  executor_.SetTimeout(timeout_);
  const SettingsVote settings = VoteOf({me_.wire, me_.check}, me_.rank);
  StatusOr<DirectReads> direct = MeetDirectly();
  if (!direct.ok()) {
    return direct.status();
  }
  const StandingVote standing = VoteOf(mine, me_.rank);
  std::vector<int64_t> all = {link_ != nullptr ? link_->cpus() : 1, settings.least, settings.most,
                              static_cast<int64_t>(*direct)};
  const size_t standing_at = all.size();
  all.insert(all.end(), standing.begin(), standing.end());
  if (Status status = Smallest(all); !status.ok()) {
    return status;
  }
  executor_.SetCarriers(CarriersFor(executor_.layout(), all[0]));
  if (const auto reads = static_cast<DirectReads>(all[3]); reads != DirectReads::kOff) {
    const bool quick_slots = reads == DirectReads::kAuto;
    executor_.SetDirect(&direct_, quick_slots);
    if (!quick_slots) {  // as are the pipes of messages
      messages_->SetDirect(&direct_);
    }
  }
  if (Status status = CheckVotes({all[1], all[2]}); !status.ok()) {
    return status;
  }
  StandingVote agreed;
  std::copy_n(all.begin() + static_cast<ptrdiff_t>(standing_at), agreed.size(), agreed.begin());
  Settle(mine, AgreedOf(agreed));
  return executor_.layout().nodes() == 1 ? Status() : MeasureDelay();
}

void Communicator::Impl::Settle(const Standing& mine, const Agreed& agreed) {
  agreed_ = agreed;
  is_replacement_ = !mine.has_state;
  standing_ = {mine.has_state, mine.has_state ? mine.completed : agreed.completed, agreed.started,
               mine.has_state ? agreed.committed : Agreed::kNone};
  made_.Add(agreed.started);
}

// How a call of ours has gone: the agent hears which rank is to blame, if one is.
Status Communicator::Impl::Told(Status status) {
  if (status.peer() >= 0) {
    source_.Blame(static_cast<uint32_t>(status.peer()));
  }
  return status;
}

// In place.
Status Communicator::Impl::Smallest(std::vector<int64_t>& values) {
  return executor_.Run({OpKind::kAllReduce, DType::kInt64, ReduceOp::kMin, 0, values.size()},
                       values.data(), values.data());
}

// How much we read from the ranks of this node. kOff: we cannot, shall not, or would never: through
// quick slots only an all-to-all among more than two ranks of one node goes slower than so.
StatusOr<DirectReads> Communicator::Impl::MeetDirectly() {
  const Layout& layout = executor_.layout();
  const DirectReads wish =
      me_.direct != DirectReads::kAuto || CopiesWholeLines() ? me_.direct : DirectReads::kOn;
  const bool may = wish == DirectReads::kOn ||
                   (wish == DirectReads::kAuto && layout.nodes() == 1 && layout.world() > 2);
  if (may && me_.local_size > 1) {
    DirectReader::Allow();
  }
  const DirectCard mine = direct_.card();
  std::vector<DirectCard> cards(executor_.arena().geometry().local_size);
  if (Status status = executor_.GatherOnNode(&mine, cards.data(), sizeof(mine)); !status.ok()) {
    return status;
  }
  if (!may || !direct_.Meet(std::move(cards))) {
    return DirectReads::kOff;
  }
  return wish;
}

// How long a small call takes, connections standing: all agree on the shortest. Of several in a
// row, as a message that came early makes one call short and the next one long.
Status Communicator::Impl::MeasureDelay() {
  constexpr int kCalls = 4;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) {
    if (Status status = executor_.Run({OpKind::kBarrier}, nullptr, nullptr); !status.ok()) {
      return status;
    }
  }
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  std::vector<int64_t> delay = {took.count() / kCalls};
  Status status = Smallest(delay);
  executor_.SetDelay(std::chrono::nanoseconds(delay[0]));
  return status;
}

Status Communicator::Impl::RunNow(const Collective& it, std::chrono::nanoseconds timeout) {
  executor_.SetTimeout(timeout);
  return OrEnd([&] { return Counted([&] { return RunPart(it); }); });
}

Status Communicator::Impl::RunAll(const std::vector<Collective>& parts) {
  for (const Collective& it : parts) {
    if (!MayBegin(it.wrong)) {
      return WhyNot(it.wrong);
    }
  }
  const OneCall call(busy_);
  if (!call.is_alone()) {
    return WhyNotAlone();
  }
  made_.Add(1);
  return queue_.Run([&] {
    executor_.SetTimeout(timeout_);
    return OrEnd([&] {
      return Counted([&] {
        Status status;
        for (size_t i = 0; i < parts.size() && status.ok(); ++i) {
          status = RunPart(parts[i]);
        }
        return status;
      });
    });
  });
}

Status Communicator::Impl::RunPart(const Collective& it) {
  Call call = it.call;
  call.parts = it.parts.empty() ? nullptr : it.parts.data();
  Status status = call.kind == OpKind::kAllToAllV
                      ? executor_.RunAllToAllV(call, it.expected.data(), it.in, it.out)
                      : executor_.Run(call, it.in, it.out);
  return Told(status.ok() && me_.check ? executor_.Check(call, it.out) : std::move(status));
}

}  // namespace muster
