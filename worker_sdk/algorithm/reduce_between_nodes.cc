// All-reduce, reduce and reduce-scatter of more than one node.
#include "worker_sdk/algorithm/schedule_maker.h"

namespace muster {
namespace {

// A share below it goes to every other node as a whole: one message time instead of two, for more
// bytes. Between two nodes it is as many bytes either way.
constexpr uint64_t kWholeBytesMax = 4u << 10;
// Among more nodes what is small goes up a tree and down again: no node has more than log2(nodes)
// messages, nor connections.
constexpr uint32_t kDirectNodesMax = 8;

class ReduceMaker : private BetweenNodesMaker {
 public:
  using BetweenNodesMaker::BetweenNodesMaker;

  void Make() {
    if (call_.kind == OpKind::kReduceScatter || call_.kind == OpKind::kReduceScatterV) {
      ReduceScatter();
    } else if (bytes_ <= kNearBytes) {
      Near();
    } else {
      AllReduce();
    }
    FlushAtEnd();
  }

 private:
  bool IsTarget(uint32_t node) const {
    return call_.kind != OpKind::kReduce || node == layout_.SeatOf(call_.root).node;
  }
  bool Takes() const { return call_.kind != OpKind::kReduce || group_.rank() == call_.root; }

  // What fits into the lines that tell of a publish; it travels in full.
  void Near() {
    progress_.done = true;
    WaitAll();
    Copy({Space::kNear, me(), 0}, In(0), bytes_);
    Publish();
    if (is_leader()) {
      WaitAll();
      const Ref own = Scratch(node() * kShareUnit);
      const Ref sum = {Space::kNear, 0, 0};
      ReducePlaces(own, In(0), 0, bytes_, Space::kNear);
      if (nodes() > kDirectNodesMax) {
        Tree(sum, own, Scratch(nodes() * kShareUnit), bytes_);
      } else {
        SendToTargets(own, bytes_);
        if (IsTarget(node())) {
          ReceiveWholes(Scratch(0), kShareUnit, bytes_);
          ReduceNodes(sum, own, Scratch(0), kShareUnit, bytes_);
        }
      }
      if (IsTarget(node())) {
        Divide(sum, bytes_);
      }
    }
    Publish();
    if (IsTarget(node())) {
      WaitOne(0);
      if (Takes()) {
        Copy(Out(0), {Space::kNear, 0, 0}, bytes_);
      }
    }
  }
  // `own` of all nodes, reduced into `sum` of those that want it; `spare`: memory of ours alone.
  void Tree(Ref sum, Ref own, Ref spare, uint64_t bytes) {
    const bool all = call_.kind != OpKind::kReduce;
    const uint32_t root = all ? 0 : layout_.SeatOf(call_.root).node;
    const uint32_t turn = (node() + nodes() - root) % nodes();
    const auto at = [&](uint32_t of_turn) { return (root + of_turn) % nodes(); };
    const auto ranks_of = [&](uint32_t begin, uint32_t end) {  // of these turns
      uint32_t ranks = 0;
      for (uint32_t i = begin; i < std::min(end, nodes()); ++i) {
        ranks += layout_.SizeOf(at(i));
      }
      return ranks;
    };
    Ref sofar = own;
    for (uint32_t child = 1; child <= ChildrenFrom(turn); child *= 2) {
      if (turn + child < nodes()) {
        Receive(at(turn + child), spare, bytes);
        const Ref next = Plus(spare, bytes + kShareUnit);
        ReducePair(next, sofar, ranks_of(turn, turn + child), spare,
                   ranks_of(turn + child, turn + 2 * child), bytes);
        sofar = next;
      }
    }
    if (turn != 0) {
      Send(at(Parent(turn)), sofar, bytes);
      if (!all) {
        return;
      }
      FlushAll();
      sofar = spare;
      Receive(at(Parent(turn)), sofar, bytes);
    }
    for (uint32_t child = ChildrenFrom(turn); all && child > 0; child /= 2) {
      if (turn + child < nodes()) {
        Send(at(turn + child), sofar, bytes);
      }
    }
    Copy(sum, sofar, bytes);
  }
  void SendToTargets(Ref src, uint64_t bytes) {
    for (uint32_t i = 1; i < nodes(); ++i) {
      if (IsTarget(Behind(i))) {
        Send(Behind(i), src, bytes);
      }
    }
  }
  void ReceiveWholes(Ref parts, uint64_t stride, uint64_t bytes) {
    for (uint32_t i = 1; i < nodes(); ++i) {
      Receive(Before(i), Plus(parts, Before(i) * stride), bytes);
    }
  }

