// The ranks of a job that `launch` started, and what they do together.
//
//   muster::StatusOr<muster::Communicator> comm = muster::Communicator::FromEnvironment();
//   if (!comm.ok()) return Fail(comm.status());
//   muster::Status done = comm->AllReduce(gradients.data(), gradients.size());
//
// Every rank makes the same calls in the same order. A call blocks until its own part is done: for
// as long as a living peer takes, unless a timeout is given (here, or MUSTER_TIMEOUT in seconds).
// One whose name ends in Async returns at once with a Work to wait for, and must have ended before
// its buffers are used again. Collectives go on on a thread of the communicator's, behind those
// that were started before; one that blocks waits for those.
//
// Errors of every collective: InvalidArgument (this call can never work), FailedPrecondition (ranks
// disagree on kind, type, operation, wire, count, counts or root: both calls are named; who needs
// nothing of the others, as the root of a small broadcast, hears of it in a later call),
// Unavailable (a peer died), DeadlineExceeded, ResourceExhausted (no memory is left on a rank: no
// call throws std::bad_alloc).
// After any but the first the contents of output buffers are unspecified and the communicator is
// dead: each later call returns the same error.
//
// A job that `launch --restart=one` started survives the death of a rank: another process takes its
// place, and the others go on with their memory. Whoever gets Unavailable calls Reform(); the
// newcomer calls FromEnvironment() as every process does. Both get a communicator of the next
// round, and agreed() says, alike to all, where the survivors stand:
//
//   for (int64_t step = comm.agreed().committed;;) {  // after `step` is restored everywhere
//     muster::Status done = Train(comm, state, step);  // comm.Commit(step) when a step is whole
//     if (done.code() != muster::StatusCode::kUnavailable) return done;
//     muster::StatusOr<muster::Communicator> next = comm.Reform();
//     ...
//   }
//
// examples/elastic_sgd.cc is a whole program.
//
// Results: every rank ends with equal bits, and a second run of the same layout gives them again.
// Numbers are rounded to nearest even, and denormal ones kept, whatever the calling thread has set
// (std::fesetround, flush-to-zero).
// MUSTER_CHECK=crc makes sure of it: after every AllReduce, Broadcast, AllGather and AllGatherV the
// ranks compare a CRC-32C of their outputs, in a call of its own that counts as one. Where they
// differ, each rank's call ends with Internal, which names the ranks that are not of the majority.
// Buffers are dense, in host memory, aligned to their element; a buffer may be both input and
// output where the two are the same address, otherwise they must not overlap (InvalidArgument).
// Counts are of elements. Threads: one call at a time on one communicator; a collective call of a
// second thread meanwhile is FailedPrecondition, and changes nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/export.h"
#include "muster/status.h"
#include "muster/types.h"

namespace muster {

// Of numbers of a C++ type: integers by their size and sign (long long is kInt64, as int64_t is).
template <typename T>
struct DTypeOf {
  static constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;
  static_assert((kIsInteger && sizeof(T) <= 8) || std::is_same_v<T, float> ||
                    std::is_same_v<T, double>,
                "a C++ type that is none of DType's: float16 and bfloat16 go with a void pointer, "
                "a count and their DType");
  static constexpr DType Find() {
    constexpr bool kSigned = std::is_signed_v<T>;
    switch (sizeof(T)) {
      case 1:
        return kSigned ? DType::kInt8 : DType::kUInt8;
      case 2:
        return kSigned ? DType::kInt16 : DType::kUInt16;
      case 4:
        return !kIsInteger ? DType::kFloat32 : kSigned ? DType::kInt32 : DType::kUInt32;
      default:
        return !kIsInteger ? DType::kFloat64 : kSigned ? DType::kInt64 : DType::kUInt64;
    }
  }
  static constexpr DType kValue = Find();
};

class Pending;

// A call that was started. It goes on without it: dropping it loses the result, and nothing else.
// Any thread, also after the communicator is gone.
class MUSTER_EXPORT Work {
 public:
  explicit Work(Status status) : status_(std::move(status)) {}  // has ended
  explicit Work(std::shared_ptr<Pending> pending) : pending_(std::move(pending)) {}

