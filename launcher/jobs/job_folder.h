// What is kept of each detached job: a folder with its id below a place (job_place.h), in it
// job.json, the output (job_log.h), report.json and the socket `control`, all for their owner
// alone. Blocks on the file system; any thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "launcher/jobs/job_record.h"
#include "proto/base/unique_fd.h"

namespace muster {

inline constexpr char kReportFile[] = "report.json";

struct StoredJob {
  std::string folder;
  JobRecord record;
};

struct NewJobFolder {
  std::string path;
  UniqueFd claim;  // while it is open anywhere, ForgetKilledStarts leaves the folder alone
};

// A new folder for a job of this id, claimed until its record is there. Errors: AlreadyExists;
// FailedPrecondition (no place for it: says which folder, and what to do).
absl::StatusOr<NewJobFolder> MakeJobFolder(const std::string& id);
// Also where the disk is full, once: a little room is kept for it.
absl::Status WriteRecord(const std::string& folder, const JobRecord& record);
absl::StatusOr<JobRecord> ReadRecord(const std::string& folder);

// The user's jobs of this machine, oldest first; a live one whose keeper is gone is kLost. What
// cannot be read is logged and left out. `id`: of this one alone (IsJobId), without a look at all
// those that a shared home has of other machines.
std::vector<StoredJob> ReadJobs(const std::string& id = "");
// What is known of each, in the same order.
std::vector<JobRecord> RecordsOf(const std::vector<StoredJob>& jobs);
// Removes those that ended long ago, or before kEndedJobsMax others; what is left.
std::vector<StoredJob> ForgetOldJobs(std::vector<StoredJob> jobs, absl::Time now);
// Removes the folders of jobs that were killed, with their keeper, before they had a record.
void ForgetKilledStarts(absl::Time now);
void RemoveJobFolder(const std::string& folder);

// The process of this number, as it is known for certain. `pid` 0: none such.
ProcessName NameProcess(int32_t pid);
bool Runs(const ProcessName& process);

}  // namespace muster
