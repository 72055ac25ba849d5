#include "worker_sdk/api/collectives.h"

#include <string>

#include "worker_sdk/api/arguments.h"
#include "worker_sdk/reduce/reduce.h"

namespace muster {

Collective Collectives::Barrier() const { return Check({OpKind::kBarrier}, 0, 0, {}, {}); }

Collective Collectives::AllReduce(const void* in, void* out, int64_t count, DType dtype,
                                  ReduceOp op) const {
  return CheckReduction({OpKind::kAllReduce, dtype, op}, count, 0, {"in", in}, {"out", out});
}

Collective Collectives::Reduce(const void* in, void* out, int64_t count, DType dtype, ReduceOp op,
                               int root) const {
  return CheckReduction({OpKind::kReduce, dtype, op}, count, root, {"in", in},
                        rank_ == root ? Buffer{"out", out} : Buffer{});
}

Collective Collectives::Broadcast(void* data, int64_t count, DType dtype, int root) const {
  return Check({OpKind::kBroadcast, dtype}, count, root, {"data", data}, {"data", data});
}

Collective Collectives::AllGather(const void* in, void* out, int64_t count, DType dtype) const {
  return Check({OpKind::kAllGather, dtype}, count, 0, {"in", in}, {"out", out});
}

Collective Collectives::Gather(const void* in, void* out, int64_t count, DType dtype,
                               int root) const {
  return Check({OpKind::kGather, dtype}, count, root, {"in", in},
               rank_ == root ? Buffer{"out", out} : Buffer{});
}

Collective Collectives::Scatter(const void* in, void* out, int64_t count, DType dtype,
                                int root) const {
  return Check({OpKind::kScatter, dtype}, count, root, rank_ == root ? Buffer{"in", in} : Buffer{},
               {"out", out});
}

Collective Collectives::ReduceScatter(const void* in, void* out, int64_t count, DType dtype,
                                      ReduceOp op) const {
  return CheckReduction({OpKind::kReduceScatter, dtype, op}, count, 0, {"in", in}, {"out", out});
}

Collective Collectives::AllToAll(const void* in, void* out, int64_t count, DType dtype) const {
  return Check({OpKind::kAllToAll, dtype}, count, 0, {"in", in}, {"out", out});
}

Collective Collectives::CheckReduction(Call call, int64_t count, int root, const Buffer& in,
                                       const Buffer& out) const {
  if (const Status status = muster::CheckReduction(call.dtype, call.op); !status.ok()) {
    return {{status.code(), std::string(Name(call.kind)) + ": " + status.message()}, call};
  }
  call.wire = CanBeNarrow(call.kind, call.dtype, call.op) ? wire_ : Wire::kFull;
  return Check(call, count, root, in, out);
}

Collective Collectives::Check(Call call, int64_t count, int root, const Buffer& in,
                              const Buffer& out) const {
  const char* const name = Name(call.kind);
  Status status = CheckCount(name, count, call.dtype, size_);
  if (status.ok()) {
    status = CheckRank(name, "root", root, size_);
  }
  for (const Buffer* buffer : {&in, &out}) {
    if (status.ok() && buffer->name != nullptr) {
      status = CheckBuffer(name, buffer->name, buffer->data, count, call.dtype);
    }
  }
  call.count = static_cast<uint64_t>(count);
  call.root = static_cast<uint32_t>(root);
  return {status, call, in.data, const_cast<void*>(out.data)};
}

}  // namespace muster
