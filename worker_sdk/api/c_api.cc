// The C ABI: numbers become types, a Status becomes a code and a text of the thread.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "worker_sdk/api/c_call.h"

using muster::CCall;
using muster::DType;
using muster::ReduceOp;

namespace muster {

std::string& LastError() {
  thread_local std::string text;
  return text;
}

}  // namespace muster

namespace {

class CStore : public muster::Store {
 public:
  explicit CStore(const muster_store& store) : store_(store) {}

  muster::Status Set(const std::string& key, const std::string& value) override {
    const auto bytes = static_cast<int64_t>(value.size());
    return store_.set(store_.context, key.c_str(), value.data(), bytes) == 0 ? muster::Status()
                                                                             : Failed("set", key);
  }
  muster::StatusOr<std::string> Get(const std::string& key) override {
    const auto value = std::make_unique_for_overwrite<char[]>(kValueMax);
    int64_t bytes = 0;
    if (store_.get(store_.context, key.c_str(), value.get(), kValueMax, &bytes) != 0 || bytes < 0 ||
        bytes > kValueMax) {
      return Failed("get", key);
    }
    return std::string(value.get(), static_cast<size_t>(bytes));
  }

 private:
  static constexpr int64_t kValueMax = int64_t{8} << 20;  // of ten thousand ranks

  static muster::Status Failed(const std::string& call, const std::string& key) {
    return {muster::StatusCode::kUnavailable, "the store could not " + call + " " + key};
  }

  const muster_store store_;
};

std::chrono::nanoseconds TimeoutOf(double seconds) {
  if (!(seconds > 0)) {  // a NaN, too
    return std::chrono::nanoseconds::zero();
  }
  constexpr double kNanosecondsMax = 9e18;  // int64_t holds 9.2e18: 292 years
  const double nanoseconds = std::min(std::ceil(seconds * 1e9), kNanosecondsMax);
  return std::chrono::nanoseconds(static_cast<int64_t>(nanoseconds));
}

}  // namespace

const char* muster_version(void) { return MUSTER_VERSION; }
const char* muster_last_error(void) { return muster::LastError().c_str(); }

int muster_init(muster_comm** out) {
  return muster::Guarded([&]() -> int {
    if (out == nullptr) return muster::CodeOf(muster::Invalid("init", "out: a null pointer"));
    *out = nullptr;
    muster::StatusOr<muster::Communicator> made = muster::Communicator::FromEnvironment();
    if (!made.ok()) return muster::CodeOf(made.status());
    *out = std::make_unique<muster_comm>(muster_comm{*std::move(made)}).release();
    return MUSTER_OK;
  });
}

int muster_init_at_store(const muster_store* store, int rank, int size, double seconds,
                         muster_comm** out) {
  return muster::Guarded([&]() -> int {
    if (out == nullptr)
      return muster::CodeOf(muster::Invalid("init_at_store", "out: a null pointer"));
    *out = nullptr;
    if (store == nullptr || store->set == nullptr || store->get == nullptr) {
      return muster::CodeOf(
          muster::Invalid("init_at_store", "store: a null pointer, or one in it"));
    }
    CStore given(*store);
    muster::StatusOr<muster::Communicator> made = muster::Communicator::FromStore(
        given, rank, size, seconds < 0 ? std::nullopt : std::optional(TimeoutOf(seconds)));
    if (!made.ok()) return muster::CodeOf(made.status());
    *out = std::make_unique<muster_comm>(muster_comm{*std::move(made)}).release();
    return MUSTER_OK;
  });
}

int muster_split(muster_comm* comm, int64_t color, int64_t key, muster_comm** out) {
  if (out == nullptr) return muster::CodeOf(muster::Invalid("split", "out: a null pointer"));
  *out = nullptr;
  return CCall("split", comm, 0).Then([&](DType, ReduceOp) {
    muster::StatusOr<std::optional<muster::Communicator>> made = comm->cpp.Split(color, key);
    if (!made.ok()) return made.status();
    if (std::optional<muster::Communicator>& group = *made; group.has_value()) {
      *out = std::make_unique<muster_comm>(muster_comm{std::move(*group)}).release();
    }
    return muster::Status();
  });
}

// Takes what muster_init() or muster_split() gave away.
void muster_free(muster_comm* comm) { const std::unique_ptr<muster_comm> owned(comm); }
void muster_abandon(muster_comm* comm) {
  (void)muster::Guarded([&] {
    if (comm != nullptr) comm->cpp.Abandon();
    return MUSTER_OK;
  });
}

int muster_rank(const muster_comm* comm) { return comm == nullptr ? -1 : comm->cpp.rank(); }
int muster_size(const muster_comm* comm) { return comm == nullptr ? -1 : comm->cpp.size(); }
int muster_local_rank(const muster_comm* comm) {
  return comm == nullptr ? -1 : comm->cpp.local_rank();
}
int muster_local_size(const muster_comm* comm) {
  return comm == nullptr ? -1 : comm->cpp.local_size();
}
int muster_node_rank(const muster_comm* comm) {
  return comm == nullptr ? -1 : comm->cpp.node_rank();
}
int muster_nodes(const muster_comm* comm) { return comm == nullptr ? -1 : comm->cpp.nodes(); }
uint64_t muster_round(const muster_comm* comm) { return comm == nullptr ? 0 : comm->cpp.round(); }

