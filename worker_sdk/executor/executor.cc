#include "worker_sdk/executor/executor.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "worker_sdk/algorithm/agreement.h"
#include "worker_sdk/base/no_memory.h"
#include "worker_sdk/base/timeout_text.h"
#include "worker_sdk/executor/call_mark.h"
#include "worker_sdk/executor/narrow.h"
#include "worker_sdk/executor/result_check.h"
#include "worker_sdk/reduce/reduce.h"

namespace muster {
namespace {

// So long it takes at most until a rank that has given up is heard by the others.
constexpr std::chrono::nanoseconds kHeardIn = std::chrono::milliseconds(500);

Group GroupOf(const Layout& layout, const Arena& arena) {
  Group out;
  out.layout = &layout;
  const Layout::Seat seat = layout.SeatOf(arena.RankOf(arena.place()));
  out.node = seat.node;
  out.place = seat.place;
  out.slot_bytes = out.result_bytes = UINT64_MAX;
  for (uint32_t node = 0; node < layout.nodes(); ++node) {
    const ArenaGeometry theirs = ArenaFor(layout.SizeOf(node), layout.nodes(), layout.world());
    out.slot_bytes = std::min(out.slot_bytes, theirs.slot_bytes);
    out.result_bytes = std::min(out.result_bytes, theirs.result_bytes);
  }
  return out;
}

template <typename Line>
void Grow(std::vector<Line>& lines, uint64_t bytes) {
  if (bytes > lines.size() * sizeof(Line)) {
    lines.resize((bytes + sizeof(Line) - 1) / sizeof(Line));
  }
}

}  // namespace

Executor::Executor(std::unique_ptr<Arena> arena, Layout layout, Connect connect)
    : arena_(std::move(arena)),
      layout_(std::move(layout)),
      connect_(std::move(connect)),
      group_(GroupOf(layout_, *arena_)),
      rank_(group_.rank()),
      peers_(
          layout_.nodes(), arena_->policy(),
          [this](uint32_t rank, const MessageHead& theirs) {
            return Disagree(
                rank,
                Describe(theirs.mark, layout_.world()) +
                    (theirs.call == number_ ? "" : " as call " + std::to_string(theirs.call)));
          },
          [this](uint32_t rank) { return layout_.NameOf(rank); }, arena_->hold()),
      give_up_([this](uint32_t rank) { return GiveUp(rank); }),
      sources_(std::max(group_.size(), layout_.nodes())),
      ranks_of_nodes_(layout_.nodes()) {
  for (uint32_t node = 0; node < layout_.nodes(); ++node) {
    ranks_of_nodes_[node] = layout_.SizeOf(node);
  }
  const auto background = [this] { return background_ && background_(); };
  arena_->SetWork([this, background] {
    const bool busy = background();
    return peers_.ProgressFar() || busy;
  });
  peers_.SetWork(background);
  const auto nap = [this](uint32_t of) { return NapFor(of); };
  arena_->SetNap(nap);
  peers_.SetNap(nap);
  arena_->SetNames([this](uint32_t rank) { return layout_.NameOf(rank); });
}

void Executor::SetDelay(std::chrono::nanoseconds delay) {
  group_.ahead = AheadFor(delay / std::chrono::microseconds(1), group_.slot_bytes);
}

void Executor::SetDirect(const DirectReader* reader, bool quick_slots) {
  direct_ = reader;
  group_.direct = true;
  group_.quick_slots = quick_slots;
}

Status Executor::GatherOnNode(const void* in, void* out, uint64_t bytes) {
  const Layout here = Layout::OneNode(group_.size());
  Group group = group_;
  group.layout = &here;
  group.node = 0;
  const Call call = {OpKind::kAllGather, DType::kUInt8, ReduceOp::kSum, 0, bytes};
  return RunAs(MarkOf(call, group_.size()), bytes, [&] { return RunSteps(group, call, in, out); });
}

Status Executor::Run(const Call& call, const void* in, void* out) {
  return RunAs(MarkOf(call, layout_.world()),
               CountOf(call, rank_, layout_.world()) * SizeOf(call.dtype),
               [&] { return RunSteps(group_, call, in, out); });
}

Status Executor::RunAllToAllV(const Call& call, const uint64_t* expected, const void* in,
                              void* out) {
  const uint64_t world = layout_.world();
  std::vector<uint64_t> sent;  // by all to all: row = sender
  const Call tell = {OpKind::kAllGather, DType::kUInt64, ReduceOp::kSum, 0, world};
  Status status = RunAs(MarkOfRows(call.dtype), world * sizeof(uint64_t), [&] {
    sent.resize(world * world);
    return RunSteps(group_, tell, call.parts, sent.data());
  });
  if (!status.ok()) {
    return status;
  }
  Call whole = call;
  whole.parts = sent.data();
  whole.count = *std::max_element(sent.begin(), sent.end());
  return RunAs(MarkOf(whole, layout_.world()),
               CountOf(whole, rank_, layout_.world()) * SizeOf(call.dtype), [&] {
                 Status wanted = CompareColumn(sent, expected);
                 return wanted.ok() ? RunSteps(group_, whole, in, out) : wanted;
               });
}

// `steps` are those of one call, of which `mark` is told; this rank's part of it has `bytes`.
template <typename Steps>
Status Executor::RunAs(const CallMark& mark, uint64_t bytes, const Steps& steps) {
  if (broken_.ok() && interrupted_.load(std::memory_order_acquire)) {
    End(interrupt_);
  }
  if (!broken_.ok()) {
    return OrNoMemory([this] { return broken_; });
  }
  waiting_since_.reset();
  // Where no memory is left, the others hear of it as of any other failure.
  Status status = OrNoMemory([this] { return EndLast(); });
  ++number_;
  mark_ = mark;
  if (status.ok()) {
    checked_ = false;
    first_phase_ = arena_->phase() + 1;
    arena_->Announce(number_, mark_);
    status = OrNoMemory(steps);
  }
  if (!status.ok()) {
    return Break(std::move(status));
  }
  calls_.Add(1);
  bytes_.Add(bytes);
  return {};
}

// First what needs no memory: this call and all later ones have failed, and the others know.
Status Executor::Break(Status why) {
  broken_ = std::move(why);
  TellAll(broken_);
  return OrNoMemory([this] {
    broken_ = {broken_.code(),
               ThisCall() + " on " + layout_.NameOf(rank_) + ": " + broken_.message(),
               broken_.peer()};
    return broken_;
  });
}

// The others need not wait for us.
void Executor::TellAll(const Status& why) {
  arena_->Fail(why);
  peers_.Fail(why);
}

void Executor::End(const Status& why) {
  if (broken_.ok()) {
    TellAll(why);
    broken_ = why;
  }
}

void Executor::Interrupt(const Status& why) {
  Status ours = why;
  if (!interrupts_.exchange(true)) {
    interrupt_ = std::move(ours);
    interrupted_.store(true, std::memory_order_release);
  }
}

// `sent`: by every rank to every other; `expected`: what we want of each.
Status Executor::CompareColumn(const std::vector<uint64_t>& sent, const uint64_t* expected) const {
  for (uint32_t rank = 0; rank < layout_.world(); ++rank) {
    const uint64_t theirs = sent[uint64_t{rank} * layout_.world() + rank_];
    if (theirs != expected[rank]) {
      return {StatusCode::kFailedPrecondition,
              layout_.NameOf(rank) + " sends " + std::to_string(theirs) + " elements to " +
                  layout_.NameOf(rank_) + ", which expects " + std::to_string(expected[rank])};
    }
  }
  return {};
}

Counters Executor::counters() const {
  Counters out;
  out.calls = calls_.Get();
  out.bytes = bytes_.Get();
  for (uint32_t place = 0; place < group_.size(); ++place) {
    out.waited_on_node += arena_->waited(place);
  }
  for (uint32_t node = 0; node < layout_.nodes(); ++node) {
    out.waited_between_nodes += peers_.waited(node);
  }
  return out;
}

// Of other nodes, messages come from the ranks at our place.
std::chrono::nanoseconds Executor::WaitedFor(uint32_t rank) const {
  const Layout::Seat seat = layout_.SeatOf(rank);
  if (seat.node == group_.node) {
    return arena_->waited(seat.place);
  }
  return seat.place == group_.place ? peers_.waited(seat.node) : std::chrono::nanoseconds(0);
}

Status Executor::Check(const Call& call, const void* out) {
  const bool gathers = call.kind == OpKind::kAllGather || call.kind == OpKind::kAllGatherV;
  if (call.kind != OpKind::kAllReduce && call.kind != OpKind::kBroadcast && !gathers) {
    return {};
  }
  const std::string what =
      Describe(mark_, layout_.world()) + " (call " + std::to_string(number_) + ")";
  const uint64_t count = gathers ? CountOfAll(call, layout_.world()) : call.count;
  const uint32_t own = Crc32c(static_cast<const uint8_t*>(out), count * SizeOf(call.dtype));
  std::vector<uint32_t> sums(layout_.world());
  if (Status status =
          Run({OpKind::kAllGather, DType::kUInt32, ReduceOp::kSum, 0, 1}, &own, sums.data());
      !status.ok()) {
    return status;
  }
  broken_ = CompareSums(sums, what);
  return broken_;
}

// All are in the phase that the last call left us in. A call that waited for nobody is checked now.
Status Executor::EndLast() {
  Status status = arena_->WaitForAll(give_up_);
  for (uint32_t i = 0; status.ok() && !checked_ && i < group_.size(); ++i) {
    status = CheckCall(i);
  }
  checked_ = true;
  return status;
}

Status Executor::RunSteps(const Group& group, const Call& call, const void* in, void* out) {
  Progress progress;
  MakeSchedule(group, call, progress, steps_);
  if (group.layout->nodes() > 1) {
    if (Status status = Prepare(); !status.ok()) {
      return status;
    }
  }
  for (;;) {
    for (const Step& step : steps_) {
      Status status =
          RunStep(step, call, static_cast<const uint8_t*>(in), static_cast<uint8_t*>(out));
      if (!status.ok()) {
        return status;
      }
    }
    if (progress.done) {
      return {};
    }
    // Once it is refused it stays so: in a later part the near bytes say something else.
    progress.refused = progress.refused || (progress.asked && !AllHaveTold());
    MakeSchedule(group, call, progress, steps_);
  }
}

// Connections that the first steps need and that do not stand yet; memory for them. S9: no later
// ones need more.
Status Executor::Prepare() {
  peers_.Begin(number_, mark_);
  std::vector<uint32_t> nodes;
  uint64_t scratch = 0;
  uint64_t narrow = 0;
  const auto need = [&](Space space, uint64_t bytes) {
    scratch = std::max(scratch, space == Space::kScratch ? bytes : 0);
    narrow = std::max(narrow, space == Space::kNarrow ? OfNarrow(bytes) : 0);
  };
  for (const Step& step : steps_) {
    const bool talks = step.kind == StepKind::kSend || step.kind == StepKind::kReceive;
    if (talks && !peers_.Has(step.node) &&
        std::find(nodes.begin(), nodes.end(), step.node) == nodes.end()) {
      nodes.push_back(step.node);
    }
    for (const Ref* ref : {&step.dst, &step.src}) {
      need(ref->space, ref->offset + step.bytes);
    }
    if (step.kind == StepKind::kReduceNodes || step.kind == StepKind::kMeanNodes) {
      need(step.from, step.offset + (layout_.nodes() - 1) * step.stride + step.bytes);
    }
  }
  Grow(scratch_, scratch);
  Grow(narrow_, narrow);
  if (nodes.empty()) {
    return {};
  }
  std::vector<uint32_t> ranks;
  ranks.reserve(nodes.size());
  for (const uint32_t node : nodes) {
    ranks.push_back(layout_.RankOf(node, group_.place));
  }
  const Take take = [this](uint32_t rank, UniqueFd fd) {
    peers_.Add(layout_.SeatOf(rank).node, rank, std::move(fd));
  };
  return connect_(ranks, take, give_up_);
}

Status Executor::RunStep(const Step& step, const Call& call, const uint8_t* in, uint8_t* out) {
  switch (step.kind) {
    case StepKind::kCopy:
      return Copy(step, in, out);
    case StepKind::kReduce:
    case StepKind::kMean:
      ReducePlaces(step, call, in, out);
      return {};
    case StepKind::kReduceNodes:
    case StepKind::kMeanNodes:
      ReduceNodes(step, call, in, out);
      return {};
    case StepKind::kReducePair:
    case StepKind::kMeanPair:
      ReducePair(step, call, in, out);
      return {};
    case StepKind::kDivide:
      Divide(Target(step.dst, out), step.bytes / SizeOf(call.dtype), call.dtype, layout_.world());
      return {};
    case StepKind::kPublish:
      arena_->Publish();
      return {};
    case StepKind::kWaitAll:
    case StepKind::kWaitOne:
      return Wait(step);
    case StepKind::kSend:
      return peers_.Send(step.node, Source(step.src, in, out),
                         IsNarrow(step.src) ? OfNarrow(step.bytes) : step.bytes);
    case StepKind::kReceive:
      return peers_.Receive(step.node, Target(step.dst, out),
                            IsNarrow(step.dst) ? OfNarrow(step.bytes) : step.bytes, give_up_);
    case StepKind::kAsk:
      Tell(direct_->MayBeRead(Source(step.src, in, out), step.bytes)
               ? reinterpret_cast<const uint8_t*>(this)
               : nullptr);
      return {};
    case StepKind::kTell:
      Tell(Source(step.src, in, out));
      return {};
    case StepKind::kTellApart:
      TellApart(step, call, in, out);
      return {};
    case StepKind::kFlush:
      return peers_.Flush(step.offset, give_up_);
  }
  return {};
}

Status Executor::Wait(const Step& step) {
  const bool all = step.kind == StepKind::kWaitAll;
  Status status = all ? arena_->WaitForAll(give_up_) : arena_->WaitFor(step.src.place, give_up_);
  if (!status.ok() || checked_ || arena_->phase() < first_phase_) {
    return status;
  }
  for (uint32_t i = all ? 0 : step.src.place; i < (all ? group_.size() : step.src.place + 1); ++i) {
    if (Status same = CheckCall(i); !same.ok()) {
      return same;
    }
  }
  checked_ = true;
  return {};
}

Status Executor::CheckCall(uint32_t place) {
  if (place == group_.place) {
    return {};
  }
  const CallMark& theirs = arena_->CallOf(place, number_);
  return theirs == mark_ ? Status()
                         : Disagree(arena_->RankOf(place), Describe(theirs, layout_.world()));
}

Status Executor::Disagree(uint32_t rank, const std::string& theirs) const {
  return {StatusCode::kFailedPrecondition, "ranks disagree on call " + std::to_string(number_) +
                                               ": " + layout_.NameOf(rank_) + " calls " +
                                               Describe(mark_, layout_.world()) + ", " +
                                               layout_.NameOf(rank) + " calls " + theirs};
}

// Whether that rank is known to have come to this call.
bool Executor::IsInCall(uint32_t rank) const {
  const Layout::Seat seat = layout_.SeatOf(rank);
  return seat.node == group_.node ? arena_->HasPublished(seat.place, first_phase_)
                                  : seat.place == group_.place && peers_.IsInCall(seat.node);
}

// Of many ranks whose time is over, the one that waits for whoever is late shall say so, and it is
// heard by the others in time. First speaks who waits for a rank of its node that has not come;
// then who waits for one that has, and stands still; then who waits for one of another node, which
// may wait for either; and last who waits for one of its own node that waits as well.
std::chrono::nanoseconds Executor::PatienceWith(uint32_t rank) const {
  const std::chrono::nanoseconds more = std::min<std::chrono::nanoseconds>(timeout_ / 8, kHeardIn);
  const Layout::Seat seat = layout_.SeatOf(rank);
  if (seat.node != group_.node) {
    return timeout_ + 3 * more;
  }
  return timeout_ + (arena_->Looks(seat.place) ? 4 : IsInCall(rank) ? 2 : 0) * more;
}

std::string Executor::ThisCall() const {
  return part_of_ != nullptr ? part_of_
                             : std::string(Name(static_cast<OpKind>(mark_.kind))) + " (call " +
                                   std::to_string(number_) + ")";
}

// In this call, since it first slept.
std::chrono::nanoseconds Executor::WaitedSoFar() {
  const auto now = std::chrono::steady_clock::now();
  if (!waiting_since_.has_value()) {
    waiting_since_ = now;
    told_ = std::chrono::minutes(0);
  }
  return now - *waiting_since_;
}

// Until it is time to give up.
std::chrono::nanoseconds Executor::NapFor(uint32_t rank) {
  return timeout_.count() == 0
             ? std::chrono::nanoseconds::max()
             : std::max(PatienceWith(rank) - WaitedSoFar(), std::chrono::nanoseconds::zero());
}

// Asked every 50 ms or so while we wait for a rank, and when our own time is over.
Status Executor::GiveUp(uint32_t rank) {
  if (background_) {
    background_();  // also while connections are made
  }
  if (Status why = interruption(); !why.ok()) {
    return why;
  }
  if (Status failed = arena_->failure(); !failed.ok()) {
    return failed;
  }
  if (Status failed = peers_.Failure(); !failed.ok()) {
    return failed;
  }
  arena_->NoteLook();
  const std::chrono::nanoseconds waited = WaitedSoFar();
  if (timeout_.count() != 0 && waited >= PatienceWith(rank)) {
    return {StatusCode::kDeadlineExceeded,
            layout_.NameOf(rank) + (IsInCall(rank) ? " did not go on " : " did not come ") +
                Within(timeout_) + ", for which " + layout_.NameOf(rank_) + " waited" +
                kWhoseTimeout};
  }
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(waited);
  if (minutes > told_) {
    told_ = minutes;
    std::fprintf(stderr, "muster: %s has waited for %s for %ld min in %s\n",
                 layout_.NameOf(rank_).c_str(), layout_.NameOf(rank).c_str(),
                 static_cast<long>(minutes.count()), ThisCall().c_str());
  }
  return {};
}

}  // namespace muster
