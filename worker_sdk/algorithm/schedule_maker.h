// Inside algorithm/: adds steps to a schedule. Not for others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "worker_sdk/algorithm/schedule.h"

namespace muster {

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t bytes() const { return end - begin; }
};

// Shares begin on cache lines: no line is written by two ranks. Every element size divides it.
inline constexpr uint64_t kShareUnit = 64;

// No share of `bytes`, or of less, is larger.
inline uint64_t ShareMax(uint64_t bytes, uint64_t parts) {
  const uint64_t lines = (bytes + kShareUnit - 1) / kShareUnit;
  return (lines + parts - 1) / parts * kShareUnit;
}

// The i-th of `parts` shares of `bytes`.
inline Range Share(uint64_t bytes, uint64_t i, uint64_t parts) {
  const uint64_t lines = (bytes + kShareUnit - 1) / kShareUnit;
  const auto cut = [&](uint64_t at) { return std::min(bytes, lines * at / parts * kShareUnit); };
  return {cut(i), cut(i + 1)};
}

class ScheduleMaker {
 public:
  ScheduleMaker(const Group& group, const Call& call, Progress& progress, std::vector<Step>& out)
      : group_(group),
        layout_(*group.layout),
        call_(call),
        bytes_(call.count * SizeOf(call.dtype)),
        progress_(progress),
        out_(out) {}

 protected:
  static Ref In(uint64_t offset) { return {Space::kIn, 0, offset}; }
  static Ref Out(uint64_t offset) { return {Space::kOut, 0, offset}; }
  static Ref Slot(uint32_t place, uint64_t offset) { return {Space::kSlot, place, offset}; }
  static Ref Result(uint64_t offset) { return {Space::kResult, 0, offset}; }
  static Ref Scratch(uint64_t offset) { return {Space::kScratch, 0, offset}; }
  static Ref Plus(Ref ref, uint64_t offset) {
    ref.offset += offset;
    return ref;
  }
  uint32_t me() const { return group_.place; }
  uint32_t size() const { return group_.size(); }

  // The next turns of `turns`.
  template <typename Turn>
  void Turns(uint64_t turns, const Turn& turn) {
    const uint64_t end = std::min(turns, progress_.turn + TurnsAtOnce(group_.ahead));
    for (; progress_.turn < end; ++progress_.turn) {
      turn(progress_.turn);
    }
    progress_.done = progress_.turn == turns;
  }
  // The same, a turn for each piece of at most `max` bytes of a part: turn(at, bytes). At least
  // one.
  template <typename Turn>
  void Pieces(uint64_t max, const Turn& turn) {
    Turns(std::max<uint64_t>(1, (bytes_ + max - 1) / max),
          [&](uint64_t i) { turn(i * max, PieceAt(i * max, max)); });
  }
  // What goes at once, from byte `at` of a part on.
  uint64_t PieceAt(uint64_t at, uint64_t max) const {
    return std::min(max, bytes_ - std::min(at, bytes_));
  }
  // The part for `rank`, or of it, begins at that byte of a buffer that holds all.
  uint64_t InAt(uint32_t rank) const { return AtOf(progress_.in_at, rank); }
  uint64_t OutAt(uint32_t rank) const { return AtOf(progress_.out_at, rank); }
  uint64_t AtOf(const std::vector<uint64_t>& begins, uint32_t rank) const {
    return begins.empty() ? rank * bytes_ : begins[rank];
  }
  // Which of `call_.parts` goes from `from` to `to`, where every rank has a part for each.
  uint64_t PartTo(uint32_t from, uint32_t to) const {
    return call_.kind == OpKind::kAllToAllV ? uint64_t{from} * layout_.world() + to : to;
  }
  // What goes of that part in a turn that begins at byte `at` and moves `piece` of the largest.
  uint64_t PieceOfPart(uint64_t part, uint64_t at, uint64_t piece) const {
    if (call_.parts == nullptr) {
      return piece;
    }
    const uint64_t bytes = call_.parts[part] * SizeOf(call_.dtype);
    return std::min(piece, bytes - std::min(at, bytes));
  }
  // Bytes of the pieces that go from `from` to the first `places` of `node`, one behind another.
  uint64_t Packed(uint32_t from, uint32_t node, uint32_t places, uint64_t at,
                  uint64_t piece) const {
    if (call_.parts == nullptr) {
      return places * piece;
    }
    uint64_t out = 0;
    for (uint32_t place = 0; place < places; ++place) {
      out += PieceOfPart(PartTo(from, layout_.RankOf(node, place)), at, piece);
    }
    return out;
  }
  // A piece for every rank of the world fits into `bytes`.
  uint64_t PieceMax(uint64_t bytes) const {
    return std::max(kShareUnit, bytes / layout_.world() / kShareUnit * kShareUnit);
  }

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
  // What the ranks of this node have at `offset` of `from`; ours is `own`.
  void ReducePlaces(Ref dst, Ref own, uint64_t offset, uint64_t bytes, Space from = Space::kSlot) {
    if (bytes != 0) {
      const StepKind kind = carries_means_ ? StepKind::kMean : StepKind::kReduce;
      out_.push_back({kind, dst, own, from, 0, offset, 0, bytes, 0, 0});
    }
  }
  // Of the whole sum.
  void Divide(Ref dst, uint64_t bytes) {
    if (call_.op == ReduceOp::kAvg && !carries_means_ && bytes != 0) {
      Step& step = Add(StepKind::kDivide);
      step.dst = dst;
      step.bytes = bytes;
    }
  }

