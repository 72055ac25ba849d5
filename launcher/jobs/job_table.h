// Which job a word means, and the listing of `launch ps`. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "launcher/jobs/job_record.h"

namespace muster {

// The indexes of all that `word` may mean: the job of that id, else those of that name, else those
// whose id begins so (with or without "job-"). At least one. Error: NotFound, which lists what
// there is.
absl::StatusOr<std::vector<size_t>> FindJobs(const std::vector<JobRecord>& records,
                                             absl::string_view word);

// The index of the job that `word` means: of those of FindJobs, where these are several, the one
// that still runs. Errors: NotFound, FailedPrecondition (several, of which none or more than one
// runs); both list what there is.
absl::StatusOr<size_t> FindJob(const std::vector<JobRecord>& records, absl::string_view word);

// What `--detach --name NAME` says where jobs of that name run: which, and that their ids are
// wanted from now on; "" = none does, or there is no name.
std::string NameTaken(const std::vector<JobRecord>& records, absl::string_view name);

// "job-1 has ended with 3", or that it was lost, and what may have been the end of it.
std::string HowEnded(const JobRecord& record);

// How a scheduler's command would stop what `word` may be the number of, where FindJob knows it not
// ("; if Slurm's job 5 is meant: scancel 5"); "" where it is no number of a job (5, 5_3, 5.0), or
// `slurm` is false: Slurm is not here.
std::string StopOfSlurm(absl::string_view word, bool slurm);

// The only one that runs. Errors as of FindJob; `how`: to name one of several, as in " with --job".
absl::StatusOr<size_t> FindOnlyJob(const std::vector<JobRecord>& records, absl::string_view how);

// The table, one line a job, newest last; lines are cut at `width` characters (0 = never).
std::string JobTable(const std::vector<JobRecord>& records, absl::Time now, size_t width);
std::string JobsJson(const std::vector<JobRecord>& records);
// What `launch restart` was answered.
std::string RestartJson(const JobRecord& record, bool restarts, const std::string& text);

}  // namespace muster