  // Blocks until the call has ended; returns what it would have returned without Async.
  Status Wait();
  // Whether it has ended.
  bool Test();
  // Of a receive that has ended: the rank whose message it has got. kAnyRank: none.
  int source() const;

 private:
  std::shared_ptr<Pending> pending_;
  Status status_;
};

// What a rank has done with a communicator so far.
struct Counters {
  // That succeeded, our own at the beginning and those of MUSTER_CHECK and AllToAllV included.
  uint64_t calls = 0;
  // `count` elements of each; of calls with `counts` this rank's part, of AllToAllV what it sends.
  uint64_t bytes = 0;
  // For ranks of this node, and for messages of other nodes and to them; a wait that goes on counts
  // as far as it has come, give or take 50 ms. Waits that were over after a spin (some
  // microseconds) are not counted: the fast path looks at no clock.
  std::chrono::nanoseconds waited_on_node{0};
  std::chrono::nanoseconds waited_between_nodes{0};
};

// Where the program stood when a communicator of all ranks began; the same on every rank. A rank
// has the program's state but where it has just taken another's place, until it calls
// BroadcastState() or Commit(). In a job's first round nothing is completed, and rank 0 has it.
struct Agreed {
  static constexpr int kNone = -1;
  // Collective calls, as last_call() counts them, of the communicators before this one. Those in
  // between may be complete on some ranks and not on others.
  uint64_t completed = 0;  // the last one that is complete on all ranks that have the state
  uint64_t started = 0;    // the last one that any rank has started
  // Steps (Commit) of the ranks that have the state: the smallest, and the largest. kNone: one of
  // them has committed none; none of them has.
  int64_t committed = kNone;
  int64_t committed_last = kNone;
  int holder = 0;  // the lowest rank that has the state; kNone: nobody has, all begin anew
};

// A part of the program's state, for BroadcastState().
struct StateBuffer {
  void* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::kUInt8;
};
template <typename T>
StateBuffer StateOf(T* data, int64_t count) {
  return {data, count, DTypeOf<T>::kValue};
}

// Where processes that have not met yet leave words for each other, such as torch's store. What is
// set stays, and is nobody else's.
class Store {
 public:
  Store() = default;
  virtual ~Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  virtual Status Set(const std::string& key, const std::string& value) = 0;
  // Waits until somebody has set it, as long as this store thinks right.
  virtual StatusOr<std::string> Get(const std::string& key) = 0;
};

class MUSTER_EXPORT Communicator {
 public:
  // All ranks of this round of the job, from what `launch` put into the environment. Started
  // without `launch`: a world of one. Blocks until every rank has called it, as any collective.
  // Errors: InvalidArgument (a variable that makes no sense), Unavailable (the agent or a peer is
  // gone), FailedPrecondition (the agent refuses: of another version, or another round),
  // DeadlineExceeded. With `launch --restart=one` a rank that dies meanwhile is waited for, as
  // Reform() does.
  static StatusOr<Communicator> FromEnvironment();

  // The `size` processes that share this store and nobody else does, in an order of their own: all
  // or some of the workers of one round of a job, who meet through their agents, or processes that
  // others have started, such as torchrun: those of one host belong to one user, those of several
  // reach each other's ports, and each other's addresses are those of GLOO_SOCKET_IFNAME, if set.
  // Whoever reads the store could pass for one of them. The store is not used after the call.
  // `timeout`: of the rest of the meeting, and of later calls, as SetTimeout; none given:
  // MUSTER_TIMEOUT. It is a group, as one made by Split(); one that has no agent cannot be split.
  // Errors are also those of the store, and InvalidArgument (rank, size), FailedPrecondition (the
  // processes are of different builds, or one has come twice), Unavailable (one has ended, or
  // cannot be reached), Unimplemented (on several hosts, some are workers of a job and others are
  // not).
  static StatusOr<Communicator> FromStore(
      Store& store, int rank, int size,
      std::optional<std::chrono::nanoseconds> timeout = std::nullopt);

