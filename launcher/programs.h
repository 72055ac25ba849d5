// Several programs in one job: `launch -n 2 ./a : -n 3 ./b`, the lines of --configfile, `programs:`
// of a job file. Text and values only; thread-safe.
//
// Rules:
//  M1 a word ':' of the command line separates programs wherever it stands, as with mpirun and
//     mpiexec; in a job file it is a word like any other;
//  M2 each program says how many workers it has (-n); ranks go from the first program to the last;
//  M3 what is not a program's own is said once, before the first program.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "launcher/job_spec.h"

namespace muster {

// Options, program and arguments of one of them, as words.
struct ProgramWords {
  std::vector<std::string> words;
  std::string place;  // for messages: "jobs.txt:3", "program 2"
};

// At least one. InvalidArgument: nothing on one side of a ':'; too many.
absl::StatusOr<std::vector<ProgramWords>> SplitAtColons(const std::vector<std::string>& words);

// The text of a --configfile: a program on each line, words as a shell would quote them, '\' at the
// end of a line goes on with the next, '#' at the beginning is a comment. `name` is the file's.
absl::StatusOr<std::vector<ProgramWords>> ReadProgramLines(absl::string_view text,
                                                           const std::string& name);

// What each program may be given for itself (M3).
bool MaySayProgram(OptionId id);

// Whether it is the programs' word in this job: hosts that only the first one names are the job's.
bool SaysProgram(const JobSpec& spec, OptionId id);

// Why `program`, which stands behind the first one, says what it may not; ok if it does not.
absl::Status CheckFurther(const JobSpec& program);

// All programs of the job from the first on.
std::vector<const JobSpec*> ProgramsOf(const JobSpec& spec);

// "./train.py --lr 1", "-n 2 ./a x : -n 3 ./b": the same on every node where it is typed.
std::string DescribePrograms(const JobSpec& spec);

// M2: gives each its ranks, and spec.total all of them. Once, and before workers are placed.
absl::Status CountPrograms(JobSpec& spec);

}  // namespace muster
