#include "worker_sdk/api/calls.h"

#include <string>

#include "worker_sdk/api/arguments.h"
#include "worker_sdk/reduce/reduce.h"

namespace muster {

Collective Calls::Barrier() const { return Check({OpKind::kBarrier}, 0, 0, {}, {}); }

Collective Calls::AllReduce(const void* in, void* out, int64_t count, DType dtype,
                            ReduceOp op) const {
  return CheckReduction({OpKind::kAllReduce, dtype, op}, count, 0, {"in", in}, {"out", out});
}

Collective Calls::Reduce(const void* in, void* out, int64_t count, DType dtype, ReduceOp op,
                         int root) const {
  return CheckReduction({OpKind::kReduce, dtype, op}, count, root, {"in", in},
                        rank_ == root ? Buffer{"out", out} : Buffer{});
}

Collective Calls::Broadcast(void* data, int64_t count, DType dtype, int root) const {
  return Check({OpKind::kBroadcast, dtype}, count, root, {"data", data}, {"data", data});
}

Collective Calls::AllGather(const void* in, void* out, int64_t count, DType dtype) const {
  return Check({OpKind::kAllGather, dtype}, count, 0, {"in", in}, {"out", out});
}

Collective Calls::Gather(const void* in, void* out, int64_t count, DType dtype, int root) const {
  return Check({OpKind::kGather, dtype}, count, root, {"in", in},
               rank_ == root ? Buffer{"out", out} : Buffer{});
}

Collective Calls::Scatter(const void* in, void* out, int64_t count, DType dtype, int root) const {
  return Check({OpKind::kScatter, dtype}, count, root, rank_ == root ? Buffer{"in", in} : Buffer{},
               {"out", out});
}

Collective Calls::ReduceScatter(const void* in, void* out, int64_t count, DType dtype,
                                ReduceOp op) const {
  return CheckReduction({OpKind::kReduceScatter, dtype, op}, count, 0, {"in", in}, {"out", out});
}

Collective Calls::AllToAll(const void* in, void* out, int64_t count, DType dtype) const {
  return Check({OpKind::kAllToAll, dtype}, count, 0, {"in", in}, {"out", out});
}

OneMessage Calls::Send(const void* data, int64_t count, DType dtype, int to, int tag) const {
  return CheckMessage("send", data, count, dtype, "to", to, tag);
}

OneMessage Calls::Receive(void* data, int64_t count, DType dtype, int from, int tag) const {
  return CheckMessage("recv", data, count, dtype, "from", from, tag);
}

OneMessage Calls::CheckMessage(const char* call, const void* data, int64_t count, DType dtype,
                               const char* whom, int rank, int tag) const {
  Status status = CheckCount(call, count, dtype, 1);
  if (status.ok()) {
    status = CheckBuffer(call, "data", data, count, dtype);
  }
  if (status.ok()) {
    status = CheckRank(call, whom, rank, size_);
  }
  if (status.ok()) {
    status = CheckTag(call, tag);
  }
  if (!status.ok()) {
    return {status};
  }
  return {{},    static_cast<uint32_t>(rank), static_cast<uint32_t>(tag),
          dtype, const_cast<void*>(data),     static_cast<uint64_t>(count) * SizeOf(dtype)};
}

Collective Calls::CheckReduction(Call call, int64_t count, int root, const Buffer& in,
                                 const Buffer& out) const {
  if (const Status status = muster::CheckReduction(call.dtype, call.op); !status.ok()) {
    return {{status.code(), std::string(Name(call.kind)) + ": " + status.message()}, call};
  }
  call.wire = CanBeNarrow(call.kind, call.dtype, call.op) ? wire_ : Wire::kFull;
  return Check(call, count, root, in, out);
}

Collective Calls::Check(Call call, int64_t count, int root, const Buffer& in,
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
