// The C ABI of calls that are started only.
#include <cstdint>
#include <memory>

#include "worker_sdk/api/c_call.h"

using muster::CCall;
using muster::DType;
using muster::ReduceOp;

int muster_wait(muster_work* work) {
  return muster::Guarded([&] {
    return muster::CodeOf(work == nullptr ? muster::Invalid("wait", "work: a null pointer")
                                          : work->cpp.Wait());
  });
}
int muster_test(muster_work* work) {
  const int code = muster::Guarded([&] { return work == nullptr || work->cpp.Test() ? 1 : 0; });
  return code == 0 ? 0 : 1;  // of what could not be looked at, muster_wait() says why
}
int muster_work_source(const muster_work* work) {
  return work == nullptr ? MUSTER_ANY_RANK : work->cpp.source();
}
// Takes what the calls below gave away.
void muster_work_free(muster_work* work) { const std::unique_ptr<muster_work> owned(work); }

int muster_barrier_async(muster_comm* comm, muster_work** work) {
  return CCall("barrier", comm, 0).Start(work, [&](DType, ReduceOp) {
    return comm->cpp.BarrierAsync();
  });
}

int muster_all_reduce_async(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                            int op, muster_work** work) {
  return CCall("all_reduce", comm, dtype).Op(op).Start(work, [&](DType d, ReduceOp o) {
    return comm->cpp.AllReduceAsync(in, out, count, d, o);
  });
}

int muster_reduce_async(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                        int op, int root, muster_work** work) {
  return CCall("reduce", comm, dtype).Op(op).Start(work, [&](DType d, ReduceOp o) {
    return comm->cpp.ReduceAsync(in, out, count, d, o, root);
  });
}

int muster_broadcast_async(muster_comm* comm, void* data, int64_t count, int dtype, int root,
                           muster_work** work) {
  return CCall("broadcast", comm, dtype).Start(work, [&](DType d, ReduceOp) {
    return comm->cpp.BroadcastAsync(data, count, d, root);
  });
}

int muster_all_gather_async(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                            muster_work** work) {
  return CCall("all_gather", comm, dtype).Start(work, [&](DType d, ReduceOp) {
    return comm->cpp.AllGatherAsync(in, out, count, d);
  });
}

int muster_gather_async(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                        int root, muster_work** work) {
  return CCall("gather", comm, dtype).Start(work, [&](DType d, ReduceOp) {
    return comm->cpp.GatherAsync(in, out, count, d, root);
  });
}

int muster_scatter_async(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                         int root, muster_work** work) {
  return CCall("scatter", comm, dtype).Start(work, [&](DType d, ReduceOp) {
    return comm->cpp.ScatterAsync(in, out, count, d, root);
  });
}

int muster_reduce_scatter_async(muster_comm* comm, const void* in, void* out, int64_t count,
                                int dtype, int op, muster_work** work) {
  return CCall("reduce_scatter", comm, dtype).Op(op).Start(work, [&](DType d, ReduceOp o) {
    return comm->cpp.ReduceScatterAsync(in, out, count, d, o);
  });
}

int muster_all_to_all_async(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                            muster_work** work) {
  return CCall("all_to_all", comm, dtype).Start(work, [&](DType d, ReduceOp) {
    return comm->cpp.AllToAllAsync(in, out, count, d);
  });
}

int muster_all_gather_v_async(muster_comm* comm, const void* in, void* out, const int64_t* counts,
                              int dtype, muster_work** work) {
  return CCall("all_gather_v", comm, dtype).Start(work, [&](DType d, ReduceOp) {
    return comm->cpp.AllGatherVAsync(in, out, counts, d);
  });
}

int muster_gather_v_async(muster_comm* comm, const void* in, void* out, const int64_t* counts,
                          int dtype, int root, muster_work** work) {
  return CCall("gather_v", comm, dtype).Start(work, [&](DType d, ReduceOp) {
    return comm->cpp.GatherVAsync(in, out, counts, d, root);
  });
}

int muster_scatter_v_async(muster_comm* comm, const void* in, void* out, const int64_t* counts,
                           int dtype, int root, muster_work** work) {
  return CCall("scatter_v", comm, dtype).Start(work, [&](DType d, ReduceOp) {
    return comm->cpp.ScatterVAsync(in, out, counts, d, root);
  });
}

int muster_reduce_scatter_v_async(muster_comm* comm, const void* in, void* out,
                                  const int64_t* counts, int dtype, int op, muster_work** work) {
  return CCall("reduce_scatter_v", comm, dtype).Op(op).Start(work, [&](DType d, ReduceOp o) {
    return comm->cpp.ReduceScatterVAsync(in, out, counts, d, o);
  });
}

int muster_all_to_all_v_async(muster_comm* comm, const void* in, const int64_t* send_counts,
                              void* out, const int64_t* recv_counts, int dtype,
                              muster_work** work) {
  return CCall("all_to_all_v", comm, dtype).Start(work, [&](DType d, ReduceOp) {
    return comm->cpp.AllToAllVAsync(in, send_counts, out, recv_counts, d);
  });
}

int muster_send_async(muster_comm* comm, const void* data, int64_t count, int dtype, int to,
                      int tag, muster_work** work) {
  return CCall("send", comm, dtype).Start(work, [&](DType d, ReduceOp) {
    return comm->cpp.SendAsync(data, count, d, to, tag);
  });
}

int muster_recv_async(muster_comm* comm, void* data, int64_t count, int dtype, int from, int tag,
                      muster_work** work) {
  return CCall("recv", comm, dtype).Start(work, [&](DType d, ReduceOp) {
    return comm->cpp.RecvAsync(data, count, d, from, tag);
  });
}
