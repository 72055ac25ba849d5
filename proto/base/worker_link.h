// Between a worker's SDK and the agent of its node. Without Abseil: both include it.
//
// The agent hands every worker one descriptor, the door (number kWorkerDoorFd, announced in
// MUSTER_AGENT_FD): a datagram socket that all workers of the node share and only the agent reads.
// A worker that uses the SDK makes a socket pair and sends one end through the door, with a
// LinkHello. From then on the two talk on that pair (SOCK_SEQPACKET, one struct a message, host
// byte order: both are on one machine), and its end tells the agent that the worker is gone. A
// worker that never calls the SDK costs nothing.
//
// A round may be kept (launch --restart=one): the next one has the same ranks at the same places,
// and living workers go on in it. What they shared in the old round is over then: ArenaHeader::over
// says so to those that wait. A worker follows with a new hello, which is answered when there is a
// next round.
#pragma once

#include <algorithm>
#include <cstdint>

namespace muster {

inline constexpr uint32_t kLinkMagic = 0x4b4c534d;  // "MSLK"
inline constexpr uint32_t kLinkVersion = 8;
// In the worker; above what programs expect to get from their first open(), below small limits.
inline constexpr int kWorkerDoorFd = 100;
// Where a worker whose MPI speaks PMI-1 talks to its agent (PMI_FD).
inline constexpr int kWorkerPmiFd = 102;
// Workers of a node: what limits.h allows; a larger number in the environment is a mistake.
inline constexpr uint32_t kLocalSizeMax = 4096;
// Numbers below count the communicators of all ranks of the round.
inline constexpr uint64_t kGroupMin = uint64_t{1} << 32;

// worker -> agent, through the door, with the agent's end of the link. Behind that of a group: a
// uint32_t for each of its `local_size` ranks of this node, in the order of their places.
struct LinkHello {
  uint32_t magic = kLinkMagic;
  uint32_t version = kLinkVersion;
  uint64_t round = 0;  // RoundId::Token(): the last one that the worker knows of
  uint32_t rank = 0;   // in the round, wherever a rank is said on the link
  uint32_t place = 0;  // of a group: ours among its ranks of this node
  // 0: all ranks of the round. Otherwise a number from kGroupMin on that all ranks of a group, and
  // nobody else, have computed; what follows is of the group, the same from all its ranks of this
  // node.
  uint64_t group = 0;
  uint32_t local_size = 0;
  uint32_t nodes = 0;
  uint32_t world_size = 0;
  // 1: into the round that keeps the worker after `round`, please, when there is one. Not of a
  // group.
  uint32_t follows = 0;
};

// kOver: refused, as the round is over, or no other one follows.
enum class LinkAnswer : uint32_t { kWelcome = 1, kRefused = 2, kOver = 3 };

// agent -> worker, with the arena's descriptor if kWelcome.
struct LinkWelcome {
  uint32_t magic = kLinkMagic;
  LinkAnswer answer = LinkAnswer::kWelcome;
  uint32_t cpus = 0;        // that this node's workers may use: the quota of the cgroup counts
  uint32_t local_size = 0;  // of the arena, and what follows
  uint32_t nodes = 0;
  uint32_t world_size = 0;
  uint64_t slot_bytes = 0;
  uint64_t result_bytes = 0;
  uint64_t number = 0;  // of the communicator, the same for all its ranks
  uint64_t round = 0;   // that it is of
  // 1: the worker was started in a round that keeps others, in the place of one that ended.
  uint32_t replaces = 0;
  uint32_t reserved = 0;
  char why[192] = {};  // kRefused, kOver: a sentence
};

enum class LinkVerb : uint32_t {
  kBye = 1,   // the communicator is closed; the end of the link is no death
  kSeek = 2,  // a connection with `rank`, please: both sides ask
  // A call has failed because `rank`, another one of the round, has ended; of itself: it has
  // failed, and is about to end.
  kBlame = 3,
};

// What a connection is for; two workers may have one of each.
enum class LinkChannel : uint32_t {
  kCollectives = 0,  // with a worker of another node
  kMessages = 1,     // with any other worker
};
constexpr bool IsChannel(LinkChannel channel) {
  return channel == LinkChannel::kCollectives || channel == LinkChannel::kMessages;
}

// worker -> agent, after the welcome.
struct LinkWord {
  uint32_t magic = kLinkMagic;
  LinkVerb verb = LinkVerb::kBye;
  uint32_t rank = 0;                                // kSeek, kBlame
  LinkChannel channel = LinkChannel::kCollectives;  // kSeek
};

// agent -> worker, once for each kSeek, in any order. kWelcome: a connection between the same
// communicators of the two workers comes along. With a worker of another node it is a TCP
// connection; the agents have proven to each other that they are of this job, and nothing else has
// been said on it. It has TCP_NODELAY and keepalive set. With a worker of this node it is a memfd,
// sealed against change of size: a Pipe, all zero.
struct LinkPeer {
  uint32_t magic = kLinkMagic;
  LinkAnswer answer = LinkAnswer::kWelcome;
  uint32_t rank = 0;
  LinkChannel channel = LinkChannel::kCollectives;
  char why[192] = {};  // kRefused: a sentence
};

// The memory that the SDKs of a node's workers share in one round: a memfd, sealed against change
// of size, all zero when the agent hands it out and never used by a later round, nor for a second
// communicator of the same round.
//
//   header | lines, one a rank | map | slots, one a rank and parity | results, one a parity
//
// The map says where every rank of the round is: the number of ranks of each node, then the ranks
// of node 0 in ascending order, of node 1, ..., a uint32_t each. A rank's place among those of its
// node is its place in the arena. The agent has filled it in; a group's is left empty, for its
// ranks know it.
struct ArenaGeometry {
  uint32_t local_size = 0;
  uint32_t nodes = 1;
  uint32_t world_size = 0;
  uint64_t slot_bytes = 0;    // a multiple of kPage
  uint64_t result_bytes = 0;  // a multiple of kPage

