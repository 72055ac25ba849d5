// A collective as a list of steps for one rank: pure values, carried out by executor/.
//
// Ranks of a node meet in an arena: each has a slot, and there is one result area; both exist twice
// and change places with every phase. A rank *publishes* a phase when all it wrote before may be
// read by the others, and all that it read before may be overwritten. Hence the rules:
//  S1 all ranks of a call publish the same number of phases;
//  S2 what is written before a publish goes to the arena of the *next* phase, what is read after it
//     comes from that phase;
//  S3 a rank writes into the arena only after it has waited for all to publish the phase it is in:
//     then nobody reads the area any more that it writes to;
//  S4 a rank reads what another wrote only after it has waited for that one's publish.
// Between nodes, ranks at the same place of two nodes send each other messages. A send is begun and
// goes on while the rank does other steps, waiting included; a receive waits. Hence:
//  S5 the messages between two ranks have the same sizes in the same order on both sides, and all
//     are received within the call;
//  S6 what is being sent is not written to before a flush says that it is through;
//  S7 nobody waits for ever, even if a message leaves its sender only when its receiver takes it.
// What travels may be narrow: bfloat16 in place of float32. Every rank ends with equal bits, hence:
//  S8 narrow numbers are sent from and received into narrow memory only; what a node has itself
//  goes
//     through it as well before it is added to what the others sent.
// The steps of a call come in parts, some turns (of a chunk each) at a time: no part grows with the
// call. Hence:
//  S9 the first part speaks of every peer, and of all the memory of this rank alone, that later
//  ones
//     need.
// Ranks of a node may also read straight from each other's memory: one tells in its near bytes
// where that is. Hence:
//  S10 what is told of is neither written to, nor given back to the caller, before all who read
//      there have published the phase after it, and the teller has waited for them.
// tests/worker_sdk/algorithm checks S1..S10 on every schedule, for every size and number of nodes,
// in random order.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/types.h"
#include "worker_sdk/algorithm/layout.h"

namespace muster {

// To be raised with every change after which two libmusters would make different steps of a call.
inline constexpr uint32_t kScheduleVersion = 4;

// What is called. The numbers travel between ranks.
enum class OpKind : uint8_t {
  kBarrier = 1,
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kGather,
  kScatter,
  kReduceScatter,
  kAllToAll,
  kAllGatherV,  // the parts of the ranks differ, from here on to kAllToAllV
  kGatherV,
  kScatterV,
  kReduceScatterV,
  kAllToAllV,
  kSplit,  // an all-gather of the ranks' wishes
};
const char* Name(OpKind kind);  // "all_reduce"
bool IsReduction(OpKind kind);
// Whether what stands for several ranks on the way is their mean instead of their sum, and a mean
// of means is weighted by ranks: avg of float16, whose sum may be beyond its largest number (65504)
// where the mean is not, and whose quotient may have fewer bits than the mean, and of bfloat16. Of
// other types who holds the whole sum divides it.
bool CarriesMeans(DType dtype, ReduceOp op);
// Whether it may ask for narrow numbers: a reduction of float32 by sum or avg.
bool CanBeNarrow(OpKind kind, DType dtype, ReduceOp op);

struct Call {
  OpKind kind = OpKind::kBarrier;
  DType dtype = DType::kUInt8;
  ReduceOp op = ReduceOp::kSum;
  uint32_t root = 0;
  uint64_t count = 0;  // elements; of one rank's part where a call has parts, of the largest one
  Wire wire = Wire::kFull;
  // Elements of the part of each rank, one behind another in the buffer of all; kAllToAllV: of what
  // rank 0 sends to each, rank 1, ... Null: each is `count`. Outlives the call.
  const uint64_t* parts = nullptr;
};

inline constexpr uint32_t kAheadMax = 16;

// All ranks, and our place among them. Everything but `node` and `place` is the same for all.
struct Group {
  const Layout* layout = nullptr;  // outlives the group
  uint32_t node = 0;
  uint32_t place = 0;         // on that node
  uint64_t slot_bytes = 0;    // the smallest of all nodes
  uint64_t result_bytes = 0;  // the smallest of all nodes
  uint32_t carriers = 1;      // ranks of each node that share the traffic of a large reduction
  uint32_t ahead = 1;         // its chunks that are sent before the first must come: 1..kAheadMax
  bool direct = false;        // on one node, large parts are read straight from others' memory
  bool quick_slots = false;   // but for those that come through slots as quickly here

