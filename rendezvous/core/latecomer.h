// Who comes after a job has ended: a node of it that is late, or the first of the next job of that
// name. Pure.
#pragma once

#include "rendezvous/core/types.h"

namespace muster {

// Whether `join`, of a process that the job does not know, is of a node that comes too late: the
// job has ended well and could have grown by one more, and nobody on that machine was there at the
// end. Else it is of another job: one that typed the same again has been there.
bool ComesTooLate(const RoundConfig& config, const RoundState& state, const Join& join);

}  // namespace muster
