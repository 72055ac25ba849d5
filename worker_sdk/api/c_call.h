// What every function of the C ABI begins and ends with.
#pragma once

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

// What `function` returns. No exception leaves the C ABI.
template <typename Function>
int Guarded(const Function& function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    LastError() = "out of memory";  // short: needs none
    return MUSTER_RESOURCE_EXHAUSTED;
  } catch (...) {
    LastError() = "internal error";
    return MUSTER_INTERNAL;
  }
}

// One call on its way in: numbers become types; Communicator checks the rest.
class CCall {
 public:
  CCall(const char* name, const muster_comm* comm, int dtype)
      : name_(name), comm_(comm), dtype_(dtype) {}

  CCall& Op(int op) {
    op_ = op;
    return *this;
  }

  // The code of `call`, or of what is wrong with its arguments.
  template <typename Function>
  int Then(const Function& call) const {
    return Guarded([&] {
      const Status status = Check();
      return CodeOf(status.ok() ? call(static_cast<DType>(dtype_), static_cast<ReduceOp>(op_))
                                : status);
    });
  }
  // What `call` starts, into `out`; the code if it has failed already.
  template <typename Function>
  int Start(muster_work** out, const Function& call) const {
    return Guarded([&]() -> int {
      if (out == nullptr) {
        return CodeOf(Invalid(name_, "work: a null pointer"));
      }
      *out = nullptr;
      if (const Status status = Check(); !status.ok()) {
        return CodeOf(status);
      }
      Work work = call(static_cast<DType>(dtype_), static_cast<ReduceOp>(op_));
      if (work.Test()) {
        if (const Status ended = work.Wait(); !ended.ok()) {
          return CodeOf(ended);
        }
      }
      *out = std::make_unique<muster_work>(muster_work{std::move(work)}).release();
      return MUSTER_OK;
    });
  }

 private:
  Status Check() const {
    if (comm_ == nullptr) {
      return Invalid(name_, "comm: a null pointer; muster_init() makes one");
    }
    if (dtype_ < 0 || dtype_ >= kDTypes) {
      return Invalid(name_, "dtype: want 0.." + std::to_string(kDTypes - 1) +
                                " (muster_dtype), got " + std::to_string(dtype_));
    }
    if (op_ < 0 || op_ >= kReduceOps) {
      return Invalid(name_, "op: want 0.." + std::to_string(kReduceOps - 1) + " (muster_op), got " +
                                std::to_string(op_));
    }
    return {};
  }

  const char* name_;         // a literal of ours
  const muster_comm* comm_;  // the caller's
  int dtype_;
  int op_ = MUSTER_SUM;
};

}  // namespace muster
