// Barrier, broadcast, gather, scatter, all-to-all of more than one node.
//
// Every chunk goes through the slots of a node and its leader. Where a node has one rank only, its
// messages begin and end in the caller's own buffers as far as possible.
#include "worker_sdk/algorithm/schedule_maker.h"

namespace muster {
namespace {

// A broadcast below it goes down a binomial tree (log2(nodes) messages one after the other), above
// it along a chain, chunk behind chunk (every link carries the data once).
constexpr uint64_t kTreeBytesMax = 32u << 10;

class MoveMaker : private BetweenNodesMaker {
 public:
  using BetweenNodesMaker::BetweenNodesMaker;

  void Make() {
    switch (call_.kind) {
      case OpKind::kBroadcast:
        Broadcast();
        break;
      case OpKind::kAllGather:
      case OpKind::kAllGatherV:
      case OpKind::kSplit:
      case OpKind::kGather:
      case OpKind::kGatherV:
        Gather();
        break;
      case OpKind::kScatter:
      case OpKind::kScatterV:
        Scatter();
        break;
      case OpKind::kAllToAll:
      case OpKind::kAllToAllV:
        AllToAll();
        break;
      default:
        Barrier();
    }
    FlushAtEnd();
  }

 private:
  // Dissemination: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization" (1988).
  void Barrier() {
    progress_.done = true;
    Publish();
    if (is_leader()) {
      WaitAll();
      for (uint32_t i = 1; i < nodes(); i *= 2) {
        Send(Behind(i), In(0), 0);
        Receive(Before(i), Out(0), 0);
      }
    }
    Publish();
    WaitOne(0);
  }

  // --- broadcast ---
  void Broadcast() {
    const Layout::Seat root = layout_.SeatOf(call_.root);
    Pieces(group_.slot_bytes, [&](uint64_t at, uint64_t piece) {
      if (node() == root.node) {
        FromRoot(root.place, at, piece);
      } else {
        FromLeader(root.node, at, piece);
      }
    });
  }
  void FromRoot(uint32_t root, uint64_t at, uint64_t piece) {
    if (me() == root) {
      WaitAll();
      Copy(Slot(me(), 0), Out(at), size() > 1 ? piece : 0);
      Publish();
    } else {
      Publish();
      WaitOne(root);
      Copy(Out(at), Slot(root, 0), piece);
    }
    PassOn(node(), at, piece);
  }
  void FromLeader(uint32_t root_node, uint64_t at, uint64_t piece) {
    if (!is_leader()) {
      Publish();
      WaitOne(0);
      return Copy(Out(at), Slot(0, 0), piece);
    }
    Receive(Above(root_node), Out(at), piece);
    PassOn(root_node, at, piece);
    WaitAll();
    Copy(Slot(0, 0), Out(at), size() > 1 ? piece : 0);
    Publish();
  }
  // Places along the chain or in the tree count from the root's node.
  uint32_t Turn(uint32_t root_node) const { return (node() + nodes() - root_node) % nodes(); }
  bool IsTree() const { return bytes_ <= kTreeBytesMax; }
  uint32_t Above(uint32_t root_node) const {
    const uint32_t turn = Turn(root_node);
    return (root_node + (IsTree() ? Parent(turn) : turn - 1)) % nodes();
  }
  void PassOn(uint32_t root_node, uint64_t at, uint64_t piece) {
    if (!is_leader()) {
      return;
    }
    const uint32_t turn = Turn(root_node);
    for (uint32_t child = IsTree() ? ChildrenFrom(turn) : 1; child > 0; child /= 2) {
      if (turn + child < nodes()) {
        Send((root_node + turn + child) % nodes(), Out(at), piece);
      }
    }
  }

