#include "muster/communicator.h"
#include "worker_sdk/base/pending.h"

namespace muster {

Status Work::Wait() { return pending_ ? pending_->Wait() : status_; }
bool Work::Test() { return !pending_ || pending_->Test(); }
int Work::source() const { return pending_ ? pending_->Source() : kAnyRank; }

}  // namespace muster
