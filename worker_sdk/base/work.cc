#include "muster/communicator.h"
#include "worker_sdk/base/no_memory.h"
#include "worker_sdk/base/pending.h"

namespace muster {

Status Work::Wait() {
  if (pending_ && pending_->is_parents()) {
    return {StatusCode::kFailedPrecondition,
            "this call is of the process that started it; a child of that by fork() is no rank"};
  }
  return OrNoMemory([this] { return pending_ ? pending_->Wait() : status_; });
}
bool Work::Test() {
  return WithMemory([this] { return !pending_ || pending_->is_parents() || pending_->Test(); },
                    [] { return false; });  // Wait() says so
}
int Work::source() const { return pending_ ? pending_->Source() : kAnyRank; }

}  // namespace muster