  // In a job with --restart=one, on the communicator of all ranks, which is dead from now on: waits
  // for the round in which others have taken the places of ranks that died, and until all ranks
  // have come into it. Where one more dies meanwhile, for the round after that. The timeout counts
  // for all of it. Every survivor calls it; the new communicator has this one's timeout and wire.
  // When it returns no rank reads this one's memory for a call of before: until then buffers of a
  // call that failed must stay as they are. Groups are dead as well: make them anew with Split(),
  // and have none of their calls under way here.
  // Errors: Unavailable (no round follows: the job stops, or has no --restart=one),
  // FailedPrecondition (of a group, or not started by launch), DeadlineExceeded (it may be called
  // again, and waits for the round after that one, if its ranks had begun to come: end the process
  // where nothing else brings it about).
  StatusOr<Communicator> Reform();
  // When this communicator began. Of a group: as of its parent.
  const Agreed& agreed() const;
  // This process has taken the place of one that died, and had no state yet when the communicator
  // began.
  bool is_replacement() const;
  // This rank has `step` whole: agreed() counts on it from now on. Local, and cheap. After a
  // Reform() that agreed on an earlier step, that one counts. Negative: InvalidArgument.
  Status Commit(int64_t step);
  // Every rank gets the state of agreed().holder (rank 0 if there is none), in place. A collective
  // call, and one only, whatever the number of buffers.
  Status BroadcastState(const std::vector<StateBuffer>& state);
  // The number of the last collective call here: 1, 2, ..., the same on every rank. One that ends
  // in Async counts when it is made, and no more when it finds the communicator dead. A
  // communicator of the next round counts on from agreed().started. Any thread; waits for no call.
  uint64_t last_call() const;

  // Ranks that give the same color become a communicator of their own, ordered by key, and by their
  // ranks here where keys are equal; its rank(), size(), local_size(), nodes(), ... are the
  // group's. With a negative color a rank takes part and gets none: an OK result without a value.
  // Blocks until every rank has called it, as any collective. The group has the timeout that this
  // communicator has now, outlives it if need be, and can be split again; the two may be used at
  // the same time, as long as all ranks of each make the same calls on it in the same order, and
  // no two ranks wait for each other in different ones.
  // Errors are also those of FromEnvironment(), for all ranks where one could not enter its group;
  // this communicator goes on then.
  StatusOr<std::optional<Communicator>> Split(int64_t color, int64_t key = 0);

  // What has been moved from may be assigned to, or end, and nothing else.
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  // Blocks until the collectives that were started have ended, and until what was sent has left,
  // or nothing of it has moved for 10 s. What is still to be received ends with FailedPrecondition.
  // Where an exception ends its scope, as Abandon().
  ~Communicator();

  // Leaves as a rank that has failed: the calls of the others end with Unavailable, so that with
  // --restart=one they go on with this rank's successor. Collectives that were started and have not
  // ended do so with Unavailable, too. Only the end of this object may follow.
  void Abandon();

  int rank() const;
  int size() const;
  int local_rank() const;  // place on this node
  int local_size() const;  // ranks on this node
  int node_rank() const;
  int nodes() const;
  uint64_t round() const;  // fencing token: only grows within a job

  // For every later call; zero (the default, or MUSTER_TIMEOUT), or less: no limit. A collective
  // that waits for ranks that may be waiting themselves has up to half of it more, at most 2 s, in
  // which the one that knows who is late says so.
  void SetTimeout(std::chrono::nanoseconds timeout);

