#include "worker_sdk/algorithm/schedule.h"

#include <algorithm>

namespace muster {
namespace {

// Below it every rank reduces everything: one wait instead of two, for more reading. In bytes read
// by one rank.
constexpr uint64_t kFlatBytesMax = 16u << 10;
// Shares of a chunk begin on cache lines: no line is written by two ranks.
constexpr uint64_t kLine = 64;

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t bytes() const { return end - begin; }
};

// The part of `bytes` that the rank at `place` of `size` reduces. The whole is cut at multiples of
// kLine, which every element size divides.
Range Share(uint64_t bytes, uint32_t place, uint32_t size) {
  const uint64_t lines = (bytes + kLine - 1) / kLine;
  const auto cut = [&](uint64_t i) { return std::min(bytes, lines * i / size * kLine); };
  return {cut(place), cut(uint64_t{place} + 1)};
}

class Maker {
 public:
  Maker(const Group& group, const Call& call, std::vector<Step>& out)
      : group_(group), call_(call), bytes_(call.count * SizeOf(call.dtype)), out_(out) {
    out_.clear();
  }

  void Make() {
    if (group_.size == 1) {
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
        return Gather(true);
      case OpKind::kGather:
        return Gather(group_.place == call_.root);
      case OpKind::kScatter:
        return Scatter();
      case OpKind::kReduceScatter:
      case OpKind::kAllToAll:
        return Exchange();
    }
  }

 private:
  static Ref In(uint64_t offset) { return {Space::kIn, 0, offset}; }
  static Ref Out(uint64_t offset) { return {Space::kOut, 0, offset}; }
  static Ref Slot(uint32_t place, uint64_t offset) { return {Space::kSlot, place, offset}; }
  static Ref Result(uint64_t offset) { return {Space::kResult, 0, offset}; }
  uint32_t me() const { return group_.place; }

  Step& Add(StepKind kind) {
    out_.emplace_back().kind = kind;
    return out_.back();
  }
  void Publish() { Add(StepKind::kPublish); }
  void WaitAll() { Add(StepKind::kWaitAll); }
  void WaitOne(uint32_t place) { Add(StepKind::kWaitOne).src = Slot(place, 0); }
  void Copy(Ref dst, Ref src, uint64_t bytes) {
    if (bytes != 0) {
      Step& step = Add(StepKind::kCopy);
      step.dst = dst;
      step.src = src;
      step.bytes = bytes;
    }
  }
  // `offset`: in the others' `from`. kAvg is finished here, by whoever holds the sum.
  void Reduce(Ref dst, Ref own, uint64_t offset, uint64_t bytes, Space from = Space::kSlot) {
    if (bytes == 0) {
      return;
    }
    out_.push_back({StepKind::kReduce, dst, own, from, offset, bytes});
    if (call_.op == ReduceOp::kAvg) {
      Step& step = Add(StepKind::kDivide);
      step.dst = dst;
      step.bytes = bytes;
    }
  }

  bool IsFlat() const {
    return bytes_ <= group_.slot_bytes && group_.size * bytes_ <= kFlatBytesMax;
  }
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
    WaitAll();
    Fill(0);
    Publish();
    WaitAll();
    for (uint64_t at = 0; at < bytes_; at += group_.slot_bytes) {
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
        Copy(Out(at + share.end), Result(share.end), ChunkAt(at) - share.end);
      }
    }
  }
  uint64_t ChunkAt(uint64_t at) const {
    return at < bytes_ ? std::min(group_.slot_bytes, bytes_ - at) : 0;
  }
  Range ShareAt(uint64_t at) const { return Share(ChunkAt(at), me(), group_.size); }
  void Fill(uint64_t at) {
    const Range share = ShareAt(at);
    Copy(Slot(me(), 0), In(at), share.begin);
    Copy(Slot(me(), share.end), In(at + share.end), ChunkAt(at) - share.end);
  }

  void Broadcast() {
    const bool is_root = me() == call_.root;
    for (uint64_t at = 0; at < bytes_ || at == 0; at += group_.slot_bytes) {
      if (is_root) {
        WaitAll();
        Copy(Slot(me(), 0), Out(at), ChunkAt(at));
        Publish();
      } else {
        Publish();
        WaitOne(call_.root);
        Copy(Out(at), Slot(call_.root, 0), ChunkAt(at));
      }
    }
  }

  void Gather(bool takes) {
    for (uint64_t at = 0; at < bytes_ || at == 0; at += group_.slot_bytes) {
      WaitAll();
      Copy(Slot(me(), 0), In(at), ChunkAt(at));
      Publish();
      if (!takes) {
        continue;
      }
      WaitAll();
      Copy(Out(me() * bytes_ + at), In(at), ChunkAt(at));  // first: `in` may begin where `out` does
      for (uint32_t i = 0; i < group_.size; ++i) {
        if (i != me()) {
          Copy(Out(i * bytes_ + at), Slot(i, 0), ChunkAt(at));
        }
      }
    }
  }

  // The root fills the slots of all others.
  void Scatter() {
    const bool is_root = me() == call_.root;
    for (uint64_t at = 0; at < bytes_ || at == 0; at += group_.slot_bytes) {
      if (!is_root) {
        Publish();
        WaitOne(call_.root);
        Copy(Out(at), Slot(me(), 0), ChunkAt(at));
        continue;
      }
      WaitAll();
      for (uint32_t i = 0; i < group_.size; ++i) {
        if (i != me()) {
          Copy(Slot(i, 0), In(i * bytes_ + at), ChunkAt(at));
        }
      }
      Publish();
      Copy(Out(at), In(me() * bytes_ + at), ChunkAt(at));
    }
  }

  // Each slot holds a piece for every rank.
  void Exchange() {
    const uint64_t piece_max = std::max(kLine, group_.slot_bytes / group_.size / kLine * kLine);
    for (uint64_t at = 0; at < bytes_ || at == 0; at += piece_max) {
      const uint64_t piece = std::min(piece_max, bytes_ - std::min(at, bytes_));
      WaitAll();
      for (uint32_t i = 0; i < group_.size; ++i) {
        if (i != me()) {
          Copy(Slot(me(), i * piece_max), In(i * bytes_ + at), piece);
        }
      }
      Publish();
      WaitAll();
      if (call_.kind == OpKind::kReduceScatter) {
        Reduce(Out(at), In(me() * bytes_ + at), me() * piece_max, piece);
        continue;
      }
      for (uint32_t i = 0; i < group_.size; ++i) {
        Copy(Out(i * bytes_ + at), i == me() ? In(i * bytes_ + at) : Slot(i, me() * piece_max),
             piece);
      }
    }
  }

  const Group& group_;
  const Call& call_;
  const uint64_t bytes_;
  std::vector<Step>& out_;
};

}  // namespace

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
  }
  return "?";
}

void MakeSchedule(const Group& group, const Call& call, std::vector<Step>& out) {
  Maker(group, call, out).Make();
}

}  // namespace muster