void muster_set_timeout(muster_comm* comm, double seconds) {
  if (comm == nullptr) return;
  comm->cpp.SetTimeout(TimeoutOf(seconds));
}

int muster_set_wire(muster_comm* comm, int wire) {
  return CCall("set_wire", comm, 0).Then([&](DType, ReduceOp) {
    if (wire < 0 || wire >= muster::kWires) {
      return muster::Invalid("set_wire", "wire: want 0.." + std::to_string(muster::kWires - 1) +
                                             " (muster_wire), got " + std::to_string(wire));
    }
    comm->cpp.SetWire(static_cast<muster::Wire>(wire));
    return muster::Status();
  });
}
int muster_get_wire(const muster_comm* comm) {
  return comm == nullptr ? -1 : static_cast<int>(comm->cpp.wire());
}

int muster_get_counters(const muster_comm* comm, muster_counters* out) {
  return CCall("get_counters", comm, 0).Then([&](DType, ReduceOp) {
    if (out == nullptr) return muster::Invalid("get_counters", "out: a null pointer");
    const muster::Counters all = comm->cpp.counters();
    *out = {all.calls, all.bytes, static_cast<uint64_t>(all.waited_on_node.count()),
            static_cast<uint64_t>(all.waited_between_nodes.count())};
    return muster::Status();
  });
}
uint64_t muster_waited_for(const muster_comm* comm, int rank) {
  return comm == nullptr ? 0 : static_cast<uint64_t>(comm->cpp.WaitedFor(rank).count());
}

int muster_barrier(muster_comm* comm) {
  return CCall("barrier", comm, 0).Then([&](DType, ReduceOp) { return comm->cpp.Barrier(); });
}

int muster_all_reduce(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                      int op) {
  return CCall("all_reduce", comm, dtype).Op(op).Then([&](DType d, ReduceOp o) {
    return comm->cpp.AllReduce(in, out, count, d, o);
  });
}

int muster_reduce(muster_comm* comm, const void* in, void* out, int64_t count, int dtype, int op,
                  int root) {
  return CCall("reduce", comm, dtype).Op(op).Then([&](DType d, ReduceOp o) {
    return comm->cpp.Reduce(in, out, count, d, o, root);
  });
}

int muster_broadcast(muster_comm* comm, void* data, int64_t count, int dtype, int root) {
  return CCall("broadcast", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.Broadcast(data, count, d, root);
  });
}

int muster_all_gather(muster_comm* comm, const void* in, void* out, int64_t count, int dtype) {
  return CCall("all_gather", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.AllGather(in, out, count, d);
  });
}

int muster_gather(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                  int root) {
  return CCall("gather", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.Gather(in, out, count, d, root);
  });
}

int muster_scatter(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                   int root) {
  return CCall("scatter", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.Scatter(in, out, count, d, root);
  });
}

int muster_reduce_scatter(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                          int op) {
  return CCall("reduce_scatter", comm, dtype).Op(op).Then([&](DType d, ReduceOp o) {
    return comm->cpp.ReduceScatter(in, out, count, d, o);
  });
}

int muster_all_to_all(muster_comm* comm, const void* in, void* out, int64_t count, int dtype) {
  return CCall("all_to_all", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.AllToAll(in, out, count, d);
  });
}

int muster_all_gather_v(muster_comm* comm, const void* in, void* out, const int64_t* counts,
                        int dtype) {
  return CCall("all_gather_v", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.AllGatherV(in, out, counts, d);
  });
}

int muster_gather_v(muster_comm* comm, const void* in, void* out, const int64_t* counts, int dtype,
                    int root) {
  return CCall("gather_v", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.GatherV(in, out, counts, d, root);
  });
}

int muster_scatter_v(muster_comm* comm, const void* in, void* out, const int64_t* counts, int dtype,
                     int root) {
  return CCall("scatter_v", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.ScatterV(in, out, counts, d, root);
  });
}

int muster_reduce_scatter_v(muster_comm* comm, const void* in, void* out, const int64_t* counts,
                            int dtype, int op) {
  return CCall("reduce_scatter_v", comm, dtype).Op(op).Then([&](DType d, ReduceOp o) {
    return comm->cpp.ReduceScatterV(in, out, counts, d, o);
  });
}

int muster_all_to_all_v(muster_comm* comm, const void* in, const int64_t* send_counts, void* out,
                        const int64_t* recv_counts, int dtype) {
  return CCall("all_to_all_v", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.AllToAllV(in, send_counts, out, recv_counts, d);
  });
}

int muster_send(muster_comm* comm, const void* data, int64_t count, int dtype, int to, int tag) {
  return CCall("send", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.Send(data, count, d, to, tag);
  });
}

int muster_recv(muster_comm* comm, void* data, int64_t count, int dtype, int from, int tag) {
  return CCall("recv", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.Recv(data, count, d, from, tag);
  });
}