  // What travels between nodes in every later AllReduce, Reduce, ReduceScatter and ReduceScatterV
  // of float32 by kSum or kAvg; MUSTER_WIRE ("full", the default, or "bf16") says it for the first.
  // No effect on other calls, within a node, or on up to 8 bytes. All ranks must say the same of a
  // call.
  //
  // With kBFloat16, half the bytes travel; sums are kept in float32, and every rank still ends with
  // equal bits. A result is off by at most ((1 + 2^-8)^k - 1) * (|x_0| + ... + |x_{size-1}|),
  // divided by size() for kAvg, besides float32's own rounding: k = 1 between two nodes and in
  // ReduceScatter and ReduceScatterV, 2 among up to 8 nodes, 1 + ceil(log2(nodes)) among more.
  // Below 2^-126, where bfloat16 has fewer digits, add 2^-134 for each node and rounding. Its
  // largest number is 3.39e38: a node's sum that rounds to more, such as FLT_MAX, is infinite.
  void SetWire(Wire wire);
  Wire wire() const;

  // Both: any thread; they wait for no call, and may be asked while one waits, for whom it does.
  Counters counters() const;
  // The share of one rank in these waits: who is behind makes others wait. Between nodes only a few
  // ranks of each wait for others. `rank`: 0 .. size() - 1, else zero.
  std::chrono::nanoseconds WaitedFor(int rank) const;

  // Returns when every rank has called it.
  Status Barrier();
  // out[i] = in_0[i] op ... op in_{size-1}[i] on every rank.
  Status AllReduce(const void* in, void* out, int64_t count, DType dtype, ReduceOp op);
  // The same on `root` only; `out` of the others is not touched and may be null.
  Status Reduce(const void* in, void* out, int64_t count, DType dtype, ReduceOp op, int root);
  // `count` elements of every rank become those of `root`.
  Status Broadcast(void* data, int64_t count, DType dtype, int root);
  // out = in of rank 0, of rank 1, ...: size() * count elements. `in` may be its own place in
  // `out`.
  Status AllGather(const void* in, void* out, int64_t count, DType dtype);
  // The same on `root` only.
  Status Gather(const void* in, void* out, int64_t count, DType dtype, int root);
  // out = the rank-th `count` elements of what `root` has in `in` (size() * count elements).
  Status Scatter(const void* in, void* out, int64_t count, DType dtype, int root);
  // out = the rank-th `count` elements of the reduction of `in` (size() * count elements).
  Status ReduceScatter(const void* in, void* out, int64_t count, DType dtype, ReduceOp op);
  // The j-th `count` elements of in go to rank j, those of rank i come to the i-th of out.
  Status AllToAll(const void* in, void* out, int64_t count, DType dtype);

  // The same with parts of any size: `counts` has the elements of each rank, size() of them and the
  // same on every rank; zero is allowed, and a buffer without elements may be null. In a buffer
  // that holds all parts they lie one behind another, in the order of ranks. `counts` is copied: it
  // need not outlive the call that starts an Async form. Nothing but the parts travels, in as many
  // steps as the largest one needs. A rank's part may lie at its own place in the buffer of all;
  // otherwise `in` and `out` have no common element. InvalidArgument also: they do, or counts are
  // negative, or their sum is more than memory can hold.
  //
  // out = in of rank 0 (counts[0] elements), of rank 1, ...
  Status AllGatherV(const void* in, void* out, const int64_t* counts, DType dtype);
  // The same on `root` only; `out` of the others is not touched and may be null.
  Status GatherV(const void* in, void* out, const int64_t* counts, DType dtype, int root);
  // out = the rank-th part of what `root` has in `in`; that of the others may be null.
  Status ScatterV(const void* in, void* out, const int64_t* counts, DType dtype, int root);
  // out = the rank-th part of the reduction of `in`.
  Status ReduceScatterV(const void* in, void* out, const int64_t* counts, DType dtype, ReduceOp op);
  // send_counts[j] elements of in go to rank j; what comes from rank i, recv_counts[i] elements, is
  // the i-th part of out. Each rank gives its own counts only: they are compared in a call of its
  // own before. FailedPrecondition for all, which names two ranks and both numbers: one sends
  // another more, or less, than that one expects. No place in `in` is one in `out`.
  Status AllToAllV(const void* in, const int64_t* send_counts, void* out,
                   const int64_t* recv_counts, DType dtype);