  // --- all-gather, gather ---
  void Gather() {
    const Layout::Seat root = layout_.SeatOf(call_.root);
    const bool all = call_.kind != OpKind::kGather && call_.kind != OpKind::kGatherV;
    const bool takes = all || (node() == root.node && me() == root.place);
    const uint64_t piece_max = std::min(group_.slot_bytes, PieceMax(group_.result_bytes));
    Pieces(piece_max, [&](uint64_t at, uint64_t piece) {
      const uint64_t own = PieceOfPart(group_.rank(), at, piece);
      WaitAll();
      Copy(Slot(me(), 0), In(at), size() > 1 ? own : 0);
      Publish();
      if (is_leader() || takes) {
        WaitAll();
      }
      if (takes) {
        Copy(Out(OutAt(group_.rank()) + at), In(at),
             own);  // first: `in` may begin where `out` does
      }
      for (uint32_t i = 1; is_leader() && i < nodes(); ++i) {
        if (all || Behind(i) == root.node) {
          SendParts(Behind(i), takes, at, piece);
        }
      }
      if (takes) {
        for (uint32_t place = 0; place < size(); ++place) {
          if (place != me()) {
            const uint32_t rank = layout_.RankOf(node(), place);
            Copy(Out(OutAt(rank) + at), Slot(place, 0), PieceOfPart(rank, at, piece));
          }
        }
      }
      const bool comes = all || node() == root.node;
      // Nobody else of this node wants it: straight into the output.
      const bool straight = is_leader() && takes && (size() == 1 || !all);
      if (is_leader()) {
        for (uint32_t i = 1; comes && i < nodes(); ++i) {
          ReceiveParts(Before(i), straight, at, piece);
        }
        FlushAll();  // the slots
      }
      Publish();
      WaitOne(0);
      for (uint32_t i = 1; takes && !straight && i < nodes(); ++i) {
        TakeParts(Before(i), at, piece);
      }
    });
  }
  void SendParts(uint32_t to, bool takes, uint64_t at, uint64_t piece) {
    const Ref own = takes ? Out(OutAt(group_.rank()) + at) : In(at);
    for (uint32_t place = 0; place < size(); ++place) {
      SendPieces(to, size() == 1 ? own : Slot(place, 0), at,
                 PieceOfPart(layout_.RankOf(node(), place), at, piece));
    }
  }
  void ReceiveParts(uint32_t from, bool straight, uint64_t at, uint64_t piece) {
    for (uint32_t place = 0; place < layout_.SizeOf(from); ++place) {
      const uint64_t position = layout_.First(from) + place;
      const uint32_t rank = layout_.RankOf(from, place);
      ReceivePieces(from, straight ? Out(OutAt(rank) + at) : Result(position * piece), at,
                    PieceOfPart(rank, at, piece));
    }
  }
  void TakeParts(uint32_t from, uint64_t at, uint64_t piece) {
    for (uint32_t place = 0; place < layout_.SizeOf(from); ++place) {
      const uint64_t position = layout_.First(from) + place;
      const uint32_t rank = layout_.RankOf(from, place);
      Copy(Out(OutAt(rank) + at), Result(position * piece), PieceOfPart(rank, at, piece));
    }
  }