  // In chunks. A carrier reduces its share of a chunk over the node, then over the nodes, and puts
  // it into the result area. The next chunks, `ahead` of them, are reduced in the node, and their
  // messages are sent, before those of chunk k are waited for: with one,
  //   fill(0) publish wait | begin(0) fill(1) publish wait | begin(1) end(0) fill(2) publish wait
  //   take(0) | ...
  // One is enough where messages are fast; a network with a long delay is idle for most of it then.
  void AllReduce() {
    chunks_ = (bytes_ + group_.slot_bytes - 1) / group_.slot_bytes;
    whole_ = nodes() == 2 || (chunks_ == 1 && bytes_ / group_.carriers <= kWholeBytesMax);
    tree_ = whole_ && nodes() > kDirectNodesMax;
    share_max_ = ShareMax(ChunkAt(0), group_.carriers);
    part_max_ = whole_ ? share_max_ : ShareMax(share_max_, nodes());
    ahead_ = std::min<uint64_t>(group_.ahead, chunks_ - 1);
    const uint64_t delay = whole_ ? ahead_ : 2 * ahead_;
    if (progress_.turn == 0) {
      WaitAll();
      Fill(0);
      Publish();
      if (chunks_ > 1 || IsCarrier()) {
        WaitAll();
      }
    }
    Turns(chunks_ + delay, [&](uint64_t turn) {
      if (turn + 1 < chunks_) {
        Fill(turn + 1);
      }
      if (IsCarrier()) {
        Carry(turn, delay);
      }
      Publish();
      if (turn + 1 < chunks_ + delay) {
        WaitAll();
      } else {
        WaitForCarriers();
      }
      if (turn >= delay && Takes()) {
        Take(turn - delay);
      }
    });
  }
  void Carry(uint64_t turn, uint64_t delay) {
    if (tree_) {
      return CarryByTree();
    }
    if (turn < chunks_) {
      Begin(turn);
    }
    if (!whole_ && turn >= ahead_ && turn - ahead_ < chunks_) {
      Middle(turn - ahead_);
    }
    if (turn >= delay && IsTarget(node())) {
      End(turn - delay);
    }
  }
  void CarryByTree() {
    const Range share = ShareOf(0);
    const Ref target = Takes() ? Out(share.begin) : Result(share.begin);
    ReduceHere(0);
    Tree(target, Partial(0), Parts(0), share.bytes());
    if (IsTarget(node())) {
      Finish(target, share);
    }
  }
  // The sum of a share is in `target`.
  void Finish(Ref target, Range share) {
    Divide(target, share.bytes());
    PutIntoResult(target, share);
  }
  void PutIntoResult(Ref target, Range share) {
    Copy(Result(share.begin), target, Takes() && size() > 1 ? share.bytes() : 0);
  }
  void WaitForCarriers() {
    for (uint32_t place = 0; place < group_.carriers; ++place) {
      WaitOne(place);
    }
  }
  bool IsCarrier() const { return me() < group_.carriers; }
  uint64_t At(uint64_t chunk) const { return chunk * group_.slot_bytes; }
  uint64_t ChunkAt(uint64_t chunk) const { return PieceAt(At(chunk), group_.slot_bytes); }
  Range ShareOf(uint64_t chunk) const {
    return IsCarrier() ? Share(ChunkAt(chunk), me(), group_.carriers) : Range{};
  }
  // A carrier's own share never goes through its slot.
  void Fill(uint64_t chunk) {
    if (size() > 1) {
      const Range share = ShareOf(chunk);
      Copy(Slot(me(), 0), In(At(chunk)), share.begin);
      Copy(Slot(me(), share.end), In(At(chunk) + share.end), ChunkAt(chunk) - share.end);
    }
  }
  void Take(uint64_t chunk) {
    if (size() > 1) {
      const Range share = ShareOf(chunk);
      Copy(Out(At(chunk)), Result(0), share.begin);
      Copy(Out(At(chunk) + share.end), Result(share.end), ChunkAt(chunk) - share.end);
    }
  }

  // Memory of a carrier, once for each chunk under way: what each other node sent, what this node
  // has itself, the piece that we have finished.
  Ref Wired(uint64_t offset) const {
    return {narrow_ ? Space::kNarrow : Space::kScratch, 0, offset};
  }
  Ref Parts(uint64_t chunk) const { return Wired(chunk % under_way_ * nodes() * part_max_); }
  // This node's part of our share: of one rank it is what the caller has, as it is.
  bool IsPartialIn() const { return size() == 1 && !narrow_; }
  Ref Partial(uint64_t chunk) const {
    return IsPartialIn()
               ? In(At(chunk) + ShareOf(chunk).begin)
               : Wired(under_way_ * nodes() * part_max_ + chunk % under_way_ * share_max_);
  }
  Ref Finished(uint64_t chunk) const {
    return Wired(under_way_ * (nodes() * part_max_ + share_max_) + chunk % under_way_ * part_max_);
  }
  Range PieceOf(uint64_t chunk, uint32_t node) const {
    return Share(ShareOf(chunk).bytes(), node, nodes());
  }

