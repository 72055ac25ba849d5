// What every function of the C ABI begins and ends with.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "muster/communicator.h"
#include "muster/muster.h"
#include "muster/status.h"
#include "muster/types.h"

struct muster_comm {  // NOLINT(readability-identifier-naming): C's name
  muster::Communicator cpp;
};
struct muster_work {  // NOLINT(readability-identifier-naming): C's name
  muster::Work cpp;
};

namespace muster {

std::string& LastError();  // of this thread

inline int CodeOf(const Status& status) {
  if (!status.ok()) {
    LastError() = status.message();
  }
  return static_cast<int>(status.code());
}

inline Status Invalid(const char* call, const std::string& why) {
  return {StatusCode::kInvalidArgument, std::string(call) + ": " + why};
}

// One call on its way in: numbers become types; Communicator checks the rest.
class CCall {
 public:
  CCall(const char* name, const muster_comm* comm, int dtype)
      : name_(name), dtype_(static_cast<DType>(dtype)) {
    if (comm == nullptr) {
      status_ = Invalid(name, "comm: a null pointer; muster_init() makes one");
    } else if (dtype < 0 || dtype >= kDTypes) {
      status_ = Invalid(name, "dtype: want 0.." + std::to_string(kDTypes - 1) +
                                  " (muster_dtype), got " + std::to_string(dtype));
    }
  }

  CCall& Op(int op) {
    if (!status_.ok()) {
      return *this;
    }
    op_ = static_cast<ReduceOp>(op);
    if (op < 0 || op >= kReduceOps) {
      status_ = Invalid(name_, "op: want 0.." + std::to_string(kReduceOps - 1) +
                                   " (muster_op), got " + std::to_string(op));
    }
    return *this;
  }

  // The code of `call`, or of what is wrong with its arguments.
  template <typename Function>
  int Then(const Function& call) const {
    return CodeOf(status_.ok() ? call(dtype_, op_) : status_);
  }
  // What `call` starts, into `out`; the code if it has failed already.
  template <typename Function>
  int Start(muster_work** out, const Function& call) const {
    if (out == nullptr) {
      return CodeOf(Invalid(name_, "work: a null pointer"));
    }
    *out = nullptr;
    if (!status_.ok()) {
      return CodeOf(status_);
    }
    Work work = call(dtype_, op_);
    if (work.Test()) {
      if (const Status ended = work.Wait(); !ended.ok()) {
        return CodeOf(ended);
      }
    }
    *out = std::make_unique<muster_work>(muster_work{std::move(work)}).release();
    return MUSTER_OK;
  }

 private:
  const char* name_;  // a literal of ours
  DType dtype_;
  ReduceOp op_ = ReduceOp::kSum;
  Status status_;
};

}  // namespace muster