  // --- scatter ---
  void Scatter() {
    const Layout::Seat root = layout_.SeatOf(call_.root);
    const uint64_t piece_max = std::min(group_.slot_bytes, PieceMax(group_.result_bytes));
    Pieces(piece_max, [&](uint64_t at, uint64_t piece) {
      if (node() == root.node) {
        ScatterHere(root.place, at, piece);
      } else {
        ScatterThere(root.node, at, piece);
      }
    });
  }
  // Those of a node travel in one message, one behind another.
  void ScatterHere(uint32_t root, uint64_t at, uint64_t piece) {
    const uint64_t own = PieceOfPart(group_.rank(), at, piece);
    if (me() == root) {
      WaitAll();
      for (uint32_t i = 0; i < nodes(); ++i) {
        uint64_t packed = layout_.First(i) * piece;
        for (uint32_t place = 0; place < layout_.SizeOf(i); ++place) {
          const uint32_t rank = layout_.RankOf(i, place);
          const uint64_t bytes = PieceOfPart(rank, at, piece);
          if (rank != call_.root) {
            Copy(i == node() ? Slot(place, 0) : Result(packed), In(InAt(rank) + at), bytes);
          }
          packed += bytes;
        }
      }
      Publish();
      Copy(Out(at), In(InAt(call_.root) + at), own);
    } else {
      Publish();
      WaitOne(root);
      Copy(Out(at), Slot(me(), 0), own);
    }
    if (is_leader()) {
      for (uint32_t i = 1; i < nodes(); ++i) {
        const uint32_t to = Behind(i);
        SendPieces(to, Result(layout_.First(to) * piece), at,
                   Packed(call_.root, to, layout_.SizeOf(to), at, piece));
      }
      FlushAll();  // the result area
    }
  }
  void ScatterThere(uint32_t root_node, uint64_t at, uint64_t piece) {
    const uint64_t own = PieceOfPart(group_.rank(), at, piece);
    if (!is_leader()) {
      Publish();
      WaitOne(0);
      return Copy(Out(at), Slot(me(), 0), own);
    }
    ReceivePieces(root_node, size() == 1 ? Out(at) : Scratch(0), at,
                  Packed(call_.root, node(), size(), at, piece));
    WaitAll();
    uint64_t packed = 0;
    for (uint32_t place = 0; size() > 1 && place < size(); ++place) {
      const uint64_t bytes = PieceOfPart(layout_.RankOf(node(), place), at, piece);
      Copy(place == 0 ? Out(at) : Slot(place, 0), Scratch(packed), bytes);
      packed += bytes;
    }
    Publish();
  }

  // --- all-to-all: a slot holds a piece for every rank, node by node ---
  void AllToAll() {
    const uint64_t piece_max = PieceMax(group_.slot_bytes);
    Pieces(piece_max, [&](uint64_t at, uint64_t piece) {
      WaitAll();
      FillForAll(at, piece);
      Publish();
      WaitAll();
      for (uint32_t i = 1; is_leader() && i < nodes(); ++i) {
        const uint32_t to = Behind(i);
        for (uint32_t place = 0; place < size(); ++place) {
          SendPieces(to, Slot(place, layout_.First(to) * piece), at,
                     Packed(layout_.RankOf(node(), place), to, layout_.SizeOf(to), at, piece));
        }
      }
      for (uint32_t place = 0; place < size(); ++place) {
        const uint32_t rank = layout_.RankOf(node(), place);
        TakePiece(rank, Slot(place, layout_.First(node()) * piece), at, piece);
      }
      if (is_leader()) {
        for (uint32_t i = 1; i < nodes(); ++i) {
          const uint32_t from = Before(i);
          for (uint32_t place = 0; place < layout_.SizeOf(from); ++place) {
            ReceivePieces(from, FromFar(layout_.First(from) + place, piece), at,
                          Packed(layout_.RankOf(from, place), node(), size(), at, piece));
          }
        }
        FlushAll();  // the slots
      }
      Publish();
      WaitOne(0);
      for (uint32_t position = 0; position < layout_.world(); ++position) {
        const uint32_t rank = layout_.RankAt(position);
        if (layout_.SeatOf(rank).node != node()) {
          TakePiece(rank, FromFar(position, piece), at, piece);
        }
      }
    });
  }
  // What the rank at `position` has sent to this node.
  Ref FromFar(uint32_t position, uint64_t piece) const {
    return Result(uint64_t{position} * size() * piece);
  }
  // Ours of the pieces that `from` has for this node, the first of which is at `first`.
  void TakePiece(uint32_t from, Ref first, uint64_t at, uint64_t piece) {
    Copy(Out(OutAt(from) + at), Plus(first, Packed(from, node(), me(), at, piece)),
         PieceOfPart(PartTo(from, group_.rank()), at, piece));
  }
};

}  // namespace

void MoveBetweenNodes(const Group& group, const Call& call, Progress& progress,
                      std::vector<Step>& out) {
  MoveMaker(group, call, progress, out).Make();
}

}  // namespace muster
