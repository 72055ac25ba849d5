// What options do that mpirun and mpiexec users type out of habit, and --mpi. Pure; thread-safe.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "launcher/job_spec.h"
#include "launcher/options.h"

namespace muster {

// Of -hosts and -f, which are mpiexec's (Hydra) alone: it goes round the hosts again where there
// are more ranks than slots, without a word that says so.
void GoRoundAgain(const OptionValue& v, JobSpec& s);

// -genv NAME VALUE, -genv NAME=VALUE, -genvlist A,B,C: other spellings of -x.
absl::Status AddForwardPair(const OptionValue& v, JobSpec& s);
absl::Status AddForwardList(const OptionValue& v, JobSpec& s);

// --map-by, --rank-by: Ok where it asks for what we do (hosts are filled in order), or for a number
// on each node; an error where ranks would stand elsewhere than mpirun puts them.
absl::Status SetMapBy(const OptionValue& v, JobSpec& s);
absl::Status CheckRankBy(const OptionValue& v, JobSpec& s);

// Hydra's pattern of a file name as WorkPlan's: %r is {rank}, %h {host}, %p {node_rank}.
absl::StatusOr<std::string> ParseFilePattern(const OptionValue& v);

// Open MPI 4's folder for output, DIR[:nocopy,nojobid]: a file for each rank and stream.
absl::Status SetOutputFilename(const OptionValue& v, JobSpec& s);

// --mca KEY VALUE and its kin.
absl::Status IgnoreSetting(const OptionValue& v, JobSpec& s);
// One note about all of them, if there are any.
void NoteIgnoredSettings(const Environment& environment, JobSpec& s);

// --mpi: what is served to the program's MPI.
absl::Status SetMpi(const OptionValue& v, JobSpec& s);

// -launcher NAME: other names than ssh are noted.
absl::Status CheckLauncher(const OptionValue& v, JobSpec& s);

}  // namespace muster
