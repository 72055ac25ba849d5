// What to make of the time that a job's workers waited for CPUs. Pure.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/core/types.h"

namespace muster {

// The part of its time in which a thread that could run had no CPU, 0 to 1. It is of the threads
// that were looked at; 0 where nothing is known.
double WaitedShare(const NodeUse& use);

// One sentence about the node where they waited most, with what to try where that is much; where
// nothing can be said, why.
std::string CpuAdvice(const std::vector<UseRecord>& uses);

}  // namespace muster