  void ReduceHere(uint64_t chunk) {
    const Range share = ShareOf(chunk);
    if (!IsPartialIn()) {
      if (chunk / under_way_ > 0) {
        Flush(progress_.begun[chunk % under_way_]);  // of the chunk that was there
      }
      ReducePlaces(Partial(chunk), In(At(chunk) + share.begin), share.begin, share.bytes());
    }
  }
  void Begin(uint64_t chunk) {
    ReduceHere(chunk);
    if (whole_) {
      SendToTargets(Partial(chunk), ShareOf(chunk).bytes());
    } else {
      for (uint32_t i = 1; i < nodes(); ++i) {
        const Range piece = PieceOf(chunk, Behind(i));
        Send(Behind(i), Plus(Partial(chunk), piece.begin), piece.bytes());
      }
    }
    progress_.begun[chunk % under_way_] = progress_.sends;
  }
  // Each node finishes a piece of the share.
  void Middle(uint64_t chunk) {
    const Range piece = PieceOf(chunk, node());
    for (uint32_t i = 1; i < nodes(); ++i) {
      Receive(Before(i), Plus(Parts(chunk), Before(i) * part_max_), piece.bytes());
    }
    if (chunk >= under_way_) {
      Flush(progress_.middle[chunk % under_way_]);
    }
    ReduceNodes(Finished(chunk), Plus(Partial(chunk), piece.begin), Parts(chunk), part_max_,
                piece.bytes());
    if (!narrow_) {
      Divide(Finished(chunk), piece.bytes());
    }
    SendToTargets(Finished(chunk), piece.bytes());
    progress_.middle[chunk % under_way_] = progress_.sends;
  }
  void End(uint64_t chunk) {
    const Range share = ShareOf(chunk);
    const uint64_t at = At(chunk) + share.begin;
    const Ref target = Takes() ? Out(at) : Result(share.begin);
    if (whole_) {
      ReceiveWholes(Parts(chunk), part_max_, share.bytes());
    }
    if (IsPartialIn()) {
      Flush(progress_.begun[chunk % under_way_]);  // of `in`, which may be `out`
    }
    if (whole_) {
      ReduceNodes(target, Partial(chunk), Parts(chunk), part_max_, share.bytes());
      return Finish(target, share);
    }
    for (uint32_t i = 1; i < nodes(); ++i) {
      const Range piece = PieceOf(chunk, Before(i));
      const Ref place = Plus(target, piece.begin);
      const Ref part = narrow_ ? Plus(Parts(chunk), Before(i) * part_max_) : place;
      Receive(Before(i), part, piece.bytes());
      Copy(place, part, narrow_ ? piece.bytes() : 0);
    }
    const Range own = PieceOf(chunk, node());
    Copy(Plus(target, own.begin), Finished(chunk), own.bytes());
    if (narrow_) {
      Finish(target, share);
    } else {
      PutIntoResult(target, share);
    }
  }

  // A slot holds a piece for every rank, node by node; the leader reduces them all.
  void ReduceScatter() {
    const uint64_t piece_max = PieceMax(group_.slot_bytes);
    Pieces(piece_max, [&](uint64_t at, uint64_t piece) {
      WaitAll();
      FillForAll(at, piece);
      Publish();
      if (is_leader()) {
        WaitAll();
        ScatterSums(at, piece);
      }
      Publish();
      WaitOne(0);
      Copy(Out(at), Result(ForNode(node(), me(), at, piece)),
           size() > 1 ? PieceOfPart(group_.rank(), at, piece) : 0);
    });
  }
  // Bytes of the pieces for the first `places` of a node: every rank has the same.
  uint64_t ForNode(uint32_t node, uint32_t places, uint64_t at, uint64_t piece) const {
    return Packed(group_.rank(), node, places, at, piece);
  }
  void ScatterSums(uint64_t at, uint64_t piece) {
    for (uint32_t i = 1; i <= nodes(); ++i) {  // ours comes last
      const uint64_t begin = layout_.First(Behind(i)) * piece;
      const uint64_t bytes = ForNode(Behind(i), layout_.SizeOf(Behind(i)), at, piece);
      ReducePlaces(Wired(begin), Slot(0, begin), begin, bytes);
      if (i < nodes()) {
        SendPieces(Behind(i), Wired(begin), at, bytes);
      }
    }
    const uint64_t own = layout_.First(node()) * piece;
    const uint64_t bytes = ForNode(node(), size(), at, piece);
    const uint64_t stride = bytes + kShareUnit;
    const Ref parts = Wired(group_.slot_bytes + kShareUnit * layout_.world());
    if (IsSent(at, bytes)) {
      ReceiveWholes(parts, stride, bytes);
    }
    const Ref target = size() == 1 ? Out(at) : Result(0);
    ReduceNodes(target, Wired(own), parts, stride, bytes);
    Divide(target, bytes);
    FlushAll();  // the sums
  }

  const bool narrow_ = call_.wire == Wire::kBFloat16;
  const uint64_t under_way_ = UnderWay(group_.ahead);
  uint64_t chunks_ = 0;
  uint64_t ahead_ = 0;
  bool whole_ = false;      // a share goes to every other node as a whole
  bool tree_ = false;       // up a tree and down again
  uint64_t share_max_ = 0;  // bytes of a share
  uint64_t part_max_ = 0;   // of what a node sends another of it
};

}  // namespace

void ReduceBetweenNodes(const Group& group, const Call& call, Progress& progress,
                        std::vector<Step>& out) {
  ReduceMaker(group, call, progress, out).Make();
}

}  // namespace muster
