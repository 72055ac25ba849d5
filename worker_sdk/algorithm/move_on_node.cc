// Broadcast, gather, scatter, all-to-all within a node, of parts that are worth two system calls: a
// rank tells the others where its numbers are, and they read them there. Each number is copied
// once, where it takes two copies through a slot.
#include "worker_sdk/algorithm/schedule_maker.h"

namespace muster {
namespace {

bool IsAllToAll(OpKind kind) { return kind == OpKind::kAllToAll || kind == OpKind::kAllToAllV; }

class DirectMaker : private ScheduleMaker {
 public:
  using ScheduleMaker::ScheduleMaker;

  void Make() {
    if (!progress_.asked) {
      progress_.asked = true;
      return Ask();
    }
    progress_.done = true;
    switch (call_.kind) {
      case OpKind::kBroadcast:
        return FromRoot(Out(0), 0, bytes_);
      case OpKind::kScatter:
      case OpKind::kScatterV:
        return FromRoot(In(0), InAt(me()), Part(me()));
      case OpKind::kGather:
      case OpKind::kGatherV:
        return Gather();
      case OpKind::kAllGather:
      case OpKind::kAllGatherV:
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
  // Bytes of one of `call_.parts`.
  uint64_t Part(uint64_t part) const { return PieceOfPart(part, 0, bytes_); }
  void Read(Ref dst, uint32_t place, uint64_t offset, uint64_t bytes) {
    Copy(dst, {Space::kTheirs, place, offset}, bytes);
  }
  // Every rank begins with another one.
  template <typename One>
  void OfOthers(const One& one) {
    for (uint32_t i = 1; i < size(); ++i) {
      one((me() + i) % size());
    }
  }

  // `bytes` from `offset` of what the root tells of are ours.
  void FromRoot(Ref what, uint64_t offset, uint64_t bytes) {
    if (is_root()) {
      WaitAll();
      Tell(what);
    }
    Publish();
    if (!is_root()) {
      WaitOne(call_.root);
      Read(Out(0), call_.root, offset, bytes);
    }
    Publish();
    if (is_root()) {
      WaitAll();
      if (call_.kind != OpKind::kBroadcast) {
        Copy(Out(0), In(offset), bytes);  // last: `out` may be where others read
      }
    }
  }

  void Gather() {
    WaitAll();
    Tell(In(0));
    Publish();
    if (is_root()) {
      WaitAll();
      Copy(Out(OutAt(me())), In(0), Part(me()));  // first: `in` may begin where `out` does
      OfOthers([&](uint32_t i) { Read(Out(OutAt(i)), i, 0, Part(i)); });
    }
    Publish();
    if (!is_root()) {
      WaitOne(call_.root);
    }
  }

  // `in` may begin where `out` does: then others read from its place in `out`, where nothing else
  // comes.
  void AllGather() {
    Copy(Out(OutAt(me())), In(0), Part(me()));
    WaitAll();
    TellApart(In(0), Out(OutAt(me())));
    Publish();
    WaitAll();
    OfOthers([&](uint32_t i) { Read(Out(OutAt(i)), i, 0, Part(i)); });
    Publish();
    WaitAll();
  }

  // Whether all may still read from each other. In an all-to-all what others read would be
  // overwritten if `in` were `out`: then it goes through the slots, too.
  void Ask() {
    WaitAll();
    if (IsAllToAll(call_.kind)) {
      TellApart(In(0), In(0));
    } else {
      Step& step = Add(StepKind::kAsk);
      step.src = call_.kind == OpKind::kBroadcast ? Out(0) : In(0);
      step.bytes = BytesRead();
    }
    Publish();
    WaitAll();
  }
  // Of what we have, by others.
  uint64_t BytesRead() const {
    switch (call_.kind) {
      case OpKind::kBroadcast:
        return is_root() ? bytes_ : 0;
      case OpKind::kScatter:
      case OpKind::kScatterV:
        return is_root() ? InAt(size() - 1) + Part(size() - 1) : 0;
      case OpKind::kGather:
      case OpKind::kGatherV:
        return is_root() ? 0 : Part(me());
      default:
        return Part(me());
    }
  }
  void AllToAll() {
    Copy(Out(OutAt(me())), In(InAt(me())), Part(PartTo(me(), me())));
    OfOthers([&](uint32_t i) {
      Read(Out(OutAt(i)), i, Packed(i, 0, me(), 0, bytes_), Part(PartTo(i, me())));
    });
    Publish();
    WaitAll();
  }
};

// Whether it pays for parts of so many bytes: one more wait of all ranks, and a system call for
// each part, against a second copy, or many turns of slots. What many ranks read from a slot is in
// their cache; and where only one rank reads, two cores that copy once each are quicker with what
// no cache holds. Measured with muster-perf, 2 to 32 ranks on two cores. Where a slot's lines are
// written without being fetched, only an all-to-all among more than two ranks gains.
bool Pays(const Group& group, OpKind kind, uint64_t bytes) {
  constexpr uint64_t kOfPair = 8u << 10;
  constexpr uint64_t kOfRootMin = 32u << 10;
  constexpr uint64_t kOfRootMax = 4u << 20;
  const bool is_pair = group.size() == 2;
  if (group.quick_slots && (!IsAllToAll(kind) || is_pair)) {
    return false;
  }
  switch (kind) {
    case OpKind::kAllGather:
    case OpKind::kAllGatherV:
      return bytes >= (is_pair ? kOfPair : group.slot_bytes);
    case OpKind::kAllToAll:
    case OpKind::kAllToAllV:
      return bytes >= (is_pair ? kOfPair : 2 * group.slot_bytes / group.size());
    case OpKind::kBroadcast:
    case OpKind::kGather:
    case OpKind::kGatherV:
    case OpKind::kScatter:
    case OpKind::kScatterV:
      return is_pair && bytes >= kOfRootMin && bytes <= kOfRootMax;
    default:
      return false;
  }
}

}  // namespace

bool IsDirect(const Group& group, const Call& call, const Progress& progress) {
  return group.direct && !progress.refused && group.layout->nodes() == 1 && group.size() > 1 &&
         Pays(group, call.kind, call.count * SizeOf(call.dtype));
}

void MoveDirectly(const Group& group, const Call& call, Progress& progress,
                  std::vector<Step>& out) {
  DirectMaker(group, call, progress, out).Make();
}

}  // namespace muster