  uint32_t size() const { return layout->SizeOf(node); }
  uint32_t rank() const { return layout->RankOf(node, place); }
};

enum class Space : uint8_t { kIn, kOut, kSlot, kNear, kResult, kScratch, kNarrow, kTheirs };
inline constexpr uint64_t kNearBytes = 8;  // of kNear

// Where: byte `offset` of the caller's input or output, of the slot of the rank at `place`, of the
// result area, of memory that is this rank's alone; kNear: the few bytes of that rank that travel
// together with the news of its publish; kNarrow: more memory that is this rank's alone, of narrow
// numbers, whose bytes are counted as if they were not; kTheirs: what the rank at `place` has told
// of.
struct Ref {
  Space space = Space::kIn;
  uint32_t place = 0;  // kSlot, kNear, kTheirs
  uint64_t offset = 0;
  bool operator==(const Ref&) const = default;
};

enum class StepKind : uint8_t {
  kCopy,         // dst = src, which may be narrow
  kReduce,       // dst = what place 0 has in `from` op what place 1 has op ...; ours is in `src`
  kMean,         // the mean of the same, rounded once
  kReduceNodes,  // dst = what node 0 sent op what node 1 sent ...: node i's is in `from` at
                 // `offset`
                 // + i * `stride`, ours is in `src`
  kMeanNodes,    // the same of the nodes' means: the mean of their ranks
  kReducePair,   // dst = src op what is in `from` at `offset`
  kMeanPair,     // the same of the means of `ranks` ranks and of `ranks_from`
  kDivide,       // dst /= size of the world
  kPublish,      // the next phase
  kWaitAll,      // until all have published the phase we are in
  kWaitOne,      // until the one at src.place has
  kSend,         // src to `node`
  kReceive,      // dst from `node`
  kFlush,        // until the first `offset` sends of this call are through
  kAsk,          // with the next phase, whether others may read `bytes` of src
  kTell,         // with the next phase, where src is
  kTellApart,    // the same; if the caller's input is his output, where dst is, or nothing (kIn)
};

struct Step {
  StepKind kind = StepKind::kPublish;
  Ref dst;
  Ref src;
  Space from = Space::kSlot;  // kReduce to kMeanPair
  uint32_t node = 0;          // kSend, kReceive
  uint64_t offset = 0;        // in `from`
  uint64_t stride = 0;
  uint64_t bytes = 0;
  uint32_t ranks = 0;  // kMeanPair: whose mean is in `src`
  uint32_t ranks_from = 0;
  bool operator==(const Step&) const = default;
};

// Chunks of a reduction between nodes whose messages are under way at the same time.
constexpr uint64_t UnderWay(uint32_t ahead) { return 2 * uint64_t{ahead} + 1; }
// After so many turns the first chunks under way are finished, and their memory comes again.
constexpr uint64_t TurnsAtOnce(uint32_t ahead) { return 4 * uint64_t{ahead} + 1; }

// How far the schedule of a call has been made.
struct Progress {
  bool done = false;
  uint64_t turn = 0;     // the next one
  uint64_t sends = 0;    // so far
  uint64_t flushed = 0;  // of them
  // Sends so far, after the first and the second step of a chunk's way: by chunk % UnderWay(). Not
  // set before that step: so much zeroing is what a small call would wait for.
  uint64_t begun[UnderWay(kAheadMax)];
  uint64_t middle[UnderWay(kAheadMax)];
  bool asked = false;    // who cannot be read has said so
  bool refused = false;  // to be set after the part that asks: somebody has
  // Byte of `in`, and of `out`, where the part of each rank begins; empty: parts are equal.
  std::vector<uint64_t> in_at = {};
  std::vector<uint64_t> out_at = {};
};

// The next steps of the rank at `group.place` of `group.node` for `call`, into `out` (which is
// cleared: its memory is used again). To be called until `progress.done`.
void MakeSchedule(const Group& group, const Call& call, Progress& progress, std::vector<Step>& out);

}  // namespace muster
