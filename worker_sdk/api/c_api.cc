// The C ABI: numbers become types, a Status becomes a code and a text of the thread.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "muster/communicator.h"
#include "muster/muster.h"
#include "muster/status.h"
#include "muster/types.h"

struct muster_comm {  // NOLINT(readability-identifier-naming): C's name
  muster::Communicator cpp;
};

namespace muster {
namespace {

thread_local std::string last_error;

// What `work` returns. No exception leaves the C ABI.
template <typename Work>
int Guarded(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    last_error = "out of memory";  // short: needs none
    return MUSTER_RESOURCE_EXHAUSTED;
  } catch (...) {
    last_error = "internal error";
    return MUSTER_INTERNAL;
  }
}

int CodeOf(const Status& status) {
  if (!status.ok()) last_error = status.message();
  return static_cast<int>(status.code());
}

Status Invalid(const char* call, const std::string& why) {
  return Status(StatusCode::kInvalidArgument, std::string(call) + ": " + why);
}

// One collective on its way in: numbers become types; Communicator checks the rest.
class Call {
 public:
  Call(const char* name, const muster_comm* comm, int dtype)
      : name_(name), comm_(comm), dtype_(dtype) {}

  Call& Op(int op) {
    op_ = op;
    return *this;
  }

  // The code of `collective`, or of what is wrong with its arguments.
  template <typename Collective>
  int Then(const Collective& collective) const {
    return Guarded([&] {
      const Status status = Check();
      return CodeOf(status.ok() ? collective(static_cast<DType>(dtype_), static_cast<ReduceOp>(op_))
                                : status);
    });
  }

 private:
  Status Check() const {
    if (comm_ == nullptr) return Invalid(name_, "comm: a null pointer; muster_init() makes one");
    if (dtype_ < 0 || dtype_ >= kDTypes) {
      return Invalid(name_, "dtype: want 0.." + std::to_string(kDTypes - 1) + " (muster_dtype), " +
                                "got " + std::to_string(dtype_));
    }
    if (op_ < 0 || op_ >= kReduceOps) {
      return Invalid(name_, "op: want 0.." + std::to_string(kReduceOps - 1) + " (muster_op), " +
                                "got " + std::to_string(op_));
    }
    return {};
  }

  const char* name_;         // a literal of ours
  const muster_comm* comm_;  // the caller's
  int dtype_;
  int op_ = MUSTER_SUM;
};

}  // namespace
}  // namespace muster

using muster::Call;
using muster::DType;
using muster::ReduceOp;

const char* muster_version(void) { return MUSTER_VERSION; }
const char* muster_last_error(void) { return muster::last_error.c_str(); }

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

// Takes what muster_init() gave away.
void muster_free(muster_comm* comm) { const std::unique_ptr<muster_comm> owned(comm); }

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
  if (!(seconds > 0)) {  // a NaN, too
    comm->cpp.SetTimeout(std::chrono::nanoseconds::zero());
    return;
  }
  constexpr double kNanosecondsMax = 9e18;  // int64_t holds 9.2e18: 292 years
  const double nanoseconds = std::min(std::ceil(seconds * 1e9), kNanosecondsMax);
  comm->cpp.SetTimeout(std::chrono::nanoseconds(static_cast<int64_t>(nanoseconds)));
}

int muster_set_wire(muster_comm* comm, int wire) {
  return Call("set_wire", comm, 0).Then([&](DType, ReduceOp) {
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

int muster_barrier(muster_comm* comm) {
  return Call("barrier", comm, 0).Then([&](DType, ReduceOp) { return comm->cpp.Barrier(); });
}

int muster_all_reduce(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                      int op) {
  return Call("all_reduce", comm, dtype).Op(op).Then([&](DType d, ReduceOp o) {
    return comm->cpp.AllReduce(in, out, count, d, o);
  });
}

int muster_reduce(muster_comm* comm, const void* in, void* out, int64_t count, int dtype, int op,
                  int root) {
  return Call("reduce", comm, dtype).Op(op).Then([&](DType d, ReduceOp o) {
    return comm->cpp.Reduce(in, out, count, d, o, root);
  });
}

int muster_broadcast(muster_comm* comm, void* data, int64_t count, int dtype, int root) {
  return Call("broadcast", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.Broadcast(data, count, d, root);
  });
}

int muster_all_gather(muster_comm* comm, const void* in, void* out, int64_t count, int dtype) {
  return Call("all_gather", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.AllGather(in, out, count, d);
  });
}

int muster_gather(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                  int root) {
  return Call("gather", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.Gather(in, out, count, d, root);
  });
}

int muster_scatter(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                   int root) {
  return Call("scatter", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.Scatter(in, out, count, d, root);
  });
}

int muster_reduce_scatter(muster_comm* comm, const void* in, void* out, int64_t count, int dtype,
                          int op) {
  return Call("reduce_scatter", comm, dtype).Op(op).Then([&](DType d, ReduceOp o) {
    return comm->cpp.ReduceScatter(in, out, count, d, o);
  });
}

int muster_all_to_all(muster_comm* comm, const void* in, void* out, int64_t count, int dtype) {
  return Call("all_to_all", comm, dtype).Then([&](DType d, ReduceOp) {
    return comm->cpp.AllToAll(in, out, count, d);
  });
}
