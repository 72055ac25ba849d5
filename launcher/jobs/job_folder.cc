#include "launcher/jobs/job_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/io/node_facts.h"
#include "launcher/jobs/job_place.h"
#include "proto/base/log.h"
#include "proto/base/private_file.h"
#include "proto/base/status_macros.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

constexpr char kRecordFile[] = "job.json";
constexpr char kReserveFile[] = "reserve";
constexpr char kClaimFile[] = "claim";  // locked by who makes the folder, until it has a record
constexpr char kLostFile[] = "lost";    // as old as the knowledge that the job is lost
constexpr size_t kReserveBytes = 16u << 10;

absl::Status WriteReserve(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kReserveFile);
  ASSIGN_OR_RETURN(const std::string temp, WritePrivateTemp(path, std::string(kReserveBytes, ' ')));
  return rename(temp.c_str(), path.c_str()) == 0 ? absl::OkStatus() : CannotKeepAt(path, errno);
}

std::vector<std::string> Entries(const std::string& folder) {
  std::vector<std::string> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  if (dir == nullptr) {
    return out;
  }
  while (const dirent* entry = readdir(dir.get())) {
    if (entry->d_name[0] != '.') {
      out.emplace_back(entry->d_name);
    }
  }
  return out;
}

std::string ReadSmall(const char* path) {
  const UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t n = fd.valid() ? read(fd.get(), text, sizeof(text)) : -1;
  return std::string(text, n > 0 ? static_cast<size_t>(n) : 0);
}

std::string BootId() {
  return std::string(absl::StripAsciiWhitespace(ReadSmall("/proc/sys/kernel/random/boot_id")));
}

std::string PidNamespace() {
  char name[64];
  const ssize_t n = readlink("/proc/self/ns/pid", name, sizeof(name));
  return std::string(name, n > 0 ? static_cast<size_t>(n) : 0);
}

// A home that several machines, or containers, share holds the jobs of all.
bool OfThisMachine(const JobRecord& record) {
  return record.keeper.boot == BootId() ? record.keeper.pid_namespace == PidNamespace()
                                        : record.host == Hostname();
}

