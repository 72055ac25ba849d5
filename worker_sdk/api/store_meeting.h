// How processes come together that share nothing but a store.
#pragma once

#include <cstdint>

#include "muster/communicator.h"
#include "muster/status.h"
#include "worker_sdk/api/meeting.h"
#include "worker_sdk/bootstrap/environment.h"

namespace muster {

// `job`: as launch knows this process, if it does.
StatusOr<Meeting> MeetAtStore(Store& store, uint32_t rank, uint32_t size,
                              const WorkerIdentity& job);

}  // namespace muster
