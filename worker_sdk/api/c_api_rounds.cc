// The C ABI: going on in the next round.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker_sdk/api/c_call.h"

using muster::CCall;
using muster::DType;
using muster::ReduceOp;

int muster_reform(muster_comm* comm, muster_comm** out) {
  if (out == nullptr) return muster::CodeOf(muster::Invalid("reform", "out: a null pointer"));
  *out = nullptr;
  return CCall("reform", comm, 0).Then([&](DType, ReduceOp) {
    muster::StatusOr<muster::Communicator> next = comm->cpp.Reform();
    if (!next.ok()) return next.status();
    *out = std::make_unique<muster_comm>(muster_comm{*std::move(next)}).release();
    return muster::Status();
  });
}

int muster_get_agreed(const muster_comm* comm, muster_agreed* out) {
  return CCall("get_agreed", comm, 0).Then([&](DType, ReduceOp) {
    if (out == nullptr) return muster::Invalid("get_agreed", "out: a null pointer");
    const muster::Agreed& all = comm->cpp.agreed();
    *out = {all.completed, all.started, all.committed, all.committed_last, all.holder};
    return muster::Status();
  });
}

int muster_commit(muster_comm* comm, int64_t step) {
  return CCall("commit", comm, 0).Then([&](DType, ReduceOp) { return comm->cpp.Commit(step); });
}

int muster_broadcast_state(muster_comm* comm, void* const* data, const int64_t* counts,
                           const int* dtypes, int buffers) {
  const auto invalid = [](const std::string& why) {
    return muster::Invalid("broadcast_state", why);
  };
  return CCall("broadcast_state", comm, 0).Then([&](DType, ReduceOp) {
    if (buffers < 1) return invalid("buffers: want 1 or more, got " + std::to_string(buffers));
    if (data == nullptr || counts == nullptr || dtypes == nullptr) {
      return invalid("data, counts or dtypes: a null pointer");
    }
    std::vector<muster::StateBuffer> state;
    for (int i = 0; i < buffers; ++i) {
      if (dtypes[i] < 0 || dtypes[i] >= muster::kDTypes) {
        return invalid("dtypes[" + std::to_string(i) + "]: want 0.." +
                       std::to_string(muster::kDTypes - 1) + " (muster_dtype), got " +
                       std::to_string(dtypes[i]));
      }
      state.push_back({data[i], counts[i], static_cast<DType>(dtypes[i])});
    }
    return comm->cpp.BroadcastState(state);
  });
}

int muster_is_replacement(const muster_comm* comm) {
  return comm != nullptr && comm->cpp.is_replacement() ? 1 : 0;
}
uint64_t muster_last_call(const muster_comm* comm) {
  return comm == nullptr ? 0 : comm->cpp.last_call();
}
