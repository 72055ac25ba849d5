// A process that holds a secret writes no core file: what lies in its memory would go to a disk,
// where it outlives the job. The programs that it starts hold none, and have the user's limit.
#pragma once

#include <sys/resource.h>

namespace muster {

// For this process and those it forks, until somebody else changes their limit (prlimit(1)). Before
// there is a secret or a thread.
void WriteNoCores();

// What a program that this process starts is to have: the limit as it was before WriteNoCores. Any
// thread.
rlimit CoreLimitOfOthers();

}  // namespace muster
