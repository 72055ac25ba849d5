// Looks at a program without running it: is it Python, which torch would it load, does it link an
// MPI. Any thread. A program that is not Python costs one open and a few reads; a Python one some
// more small files, below 1 ms on a local file system. What cannot be read is unknown, never an
// error: the worker's own start will say what is wrong with it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "agent/core/env_filter.h"
#include "agent/core/facts.h"

namespace muster {

// `words` and `wdir` ("" = here) as the plan has them; `env` is the workers' environment (PATH,
// PYTHONPATH, PYENV_*, HOME are looked at).
// Of `nice PROGRAM`, `env A=1 PROGRAM`, `taskset -c 0 PROGRAM` and the like: PROGRAM's. Of a shell
// script the MPI is that of the program that it runs, as far as its text says which.
ProgramFacts LookAtProgram(const std::vector<std::string>& words, const std::string& wdir,
                           const EnvBase& env);

// The file that execvp would run for `name` in the folder `wdir`; "" when it would find none.
std::string FindProgram(absl::string_view name, const std::string& wdir, const EnvBase& env);

// What workers are started from.
struct PreparedProgram {
  WorkPlan plan;  // PlanOfProgram
  EnvBase environment;
  ProgramFacts facts;
};

// One for each program of the job, in their order; `inherited` is the environment of this process.
std::vector<PreparedProgram> PreparePrograms(const WorkPlan& plan,
                                             const std::vector<std::string>& inherited);

// What is to be said of each program (MpiNotice, MeetingPlaceNotice, StartsRanksNotice), each text
// once. `world_size`: 0 = not known yet, more than one; `workers`: of this node.
std::vector<std::string> ProgramNotices(const std::vector<PreparedProgram>& programs,
                                        uint32_t world_size, uint32_t workers);

}  // namespace muster
