// Broadcast, gather, scatter, all-to-all within a node, of parts that are worth two system calls: a
// rank tells the others where its numbers are, and they read them there. Each number is copied
// once, where it takes two copies through a slot.
#include "worker_sdk/algorithm/schedule_maker.h"

namespace muster {
namespace {

class DirectMaker : private ScheduleMaker {
 public:
  using ScheduleMaker::ScheduleMaker;

  void Make() {
    if (call_.kind == OpKind::kAllToAll && !progress_.asked) {
      progress_.asked = true;
      return Ask();
    }
    progress_.done = true;
    switch (call_.kind) {
      case OpKind::kBroadcast:
        return FromRoot(Out(0), [&] { Read(Out(0), call_.root, 0); });
      case OpKind::kScatter:
        return FromRoot(In(0), [&] { Read(Out(0), call_.root, me() * bytes_); });
      case OpKind::kGather:
        return Gather();
      case OpKind::kAllGather:
        return AllGather();
      default:
        return AllToAll();
    }
  }

 private:
  bool is_root() const { return me() == call_.root; }
  void Tell(Ref what) { Add(StepKind::kTell).src = what; }
  void TellApart(Ref what, Ref else_what) {
    Step& step = Add(StepKind::kTellApart);
    step.src = what;
    step.dst = else_what;
  }
  void Read(Ref dst, uint32_t place, uint64_t offset) {
    Copy(dst, {Space::kTheirs, place, offset}, bytes_);
  }
  // Every rank begins with another one.
  template <typename One>
  void OfOthers(const One& one) {
    for (uint32_t i = 1; i < size(); ++i) {
      one((me() + i) % size());
    }
  }

  template <typename Take>
  void FromRoot(Ref what, const Take& take) {
    if (is_root()) {
      WaitAll();
      Tell(what);
    }
    Publish();
    if (!is_root()) {
      WaitOne(call_.root);
      take();
    }
    Publish();
    if (is_root()) {
      WaitAll();
      // Last: `out` may begin where `in` does, and others have read there.
      Copy(Out(0), In(me() * bytes_), call_.kind == OpKind::kScatter ? bytes_ : 0);
    }
  }

  void Gather() {
    WaitAll();
    Tell(In(0));
    Publish();
    if (is_root()) {
      WaitAll();
      Copy(Out(me() * bytes_), In(0), bytes_);  // first: `in` may begin where `out` does
      OfOthers([&](uint32_t i) { Read(Out(i * bytes_), i, 0); });
    }
    Publish();
    if (!is_root()) {
      WaitOne(call_.root);
    }
  }

  // `in` may begin where `out` does: then others read from its place in `out`, where nothing else
  // comes.
  void AllGather() {
    Copy(Out(me() * bytes_), In(0), bytes_);
    WaitAll();
    TellApart(In(0), Out(me() * bytes_));
    Publish();
    WaitAll();
    OfOthers([&](uint32_t i) { Read(Out(i * bytes_), i, 0); });
    Publish();
    WaitAll();
  }

  // What others read would be overwritten if `in` were `out`: then it goes through the slots.
  void Ask() {
    WaitAll();
    TellApart(In(0), In(0));
    Publish();
    WaitAll();
  }
  void AllToAll() {
    Copy(Out(me() * bytes_), In(me() * bytes_), bytes_);
    OfOthers([&](uint32_t i) { Read(Out(i * bytes_), i, me() * bytes_); });
    Publish();
    WaitAll();
  }
};

// From so many bytes of a part on it pays: one more wait of all ranks, and a system call for each
// part, cost less than the second copy, or than several turns of slots. What many ranks read from
// a slot is in their cache: a gather wins little by going without, and a broadcast loses. Measured
// with muster-perf, 2 to 32 ranks on two cores.
uint64_t DirectMin(const Group& group, OpKind kind) {
  constexpr uint64_t kOfPair = 8u << 10;
  constexpr uint64_t kOfPairBroadcast = 32u << 10;
  const bool is_pair = group.size() == 2;
  switch (kind) {
    case OpKind::kAllGather:
    case OpKind::kGather:
    case OpKind::kScatter:
      return is_pair ? kOfPair : group.slot_bytes;
    case OpKind::kAllToAll:
      return is_pair ? kOfPair : 2 * group.slot_bytes / group.size();
    case OpKind::kBroadcast:
      return is_pair ? kOfPairBroadcast : UINT64_MAX;
    default:
      return UINT64_MAX;
  }
}

}  // namespace

bool IsDirect(const Group& group, const Call& call, const Progress& progress) {
  return group.direct && !progress.refused && group.layout->nodes() == 1 && group.size() > 1 &&
         call.count * SizeOf(call.dtype) >= DirectMin(group, call.kind);
}

void MoveDirectly(const Group& group, const Call& call, Progress& progress,
                  std::vector<Step>& out) {
  DirectMaker(group, call, progress, out).Make();
}

}  // namespace muster
