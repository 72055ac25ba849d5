#include "worker_sdk/algorithm/schedule.h"

#include <algorithm>

#include "worker_sdk/algorithm/schedule_maker.h"

namespace muster {
namespace {

// Below it every rank reduces everything: one wait instead of two, for more reading. In bytes read
// by one rank.
constexpr uint64_t kFlatBytesMax = 16u << 10;

class OneNode : private ScheduleMaker {
 public:
  using ScheduleMaker::ScheduleMaker;

  void Make() {
    progress_.done = true;  // what has turns says otherwise
    if (size() == 1) {
      return Copy(Out(0), In(0), call_.kind == OpKind::kBroadcast ? 0 : bytes_);
    }
    switch (call_.kind) {
      case OpKind::kBarrier:
        Publish();
        return WaitAll();
      case OpKind::kAllReduce:
        return IsFlat() ? FlatAllReduce() : AllReduce(true);
      case OpKind::kReduce:
        return AllReduce(group_.place == call_.root);
      case OpKind::kBroadcast:
        return Broadcast();
      case OpKind::kAllGather:
      case OpKind::kAllGatherV:
      case OpKind::kSplit:
        return Gather(true);
      case OpKind::kGather:
      case OpKind::kGatherV:
        return Gather(group_.place == call_.root);
      case OpKind::kScatter:
      case OpKind::kScatterV:
        return Scatter();
      case OpKind::kReduceScatter:
      case OpKind::kReduceScatterV:
      case OpKind::kAllToAll:
      case OpKind::kAllToAllV:
        return Exchange();
    }
  }

 private:
  // `offset`: in the others' `from`.
  void Reduce(Ref dst, Ref own, uint64_t offset, uint64_t bytes, Space from = Space::kSlot) {
    ReducePlaces(dst, own, offset, bytes, from);
    Divide(dst, bytes);
  }

  bool IsFlat() const { return bytes_ <= group_.slot_bytes && size() * bytes_ <= kFlatBytesMax; }
  void FlatAllReduce() {
    const Space space = bytes_ <= kNearBytes ? Space::kNear : Space::kSlot;
    WaitAll();
    Copy({space, me(), 0}, In(0), bytes_);
    Publish();
    WaitAll();
    Reduce(Out(0), In(0), 0, bytes_, space);
  }

  // In chunks of a slot. Each rank reduces its share of a chunk; while it does, its slot for the
  // next chunk is filled already, so that one wait a chunk is enough:
  //   fill(0) publish wait | reduce(0) fill(1) publish wait take(0) | reduce(1) fill(2) ...
  //   take(n-1)
  // A rank's own share never goes through its slot, nor comes back through the result area.
  void AllReduce(bool takes) {
    if (progress_.turn == 0) {
      WaitAll();
      Fill(0);
      Publish();
      WaitAll();
    }
    Pieces(group_.slot_bytes, [&](uint64_t at, uint64_t bytes) {
      const Range share = ShareAt(at);
      if (takes) {
        Reduce(Out(at + share.begin), In(at + share.begin), share.begin, share.bytes());
        if (call_.kind == OpKind::kAllReduce) {
          Copy(Result(share.begin), Out(at + share.begin), share.bytes());
        }
      } else {
        Reduce(Result(share.begin), In(at + share.begin), share.begin, share.bytes());
      }
      Fill(at + group_.slot_bytes);
      Publish();
      WaitAll();
      if (takes) {
        Copy(Out(at), Result(0), share.begin);
        Copy(Out(at + share.end), Result(share.end), bytes - share.end);
      }
    });
  }
  uint64_t ChunkAt(uint64_t at) const { return PieceAt(at, group_.slot_bytes); }
  Range ShareAt(uint64_t at) const { return Share(ChunkAt(at), me(), size()); }
  void Fill(uint64_t at) {
    const Range share = ShareAt(at);
    Copy(Slot(me(), 0), In(at), share.begin);
    Copy(Slot(me(), share.end), In(at + share.end), ChunkAt(at) - share.end);
  }

  void Broadcast() {
    const bool is_root = me() == call_.root;
    Pieces(group_.slot_bytes, [&](uint64_t at, uint64_t piece) {
      if (is_root) {
        WaitAll();
        Copy(Slot(me(), 0), Out(at), piece);
        Publish();
      } else {
        Publish();
        WaitOne(call_.root);
        Copy(Out(at), Slot(call_.root, 0), piece);
      }
    });
  }

  void Gather(bool takes) {
    Pieces(group_.slot_bytes, [&](uint64_t at, uint64_t piece) {
      const uint64_t own = PieceOfPart(me(), at, piece);
      WaitAll();
      Copy(Slot(me(), 0), In(at), own);
      Publish();
      if (!takes) {
        return;
      }
      WaitAll();
      Copy(Out(OutAt(me()) + at), In(at), own);  // first: `in` may begin where `out` does
      for (uint32_t i = 0; i < size(); ++i) {
        if (i != me()) {
          Copy(Out(OutAt(i) + at), Slot(i, 0), PieceOfPart(i, at, piece));
        }
      }
    });
  }

