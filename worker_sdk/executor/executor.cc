#include "worker_sdk/executor/executor.h"

#include <cstdio>
#include <utility>

#include "worker_sdk/executor/copy.h"
#include "worker_sdk/reduce/reduce.h"

namespace muster {
namespace {

bool Reduces(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduce || kind == OpKind::kReduceScatter;
}

bool HasRoot(OpKind kind) {
  return kind == OpKind::kReduce || kind == OpKind::kBroadcast || kind == OpKind::kGather ||
         kind == OpKind::kScatter;
}

}  // namespace

Executor::Executor(std::unique_ptr<Arena> arena)
    : arena_(std::move(arena)),
      group_{arena_->place(), arena_->geometry().local_size, arena_->geometry().slot_bytes},
      sources_(group_.size) {}

Status Executor::Run(const Call& call, const void* in, void* out) {
  if (!broken_.ok()) {
    return broken_;
  }
  waiting_since_.reset();
  Status status = EndLast();
  ++number_;
  mark_ = {static_cast<uint8_t>(call.kind),
           static_cast<uint8_t>(call.dtype),
           static_cast<uint8_t>(call.op),
           0,
           call.root,
           call.count};
  if (status.ok()) {
    checked_ = false;
    first_phase_ = arena_->phase() + 1;
    arena_->Announce(mark_);
    status = RunSteps(call, static_cast<const uint8_t*>(in), static_cast<uint8_t*>(out));
  }
  if (!status.ok()) {
    arena_->Fail(status.code(), status.message());  // the others need not wait for us
    broken_ =
        Status(status.code(), std::string(Name(call.kind)) + " (call " + std::to_string(number_) +
                                  ") on rank " + std::to_string(arena_->RankOf(group_.place)) +
                                  ": " + status.message());
  }
  return broken_;
}

// All are in the phase that the last call left us in: nobody reads the marks any more that our next
// one overwrites. A call that waited for nobody is checked now.
Status Executor::EndLast() {
  Status status = arena_->WaitForAll([this](uint32_t place) { return GiveUp(place); });
  for (uint32_t i = 0; status.ok() && !checked_ && i < group_.size; ++i) {
    status = CheckCall(i);
  }
  checked_ = true;
  return status;
}

Status Executor::RunSteps(const Call& call, const uint8_t* in, uint8_t* out) {
  MakeSchedule(group_, call, steps_);
  for (const Step& step : steps_) {
    switch (step.kind) {
      case StepKind::kCopy: {
        uint8_t* const to = Target(step.dst, out);
        const uint8_t* const from = Source(step.src, in, out);
        if (to != from) {
          CopyBytes(to, from, step.bytes);
        }
        break;
      }
      case StepKind::kReduce:
        Reduce(step, call, in, out);
        break;
      case StepKind::kDivide:
        Divide(Target(step.dst, out), step.bytes / SizeOf(call.dtype), call.dtype, group_.size);
        break;
      case StepKind::kPublish:
        arena_->Publish();
        break;
      case StepKind::kWaitAll:
      case StepKind::kWaitOne:
        if (Status status = Wait(step); !status.ok()) {
          return status;
        }
        break;
    }
  }
  return {};
}

Status Executor::Wait(const Step& step) {
  const auto give_up = [this](uint32_t place) { return GiveUp(place); };
  const bool all = step.kind == StepKind::kWaitAll;
  Status status = all ? arena_->WaitForAll(give_up) : arena_->WaitFor(step.src.place, give_up);
  // The marks are those of the first phase of the call.
  if (!status.ok() || checked_ || arena_->phase() != first_phase_) {
    return status;
  }
  for (uint32_t i = all ? 0 : step.src.place; i < (all ? group_.size : step.src.place + 1); ++i) {
    if (Status same = CheckCall(i); !same.ok()) {
      return same;
    }
  }
  checked_ = true;
  return {};
}

Status Executor::CheckCall(uint32_t place) {
  const CallMark& theirs = arena_->CallOf(place, first_phase_);
  if (theirs == mark_) {
    return {};
  }
  return {StatusCode::kFailedPrecondition,
          "ranks disagree on call " + std::to_string(number_) + ": rank " +
              std::to_string(arena_->RankOf(group_.place)) + " calls " + Describe(mark_) +
              ", rank " + std::to_string(arena_->RankOf(place)) + " calls " + Describe(theirs)};
}

std::string Executor::Describe(const CallMark& mark) const {
  const auto kind = static_cast<OpKind>(mark.kind);
  std::string out = Name(kind);
  if (kind == OpKind::kBarrier || mark.dtype >= kDTypes || mark.op >= kReduceOps) {
    return out;
  }
  out += "(" + std::to_string(mark.count) + " x " + Name(static_cast<DType>(mark.dtype));
  if (Reduces(kind)) {
    out += std::string(", ") + Name(static_cast<ReduceOp>(mark.op));
  }
  if (HasRoot(kind)) {
    out +=
        ", root " + std::to_string(mark.root < group_.size ? arena_->RankOf(mark.root) : mark.root);
  }
  return out + ")";
}

// Asked every 50 ms or so while we wait for a rank.
Status Executor::GiveUp(uint32_t place) {
  const auto now = std::chrono::steady_clock::now();
  if (!waiting_since_.has_value()) {
    waiting_since_ = now;
    told_ = std::chrono::minutes(0);
  }
  const auto waited = now - *waiting_since_;
  const std::string rank = std::to_string(arena_->RankOf(place));
  if (timeout_.count() != 0 && waited >= timeout_) {
    return {StatusCode::kDeadlineExceeded,
            "rank " + rank + " did not come within " +
                std::to_string(
                    std::chrono::duration_cast<std::chrono::milliseconds>(timeout_).count()) +
                " ms (MUSTER_TIMEOUT, SetTimeout)"};
  }
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(waited);
  if (minutes > told_) {
    told_ = minutes;
    std::fprintf(stderr, "muster: rank %u has waited for rank %s for %ld min in %s (call %llu)\n",
                 arena_->RankOf(group_.place), rank.c_str(), static_cast<long>(minutes.count()),
                 Name(static_cast<OpKind>(mark_.kind)), static_cast<unsigned long long>(number_));
  }
  return {};
}

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
    case Space::kIn:
      break;  // nobody writes to the caller's input
  }
  return nullptr;
}

void Executor::Reduce(const Step& step, const Call& call, const uint8_t* in, uint8_t* out) {
  for (uint32_t i = 0; i < group_.size; ++i) {
    sources_[i] = Source(i == group_.place ? step.src : Ref{step.from, i, step.offset}, in, out);
  }
  ReduceMany(Target(step.dst, out), sources_.data(), static_cast<int>(group_.size),
             step.bytes / SizeOf(call.dtype), call.dtype, call.op);
}

}  // namespace muster
