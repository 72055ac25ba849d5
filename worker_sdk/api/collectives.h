// What the programs' calls become once their arguments are checked. Pure.
#pragma once

#include <cstdint>

#include "muster/status.h"
#include "muster/types.h"
#include "worker_sdk/algorithm/schedule.h"

namespace muster {

struct Collective {
  Status wrong;  // why it can never work; else OK, and the rest counts
  Call call;
  const void* in = nullptr;
  void* out = nullptr;
};

// Of one rank; muster/communicator.h says what each does.
class Collectives {
 public:
  Collectives(int rank, int size, Wire wire) : rank_(rank), size_(size), wire_(wire) {}

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

 private:
  // An argument, by its name; null where this rank needs none.
  struct Buffer {
    const char* name = nullptr;
    const void* data = nullptr;
  };
  Collective Check(Call call, int64_t count, int root, const Buffer& in, const Buffer& out) const;
  Collective CheckReduction(Call call, int64_t count, int root, const Buffer& in,
                            const Buffer& out) const;

  int rank_;
  int size_;
  Wire wire_;  // of reductions that it is good for
};

}  // namespace muster