  // The root fills the slots of all others.
  void Scatter() {
    const bool is_root = me() == call_.root;
    Pieces(group_.slot_bytes, [&](uint64_t at, uint64_t piece) {
      const uint64_t own = PieceOfPart(me(), at, piece);
      if (!is_root) {
        Publish();
        WaitOne(call_.root);
        return Copy(Out(at), Slot(me(), 0), own);
      }
      WaitAll();
      for (uint32_t i = 0; i < size(); ++i) {
        if (i != me()) {
          Copy(Slot(i, 0), In(InAt(i) + at), PieceOfPart(i, at, piece));
        }
      }
      Publish();
      Copy(Out(at), In(InAt(me()) + at), own);
    });
  }

  // Each slot holds a piece for every rank.
  void Exchange() {
    const uint64_t piece_max = PieceMax(group_.slot_bytes);
    Pieces(piece_max, [&](uint64_t at, uint64_t piece) {
      WaitAll();
      for (uint32_t i = 0; i < size(); ++i) {
        if (i != me()) {
          Copy(Slot(me(), i * piece_max), In(InAt(i) + at),
               PieceOfPart(PartTo(me(), i), at, piece));
        }
      }
      Publish();
      WaitAll();
      if (IsReduction(call_.kind)) {
        return Reduce(Out(at), In(InAt(me()) + at), me() * piece_max, PieceOfPart(me(), at, piece));
      }
      for (uint32_t i = 0; i < size(); ++i) {
        Copy(Out(OutAt(i) + at), i == me() ? In(InAt(i) + at) : Slot(i, me() * piece_max),
             PieceOfPart(PartTo(i, me()), at, piece));
      }
    });
  }
};

// Where parts begin that follow each other in a buffer: of `call.parts` every `stride`-th from
// `first` on.
std::vector<uint64_t> Begins(const Call& call, uint32_t world, uint64_t first, uint64_t stride) {
  std::vector<uint64_t> out(world);
  uint64_t at = 0;
  for (uint64_t i = 0; i < world; ++i) {
    out[i] = at;
    at += call.parts[first + i * stride] * SizeOf(call.dtype);
  }
  return out;
}

}  // namespace

bool IsReduction(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduce || kind == OpKind::kReduceScatter ||
         kind == OpKind::kReduceScatterV;
}

bool CarriesMeans(DType dtype, ReduceOp op) {
  return op == ReduceOp::kAvg && (dtype == DType::kFloat16 || dtype == DType::kBFloat16);
}

bool CanBeNarrow(OpKind kind, DType dtype, ReduceOp op) {
  return IsReduction(kind) && dtype == DType::kFloat32 &&
         (op == ReduceOp::kSum || op == ReduceOp::kAvg);
}

const char* Name(OpKind kind) {
  switch (kind) {
    case OpKind::kBarrier:
      return "barrier";
    case OpKind::kAllReduce:
      return "all_reduce";
    case OpKind::kReduce:
      return "reduce";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kAllGather:
      return "all_gather";
    case OpKind::kGather:
      return "gather";
    case OpKind::kScatter:
      return "scatter";
    case OpKind::kReduceScatter:
      return "reduce_scatter";
    case OpKind::kAllToAll:
      return "all_to_all";
    case OpKind::kAllGatherV:
      return "all_gather_v";
    case OpKind::kGatherV:
      return "gather_v";
    case OpKind::kScatterV:
      return "scatter_v";
    case OpKind::kReduceScatterV:
      return "reduce_scatter_v";
    case OpKind::kAllToAllV:
      return "all_to_all_v";
    case OpKind::kSplit:
      return "split";
  }
  return "?";
}

void MakeSchedule(const Group& group, const Call& call, Progress& progress,
                  std::vector<Step>& out) {
  out.clear();
  if (call.parts != nullptr && progress.in_at.empty()) {
    const uint32_t world = group.layout->world();
    const bool pairs = call.kind == OpKind::kAllToAllV;
    progress.in_at = Begins(call, world, pairs ? uint64_t{group.rank()} * world : 0, 1);
    progress.out_at = Begins(call, world, pairs ? group.rank() : 0, pairs ? world : 1);
  }
  if (IsDirect(group, call, progress)) {
    MoveDirectly(group, call, progress, out);
  } else if (group.layout->nodes() == 1) {
    OneNode(group, call, progress, out).Make();
  } else if (IsReduction(call.kind)) {
    ReduceBetweenNodes(group, call, progress, out);
  } else {
    MoveBetweenNodes(group, call, progress, out);
  }
}

}  // namespace muster
