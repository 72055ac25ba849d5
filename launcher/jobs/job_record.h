// What is known of a detached job: the content of its job.json. Values only; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// Of detached jobs that have ended, so many and for so long are kept for `launch ps -a` and `logs`.
inline constexpr size_t kEndedJobsMax = 50;
inline constexpr absl::Duration kEndedJobsKept = absl::Hours(7 * 24);
// A folder that has no record yet, and was not touched for so long, may be what a killed start
// left.
inline constexpr absl::Duration kStartAwaited = absl::Minutes(10);
// Of a command line, which may be of megabytes and is only shown: so much is kept.
inline constexpr size_t kCommandBytesMax = 64u << 10;
// Such a command line with each byte escaped, and names of 200 bytes of 16384 nodes, fit.
inline constexpr size_t kRecordBytesMax = 4u << 20;

enum class JobState : uint8_t {
  kStarting,
  kRunning,  // all workers have been started
  kEnded,
  kLost,  // its keeper, or its launcher, was killed: nothing of it runs, and no exit code is known
};

// A process for certain: its number alone may be another's by now.
struct ProcessName {
  int32_t pid = 0;
  uint64_t start = 0;         // clock ticks from boot to its start, as /proc/PID/stat has it
  std::string boot;           // /proc/sys/kernel/random/boot_id
  std::string pid_namespace;  // of pids: "pid:[4026531836]"

  bool operator==(const ProcessName&) const = default;
};

struct JobRecord {
  std::string id;
  std::string name;  // --name; "" = none
  std::string host;  // where it was typed
  std::vector<std::string> command;
  std::vector<std::string> hosts;  // of the host list; empty = this machine, or unknown
  std::string folder;              // working directory
  ProcessName keeper;
  JobState state = JobState::kStarting;
  uint32_t world_size = 0;  // 0 = not known yet
  uint32_t nodes = 0;
  absl::Time started_at = absl::UnixEpoch();
  std::optional<absl::Time> ended_at;  // kLost: when that was noticed
  int32_t exit_code = 0;  // kEnded; kLost: of the launcher that was killed, if that is known
  absl::Duration grace;   // --grace of the job
  std::string within;     // the scheduler's job that it was typed in: "Slurm job 5"; "" = none

  bool live() const { return state == JobState::kStarting || state == JobState::kRunning; }
};

// At most kCommandBytesMax of the words; where that is not all, "..." is behind them.
std::vector<std::string> CutCommand(std::vector<std::string> words);

std::string RecordJson(const JobRecord& record);
// Anything may stand in the file. Errors: InvalidArgument, naming the field.
absl::StatusOr<JobRecord> ParseRecord(absl::string_view json);

absl::string_view JobStateName(JobState state);

// Which of them ended long ago, or before kEndedJobsMax others. One that is lost counts from when
// that was noticed, for its last word has yet to be read.
std::vector<bool> JobsToForget(const std::vector<JobRecord>& records, absl::Time now);

// Of a folder without a record, by its name and its last change: whether its start has had its
// time. Whether somebody still works at it is another question (job_folder.h).
bool StartIsOverdue(absl::string_view name, absl::Time changed_at, absl::Time now);

}  // namespace muster
