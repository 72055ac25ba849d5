// What steps do with memory: ours, the arena's, and that of the node's other ranks.
#include <cstring>
#include <string>

#include "worker_sdk/executor/call_mark.h"
#include "worker_sdk/executor/executor.h"
#include "worker_sdk/executor/narrow.h"
#include "worker_sdk/reduce/reduce.h"
#include "worker_sdk/transport/copy.h"

namespace muster {

const uint8_t* Executor::Source(const Ref& ref, const uint8_t* in, const uint8_t* out) {
  switch (ref.space) {
    case Space::kIn:
      return in + ref.offset;
    case Space::kOut:
      return out + ref.offset;
    case Space::kSlot:
      return arena_->SlotNow(ref.place) + ref.offset;
    case Space::kNear:
      return arena_->NearNow(ref.place) + ref.offset;
    case Space::kResult:
      return arena_->ResultNow() + ref.offset;
    case Space::kScratch:
      return BytesOf(scratch_) + ref.offset;
    case Space::kNarrow:
      return BytesOf(narrow_) + OfNarrow(ref.offset);
    case Space::kTheirs:
      break;  // not in our memory
  }
  return nullptr;
}

uint8_t* Executor::Target(const Ref& ref, uint8_t* out) {
  switch (ref.space) {
    case Space::kOut:
      return out + ref.offset;
    case Space::kSlot:
      return arena_->SlotNext(ref.place) + ref.offset;
    case Space::kNear:
      return arena_->NearNext(ref.place) + ref.offset;
    case Space::kResult:
      return arena_->ResultNext() + ref.offset;
    case Space::kScratch:
      return BytesOf(scratch_) + ref.offset;
    case Space::kNarrow:
      return BytesOf(narrow_) + OfNarrow(ref.offset);
    case Space::kIn:
    case Space::kTheirs:
      break;  // nobody writes there
  }
  return nullptr;
}

void Executor::ReducePlaces(const Step& step, const Call& call, const uint8_t* in, uint8_t* out) {
  const uint32_t size = group_.size();
  for (uint32_t i = 0; i < size; ++i) {
    sources_[i] = Source(i == group_.place ? step.src : Ref{step.from, i, step.offset}, in, out);
  }
  Reduce(step, call, Target(step.dst, out), sources_.data(), size);
}

void Executor::ReduceNodes(const Step& step, const Call& call, const uint8_t* in, uint8_t* out) {
  const uint32_t nodes = layout_.nodes();
  for (uint32_t i = 0; i < nodes; ++i) {
    const Ref theirs = {step.from, 0, step.offset + i * step.stride};
    sources_[i] = Source(i == group_.node ? step.src : theirs, in, out);
  }
  Reduce(step, call, Target(step.dst, out), sources_.data(), nodes);
}

void Executor::ReducePair(const Step& step, const Call& call, const uint8_t* in, uint8_t* out) {
  const void* const both[] = {Source(step.src, in, out),
                              Source({step.from, 0, step.offset}, in, out)};
  Reduce(step, call, Target(step.dst, out), both, 2);
}

Status Executor::Copy(const Step& step, const uint8_t* in, uint8_t* out) {
  uint8_t* const to = Target(step.dst, out);
  if (step.src.space == Space::kTheirs) {
    return ReadDirectly(to, step.src, step.bytes);
  }
  const uint8_t* const from = Source(step.src, in, out);
  if (IsNarrow(step.src)) {
    const void* const src = from;
    SumOfBFloat16(to, &src, 1, step.bytes / SizeOf(DType::kFloat32));
  } else if (to != from) {
    CopyBytes(to, from, step.bytes);
  }
  return {};
}

void Executor::Tell(const uint8_t* where) {
  const auto address = reinterpret_cast<uint64_t>(where);
  std::memcpy(arena_->NearNext(group_.place), &address, sizeof(address));
}

// Who cannot be read says so by telling nothing (kAsk; here in an all-to-all), and all go by the
// slots.
void Executor::TellApart(const Step& step, const Call& call, const uint8_t* in, uint8_t* out) {
  const uint8_t* const where = in != out ? Source(step.src, in, out) : Target(step.dst, out);
  const bool asks = step.dst.space == Space::kIn;
  const uint64_t all =
      call.parts != nullptr ? CountOf(call, rank_, layout_.world()) : call.count * layout_.world();
  Tell(asks && !direct_->MayBeRead(where, all * SizeOf(call.dtype)) ? nullptr : where);
}

uint64_t Executor::ToldBy(uint32_t place) {
  uint64_t address = 0;
  std::memcpy(&address, arena_->NearNow(place), sizeof(address));
  return address;
}

bool Executor::AllHaveTold() {
  bool all = true;
  for (uint32_t place = 0; place < group_.size(); ++place) {
    all = all && ToldBy(place) != 0;
  }
  return all;
}

Status Executor::ReadDirectly(uint8_t* to, const Ref& ref, uint64_t bytes) {
  const Status status = direct_->Read(ref.place, to, ToldBy(ref.place) + ref.offset, bytes);
  if (status.ok()) {
    return arena_->ReadCounts();
  }
  if (Status failed = arena_->failure(); !failed.ok()) {  // it may be why that rank is gone
    return failed;
  }
  const std::string who = layout_.NameOf(arena_->RankOf(ref.place));
  if (status.code() == StatusCode::kUnavailable) {
    return {status.code(), who + " has died", static_cast<int>(arena_->RankOf(ref.place))};
  }
  if (status.code() == StatusCode::kFailedPrecondition) {
    return {status.code(), layout_.NameOf(rank_) + " may not read the memory of " + who +
                               " any more, as one of them has changed its user, or made "
                               "itself undumpable (PR_SET_DUMPABLE), since the communicator "
                               "began: start the job with -x MUSTER_DIRECT=off (" +
                               status.message() + ")"};
  }
  return {status.code(),
          "the memory of " + who +
              " cannot be read (MUSTER_DIRECT=off does without): " + status.message()};
}

void Executor::Reduce(const Step& step, const Call& call, uint8_t* dst, const void* const* srcs,
                      uint32_t n) {
  const auto count = static_cast<int>(n);
  const uint64_t elements = step.bytes / SizeOf(call.dtype);
  const bool from_narrow = IsNarrow(step.src);
  if (step.kind == StepKind::kMean) {
    MeanMany(dst, srcs, nullptr, count, elements, call.dtype);
  } else if (step.kind == StepKind::kMeanNodes) {
    MeanMany(dst, srcs, ranks_of_nodes_.data(), count, elements, call.dtype);
  } else if (step.kind == StepKind::kMeanPair) {
    const uint32_t ranks[] = {step.ranks, step.ranks_from};
    MeanMany(dst, srcs, ranks, count, elements, call.dtype);
  } else if (from_narrow == IsNarrow(step.dst)) {
    ReduceMany(dst, srcs, count, elements, from_narrow ? DType::kBFloat16 : call.dtype, call.op);
  } else if (from_narrow) {
    SumOfBFloat16(dst, srcs, count, elements);
  } else {
    SumIntoBFloat16(dst, srcs, count, elements);
  }
}

}  // namespace muster