  const Group& group_;
  const Layout& layout_;
  const Call& call_;
  const uint64_t bytes_;  // of one rank's part
  const bool carries_means_ = CarriesMeans(call_.dtype, call_.op);
  Progress& progress_;
  std::vector<Step>& out_;
};

// With messages. The rank at place 0 of a node, its leader, speaks for it; in large reductions the
// carriers do, each for its share.
class BetweenNodesMaker : protected ScheduleMaker {
 protected:
  using ScheduleMaker::ScheduleMaker;

  uint32_t node() const { return group_.node; }
  uint32_t nodes() const { return layout_.nodes(); }
  bool is_leader() const { return me() == 0; }
  // The i-th node behind ours, or before: every node begins with another one.
  uint32_t Behind(uint32_t i) const { return (node() + i) % nodes(); }
  uint32_t Before(uint32_t i) const { return (node() + nodes() - i) % nodes(); }

  void Send(uint32_t to, Ref src, uint64_t bytes) {
    Step& step = Add(StepKind::kSend);
    step.node = to;
    step.src = src;
    step.bytes = bytes;
    ++progress_.sends;
  }
  void Receive(uint32_t from, Ref dst, uint64_t bytes) {
    Step& step = Add(StepKind::kReceive);
    step.node = from;
    step.dst = dst;
    step.bytes = bytes;
  }
  // Pieces of a turn that begins at byte `at` of the parts. None of them may be left: then only the
  // first turn sends, for a message tells of the call.
  static bool IsSent(uint64_t at, uint64_t bytes) { return at == 0 || bytes != 0; }
  void SendPieces(uint32_t to, Ref src, uint64_t at, uint64_t bytes) {
    if (IsSent(at, bytes)) {
      Send(to, src, bytes);
    }
  }
  void ReceivePieces(uint32_t from, Ref dst, uint64_t at, uint64_t bytes) {
    if (IsSent(at, bytes)) {
      Receive(from, dst, bytes);
    }
  }
  // Pieces of this turn for every rank into our slot, node by node: those of a node, one behind
  // another, begin where the largest ones would.
  void FillForAll(uint64_t at, uint64_t piece) {
    for (uint32_t i = 0; i < nodes(); ++i) {
      uint64_t packed = layout_.First(i) * piece;
      for (uint32_t place = 0; place < layout_.SizeOf(i); ++place) {
        const uint32_t to = layout_.RankOf(i, place);
        const uint64_t bytes = PieceOfPart(PartTo(group_.rank(), to), at, piece);
        Copy(Slot(me(), packed), In(InAt(to) + at), bytes);
        packed += bytes;
      }
    }
  }
  // Until `sends`, counted from the first of this call, are through.
  void Flush(uint64_t sends) {
    if (sends > progress_.flushed) {
      Add(StepKind::kFlush).offset = sends;
      progress_.flushed = sends;
    }
  }
  void FlushAll() { Flush(progress_.sends); }
  // The caller's buffers are his again.
  void FlushAtEnd() {
    if (progress_.done) {
      FlushAll();
    }
  }
  // What the nodes have; ours is `own`, node i's at `parts` + i * `stride`.
  void ReduceNodes(Ref dst, Ref own, Ref parts, uint64_t stride, uint64_t bytes) {
    if (bytes != 0) {
      const StepKind kind = carries_means_ ? StepKind::kMeanNodes : StepKind::kReduceNodes;
      out_.push_back({kind, dst, own, parts.space, 0, parts.offset, stride, bytes, 0, 0});
    }
  }
  // Each stands for so many ranks.
  void ReducePair(Ref dst, Ref left, uint32_t ranks_left, Ref right, uint32_t ranks_right,
                  uint64_t bytes) {
    if (bytes != 0 && carries_means_) {
      out_.push_back({StepKind::kMeanPair, dst, left, right.space, 0, right.offset, 0, bytes,
                      ranks_left, ranks_right});
    } else if (bytes != 0) {
      out_.push_back(
          {StepKind::kReducePair, dst, left, right.space, 0, right.offset, 0, bytes, 0, 0});
    }
  }

  // A binomial tree over the nodes; `turn` counts from its root. A node's parent has its turn
  // without the lowest bit, its children have one more bit below that one.
  static uint32_t Parent(uint32_t turn) { return turn & (turn - 1); }
  // Of the child with the largest subtree; its siblings are at every lower power of two. 0: a leaf.
  uint32_t ChildrenFrom(uint32_t turn) const {
    uint32_t below = 1;
    while (below < nodes() && (turn & below) == 0) {
      below *= 2;
    }
    return below / 2;
  }
};

// MakeSchedule() of one node, where parts are read straight from each other's memory.
bool IsDirect(const Group& group, const Call& call, const Progress& progress);
void MoveDirectly(const Group& group, const Call& call, Progress& progress, std::vector<Step>& out);

// MakeSchedule() of more than one node.
void MoveBetweenNodes(const Group& group, const Call& call, Progress& progress,
                      std::vector<Step>& out);
void ReduceBetweenNodes(const Group& group, const Call& call, Progress& progress,
                        std::vector<Step>& out);

}  // namespace muster