  static constexpr uint64_t kPage = 4096;
  static constexpr uint64_t kLineBytes = 128;  // two cache lines: many machines fetch them in pairs
  static constexpr uint64_t RoundUp(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

  constexpr uint64_t LinesAt() const { return kPage; }
  constexpr uint64_t MapAt() const {
    return LinesAt() + RoundUp(uint64_t{local_size} * kLineBytes);
  }
  constexpr uint64_t SlotsAt() const {
    return MapAt() + RoundUp((uint64_t{nodes} + world_size) * sizeof(uint32_t));
  }
  constexpr uint64_t ResultsAt() const { return SlotsAt() + uint64_t{2} * local_size * slot_bytes; }
  constexpr uint64_t Bytes() const { return ResultsAt() + 2 * result_bytes; }
  bool operator==(const ArenaGeometry&) const = default;
};

// At the beginning of the arena. A rank that finds out why the ranks of this node cannot go on
// (they disagree, one has given up) takes `failure_claimed`, writes the text and who is to blame,
// and then sets `failed`; the words are used as atomics.
struct ArenaHeader {
  uint32_t failure_claimed;
  uint32_t failed;  // a StatusCode of the SDK
  char failure[1024];
  int32_t failure_peer;  // Status::peer()
  // From the agent: the round is over, and nobody waits here for anything any more. Set last.
  uint32_t over;
  int32_t over_place;  // of the rank whose end is why; -1: none of these
  char over_why[192];
  // From the agent, as a drill (launch chaos cut, slow): until this moment of CLOCK_MONOTONIC all
  // that goes to other nodes or comes from there is held up, each burst for so long; nanoseconds.
  uint64_t held_until;
  uint64_t held_for;
};
static_assert(sizeof(ArenaHeader) <= ArenaGeometry::kPage);

// What a rank calls: others compare it with their own call.
struct CallMark {
  uint8_t kind = 0;
  uint8_t dtype = 0;
  uint8_t op = 0;
  uint8_t wire = 0;
  uint32_t root = 0;
  uint64_t count = 0;
  bool operator==(const CallMark&) const = default;
};

enum class LineEnd : uint32_t { kNone = 0, kDied = 1, kClosed = 2 };

// A rank's line; the words are used as atomics. Written by that rank alone, but for `sleepers` and
// `gone`.
struct alignas(64) ArenaLine {
  uint64_t phase;     // that the rank has published last
  CallMark call[2];   // of an even and an odd number
  uint32_t sleepers;  // ranks that sleep until `phase` changes
  uint32_t gone;      // a LineEnd, from the agent: this rank will publish nothing more
  uint64_t near[2];   // of an even and an odd phase: data that travels in the line itself
};
static_assert(sizeof(ArenaLine) == 64);

// Behind a rank's line; the words are used as atomics. Others ring when they have put something
// into a pipe of that rank's, or taken something out of one.
struct alignas(64) ArenaBell {
  uint32_t rings;     // so far
  uint32_t sleepers;  // threads of that rank that sleep until `rings` changes
  uint32_t core;      // on which that rank waited last, counted from 1; it alone writes here
  // Commit() on this communicator, for the agent: how often, and when first and last (nanoseconds
  // of CLOCK_MONOTONIC). The rank alone writes here.
  uint64_t commits;
  uint64_t commit_first;
  uint64_t commit_last;
  uint64_t looked;  // when that rank, asleep in a wait, has looked around last; likewise
};
static_assert(sizeof(ArenaLine) + sizeof(ArenaBell) == ArenaGeometry::kLineBytes);

// What one of two ranks of a node writes, and the other one only reads. The words are used as
// atomics, and what they count only grows; the byte with number n is at n % kBytes. What was
// written last is in `near`, too, if `written` says so (kIsNear): a small message then moves one
// cache line, or two. So it is done only where the other side has read all that was written before.
struct PipeSide {
  static constexpr uint64_t kBytes = 64u << 10;
  static constexpr uint64_t kNearBytes = 112;
  static constexpr uint64_t kIsNear = uint64_t{1} << 62;
  alignas(128) uint64_t written;  // to `bytes`
  uint64_t read;                  // of what the other side has written, as far as it must know
  uint8_t near[kNearBytes];
  // Not 0: messages of this side's that were offered may not be pulled any more, and what is being
  // pulled does not count.
  alignas(64) uint32_t withdrawn;
  alignas(128) uint8_t bytes[kBytes];
};
// The lower rank's side comes first.
struct Pipe {
  PipeSide sides[2];
};

// As small as keeps 32 ranks' slots in the cache that two cores share, as large as makes waiting
// for each other rare; measured with muster-perf. All nodes of a round know from the map what the
// others have.
constexpr uint64_t SlotBytesFor(uint32_t local_size, uint32_t world_size) {
  const uint64_t bytes = uint64_t{local_size <= 2 ? 256u : local_size <= 8 ? 128u : 64u} << 10;
  // A slot has a cache line for every rank at least.
  return std::max(bytes, ArenaGeometry::RoundUp(uint64_t{world_size} * 64));
}
constexpr ArenaGeometry ArenaFor(uint32_t local_size, uint32_t nodes, uint32_t world_size) {
  const uint64_t slot = SlotBytesFor(local_size, world_size);
  // What comes from other nodes lies in the result area: as much as all ranks here sent there.
  return {local_size, nodes, world_size, slot, nodes == 1 ? slot : slot * local_size};
}

}  // namespace muster
