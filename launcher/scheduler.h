// What a scheduler's variables say of where to run: the nodes of a job, or that the same command
// runs on each of them.
#pragma once

#include "absl/status/status.h"
#include "launcher/job_spec.h"
#include "launcher/options.h"

namespace muster {

// Whether the user says where to run, which counts more than a scheduler's allocation.
bool SaysWhere(const JobSpec& spec);

// Before anything is counted: in a job of Slurm or PBS its hosts (JobSpec::given_hosts), in a step
// of one task a node, and in a pod of an Indexed Job, where its nodes meet and which of them this
// is. What the user says counts more. InvalidArgument: the variables are not what the scheduler
// writes, or contradict the user's words.
absl::Status TakeScheduler(JobSpec& spec, const FileReader& read_file,
                           const Environment& environment);

// In an environment: by which this machine calls itself. $HOSTNAME is often that of another, on
// which the job was handed in.
inline constexpr char kOwnHostname[] = "hostname/kernel";

// Once its hosts have places: that those which the user names are started beside the job that
// launch is in, where they would be the job's without being named.
void NoteBesideJob(JobSpec& spec, const Environment& environment);

// Likewise: what the scheduler's own start would do for each task, in its place: which GPUs it
// sees. What launch does otherwise is noted.
void SettleTasks(JobSpec& spec);

}  // namespace muster
