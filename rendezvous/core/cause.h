// Which worker's end was the first cause, and how it is said.
#pragma once

#include <string>
#include <vector>

#include "rendezvous/core/types.h"

namespace muster {

// Of ends that count as failures (not ok, not stopped by us): a signal, the OOM killer or a failed
// start before the earliest error file before the earliest exit, so that a peer's "connection
// reset" is not blamed. Null when none failed. Valid as long as `exits` is.
const ExitRecord* FirstCause(const std::vector<ExitRecord>& exits);

// When it failed. It may have gone on for some time after it had written its error file.
absl::Time FailedAt(const ExitRecord& record);

// Of the same, the one that failed first, whatever it was: where workers do not end because of each
// other.
const ExitRecord* EarliestFailure(const std::vector<ExitRecord>& exits);

// What `failure`, one of `exits`, follows (WorkerExit::because_of), from one failure to the next:
// the last of them, which blames nobody, or a rank that is none of them, or of which only a later
// process has failed. `failure` itself where they blame each other in a circle.
const ExitRecord& RootOf(const std::vector<ExitRecord>& exits, const ExitRecord& failure);

// Whether this process, which has ended, was started after that.
bool BeganAfter(const ExitRecord& record, absl::Time when);

// Ends of its own accord. One that was stopped is neither, whatever its exit code: with 0 it may
// have saved its state, not done its work.
bool IsSuccess(const WorkerExit& exit);
bool IsFailure(const WorkerExit& exit);

// "rank 3 on node1 (pid 4711) was ended by SIGSEGV (segmentation fault) after 1.2 s"
std::string ExitSentence(const ExitRecord& record);

}  // namespace muster