// Whether nobody makes this folder any more. A system call lies between the folder and its claim;
// and where the file system knows no locks, the time that has passed must do.
bool Unclaimed(const std::string& folder) {
  const UniqueFd claim(
      open(absl::StrCat(folder, "/", kClaimFile).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  return claim.valid() ? flock(claim.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK
                       : errno == ENOENT;
}

// None: it cannot be kept in mind.
std::optional<absl::Time> LossNoticedAt(const std::string& folder) {
  const UniqueFd fd(open(absl::StrCat(folder, "/", kLostFile).c_str(),
                         O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat info {};
  return fd.valid() && fstat(fd.get(), &info) == 0
             ? std::optional(absl::TimeFromTimespec(info.st_mtim))
             : std::nullopt;
}

}  // namespace

absl::StatusOr<NewJobFolder> MakeJobFolder(const std::string& id) {
  ASSIGN_OR_RETURN(const std::string place, MakeJobPlace());
  NewJobFolder out;
  out.path = absl::StrCat(place, "/", id);
  const std::string& folder = out.path;
  if (mkdir(folder.c_str(), 0700) != 0) {
    return errno == EEXIST ? absl::AlreadyExistsError(folder) : CannotKeepAt(folder, errno);
  }
  const std::string claim = absl::StrCat(folder, "/", kClaimFile);
  out.claim.Reset(open(claim.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out.claim.valid()) {
    const int error = errno;
    RemoveJobFolder(folder);
    return CannotKeepAt(claim, error);
  }
  flock(out.claim.get(), LOCK_EX | LOCK_NB);
  if (const absl::Status status = WriteReserve(folder); !status.ok()) {
    RemoveJobFolder(folder);
    return absl::FailedPreconditionError(absl::StrCat(
        "--detach: the job's output cannot be kept: ", status.message(),
        ": make room there, or set XDG_RUNTIME_DIR to a folder on another file system"));
  }
  return out;
}

absl::Status WriteRecord(const std::string& folder, const JobRecord& record) {
  const std::string path = absl::StrCat(folder, "/", kRecordFile);
  const std::string text = RecordJson(record);
  absl::Status status = ReplacePrivateFile(path, text);
  if (!status.ok() && unlink(absl::StrCat(folder, "/", kReserveFile).c_str()) == 0) {
    status = ReplacePrivateFile(path, text);
  }
  return status;
}

absl::StatusOr<JobRecord> ReadRecord(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadPrivateFile(absl::StrCat(folder, "/", kRecordFile), kRecordBytesMax));
  return ParseRecord(text);
}

std::vector<StoredJob> ReadJobs(const std::string& id) {
  std::vector<StoredJob> out;
  for (const std::string& place : JobPlaces()) {
    for (const std::string& name : id.empty() ? Entries(place) : std::vector<std::string>{id}) {
      const std::string folder = absl::StrCat(place, "/", name);
      absl::StatusOr<JobRecord> record = ReadRecord(folder);
      if (absl::IsNotFound(record.status())) {
        continue;  // it is being made, or removed, or for ForgetKilledStarts
      }
      if (!record.ok() || record->id != name) {
        LogWarning(absl::StrCat(
            "left out: ", folder, ": ",
            record.ok() ? "it has the record of another job" : record.status().message()));
        continue;
      }
      if (!OfThisMachine(*record)) {
        continue;
      }
      if (record->live() && !Runs(record->keeper)) {
        // It may have ended between the two looks.
        absl::StatusOr<JobRecord> again = ReadRecord(folder);
        record = again.ok() ? *again : *record;
        record->state = record->live() ? JobState::kLost : record->state;
      }
      if (record->state == JobState::kLost && !record->ended_at.has_value()) {
        record->ended_at = LossNoticedAt(folder);
      }
      out.push_back({folder, *std::move(record)});
    }
  }
  std::sort(out.begin(), out.end(), [](const StoredJob& a, const StoredJob& b) {
    return a.record.started_at < b.record.started_at;
  });
  return out;
}

std::vector<JobRecord> RecordsOf(const std::vector<StoredJob>& jobs) {
  std::vector<JobRecord> out;
  out.reserve(jobs.size());
  std::transform(jobs.begin(), jobs.end(), std::back_inserter(out),
                 [](const StoredJob& job) { return job.record; });
  return out;
}

std::vector<StoredJob> ForgetOldJobs(std::vector<StoredJob> jobs, absl::Time now) {
  const std::vector<JobRecord> records = RecordsOf(jobs);
  const std::vector<bool> forget = JobsToForget(records, now);
  std::vector<StoredJob> kept;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (forget[i]) {
      RemoveJobFolder(jobs[i].folder);
    } else {
      kept.push_back(std::move(jobs[i]));
    }
  }
  return kept;
}

void ForgetKilledStarts(absl::Time now) {
  for (const std::string& place : JobPlaces()) {
    for (const std::string& name : Entries(place)) {
      const std::string folder = absl::StrCat(place, "/", name);
      struct stat info {};
      if (lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
          StartIsOverdue(name, absl::TimeFromTimespec(info.st_mtim), now) && Unclaimed(folder) &&
          absl::IsNotFound(
              ReadRecord(folder).status())) {  // the claim ends when the record is there
        RemoveJobFolder(folder);
      }
    }
  }
}

void RemoveJobFolder(const std::string& folder) {
  for (const std::string& name : Entries(folder)) {
    unlink(absl::StrCat(folder, "/", name).c_str());
  }
  rmdir(folder.c_str());
}

ProcessName NameProcess(int32_t pid) {
  const std::string stat = ReadSmall(absl::StrCat("/proc/", pid, "/stat").c_str());
  // "PID (any name) STATE ..."; the start is the 22nd field, the 20th behind the name.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) {
    return {};
  }
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(name_end + 1), ' ', absl::SkipEmpty());
  ProcessName out{pid, 0, BootId(), PidNamespace()};
  constexpr size_t kStart = 19;
  const bool gone = fields.size() <= kStart || fields[0] == "Z" || fields[0] == "X";
  return gone || !absl::SimpleAtoi(fields[kStart], &out.start) ? ProcessName() : out;
}

bool Runs(const ProcessName& process) {
  return process.pid > 0 && NameProcess(process.pid) == process;
}

}  // namespace muster