  // `count` elements to rank `to`, from rank `from`. Messages of one tag between two ranks arrive
  // in the order in which they were sent, and go to receives in the order in which those began;
  // both sides name the same type and count. The sender's
  // buffer is free again when Send returns, or the Work has ended, which says nothing of the
  // receiver: the message comes to it, whatever this rank does then. But a message of more than 32
  // KiB, or one behind 16 MiB (128 bytes more for each message) that were sent to the same rank and
  // that it has not received, is sent when it is received. Messages and collectives do not wait for
  // each other. `tag`: 0 or more.
  //
  // Errors that leave the two ranks' later messages intact: FailedPrecondition (type and count
  // differ: both are named), ResourceExhausted (of the messages that are sent when they are
  // received, 131,072 to the same rank wait for that), and DeadlineExceeded of a receive of which
  // nothing has come yet: what comes later is for the next. After any other the two exchange no
  // more messages.
  //
  // A peer that has closed its communicator: FailedPrecondition. One that died: Unavailable.
  //
  // From kAnyRank: from whoever sends first with this tag, this rank included; Work::source() of
  // RecvAsync says who, Recv does not. Of several whose messages are there, each has its turn. It
  // connects this rank with all others. Unavailable: a rank has died. FailedPrecondition also: all
  // others have closed theirs, nothing that this rank has sent itself is there, and the program
  // waits, in Recv or Work::Wait(): a second thread that would send to this rank must do so before.
  // What is only looked at with Test() goes on.
  Status Send(const void* data, int64_t count, DType dtype, int to, int tag = 0);
  Status Recv(void* data, int64_t count, DType dtype, int from, int tag = 0);
  // They go on whenever this rank is in a call of this communicator, or waits for one of its Works.
  Work SendAsync(const void* data, int64_t count, DType dtype, int to, int tag = 0);
  Work RecvAsync(void* data, int64_t count, DType dtype, int from, int tag = 0);

  // The collectives, started only.
  Work BarrierAsync();
  Work AllReduceAsync(const void* in, void* out, int64_t count, DType dtype, ReduceOp op);
  Work ReduceAsync(const void* in, void* out, int64_t count, DType dtype, ReduceOp op, int root);
  Work BroadcastAsync(void* data, int64_t count, DType dtype, int root);
  Work AllGatherAsync(const void* in, void* out, int64_t count, DType dtype);
  Work GatherAsync(const void* in, void* out, int64_t count, DType dtype, int root);
  Work ScatterAsync(const void* in, void* out, int64_t count, DType dtype, int root);
  Work ReduceScatterAsync(const void* in, void* out, int64_t count, DType dtype, ReduceOp op);
  Work AllToAllAsync(const void* in, void* out, int64_t count, DType dtype);
  Work AllGatherVAsync(const void* in, void* out, const int64_t* counts, DType dtype);
  Work GatherVAsync(const void* in, void* out, const int64_t* counts, DType dtype, int root);
  Work ScatterVAsync(const void* in, void* out, const int64_t* counts, DType dtype, int root);
  Work ReduceScatterVAsync(const void* in, void* out, const int64_t* counts, DType dtype,
                           ReduceOp op);
  Work AllToAllVAsync(const void* in, const int64_t* send_counts, void* out,
                      const int64_t* recv_counts, DType dtype);

  template <typename T>
  Status AllReduce(T* data, int64_t count, ReduceOp op = ReduceOp::kSum) {
    return AllReduce(data, data, count, DTypeOf<T>::kValue, op);
  }
  template <typename T>
  Status Broadcast(T* data, int64_t count, int root = 0) {
    return Broadcast(data, count, DTypeOf<T>::kValue, root);
  }
  template <typename T>
  Status AllGather(const T* in, T* out, int64_t count) {
    return AllGather(in, out, count, DTypeOf<T>::kValue);
  }

 private:
  class [[gnu::visibility("hidden")]] Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
