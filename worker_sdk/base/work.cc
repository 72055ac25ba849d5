#include "muster/communicator.h"
#include "worker_sdk/base/pending.h"

namespace muster {

Status Work::Wait() {
  if (pending_ && pending_->is_parents()) {
    return {StatusCode::kFailedPrecondition,
            "this call is of the process that started it; a child of that by fork() is no rank"};
  }
  return pending_ ? pending_->Wait() : status_;
}
bool Work::Test() { return !pending_ || pending_->is_parents() || pending_->Test(); }
int Work::source() const { return pending_ ? pending_->Source() : kAnyRank; }

}  // namespace muster
