// What the programs' calls become once their arguments are checked. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/status.h"
#include "muster/types.h"
#include "worker_sdk/algorithm/schedule.h"

namespace muster {

struct Collective {
  Status wrong;  // why it can never work; else OK, and the rest counts
  Call call;
  const void* in = nullptr;
  void* out = nullptr;
  // What `call.parts` is to be when it runs; of kAllToAllV only this rank's row, and what it
  // expects of each. Empty: null.
  std::vector<uint64_t> parts = {};
  std::vector<uint64_t> expected = {};
};

struct OneMessage {
  Status wrong;  // as above
  uint32_t peer = 0;
  uint32_t tag = 0;
  DType dtype = DType::kUInt8;
  void* data = nullptr;  // of a send: only read
  uint64_t bytes = 0;
  bool sends = false;
};

// What went wrong, behind "recv(3 x float32 from rank 1, tag 7) on rank 0: ". It is not about
// arguments.
Status OfMessage(const OneMessage& it, uint32_t rank, Status status);

// Of one rank; muster/communicator.h says what each does.
class Calls {
 public:
  Calls(int rank, int size, Wire wire) : rank_(rank), size_(size), wire_(wire) {}

  Collective Barrier() const;
  Collective AllReduce(const void* in, void* out, int64_t count, DType dtype, ReduceOp op) const;
  Collective Reduce(const void* in, void* out, int64_t count, DType dtype, ReduceOp op,
                    int root) const;
  Collective Broadcast(void* data, int64_t count, DType dtype, int root) const;
  Collective AllGather(const void* in, void* out, int64_t count, DType dtype) const;
  Collective Gather(const void* in, void* out, int64_t count, DType dtype, int root) const;
  Collective Scatter(const void* in, void* out, int64_t count, DType dtype, int root) const;
  Collective ReduceScatter(const void* in, void* out, int64_t count, DType dtype,
                           ReduceOp op) const;
  Collective AllToAll(const void* in, void* out, int64_t count, DType dtype) const;
  Collective AllGatherV(const void* in, void* out, const int64_t* counts, DType dtype) const;
  Collective GatherV(const void* in, void* out, const int64_t* counts, DType dtype, int root) const;
  Collective ScatterV(const void* in, void* out, const int64_t* counts, DType dtype,
                      int root) const;
  Collective ReduceScatterV(const void* in, void* out, const int64_t* counts, DType dtype,
                            ReduceOp op) const;
  Collective AllToAllV(const void* in, const int64_t* send_counts, void* out,
                       const int64_t* recv_counts, DType dtype) const;
  OneMessage Send(const void* data, int64_t count, DType dtype, int to, int tag) const;
  OneMessage Receive(void* data, int64_t count, DType dtype, int from, int tag) const;

 private:
  // An argument, by its name; null where this rank needs none.
  struct Buffer {
    const char* name = nullptr;
    const void* data = nullptr;
    int parts = 1;  // of the call's count each
  };
  // Small calls shall be quick: what is right is copied once, and no Status is assigned.
  Collective Check(const Call& call, int64_t count, int root, const Buffer& in,
                   const Buffer& out) const;
  Collective CheckReduction(const Call& call, int64_t count, int root, const Buffer& in,
                            const Buffer& out) const;
  static Status WrongOfReduction(const Call& call);
  Wire WireOf(const Call& call) const;
  Status WrongOf(const Call& call, int64_t count, int root, const Buffer& in,
                 const Buffer& out) const;
  Status CheckApart(const Call& call, int64_t count, const Buffer& in, const Buffer& out) const;
  // `own` holds this rank's part, `whole` those of all.
  Collective CheckParts(Call call, const int64_t* counts, int root, const Buffer& own,
                        const Buffer& whole) const;
  // `of_rank`: what is wrong with it.
  static OneMessage CheckMessage(const char* call, const void* data, int64_t count, DType dtype,
                                 const Status& of_rank, int rank, int tag);

  int rank_;
  int size_;
  Wire wire_;  // of reductions that it is good for
};

}  // namespace muster
