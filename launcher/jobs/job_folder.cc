#include "launcher/jobs/job_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/io/node_facts.h"
#include "proto/base/log.h"
#include "proto/base/private_file.h"
#include "proto/base/status_macros.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

constexpr char kRecordFile[] = "job.json";
constexpr char kReserveFile[] = "reserve";
constexpr size_t kReserveBytes = 16u << 10;
constexpr size_t kJobsMax = 1000;  // folders looked at

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && value[0] == '/' ? value : "";
}

// systemd removes /run/user/UID when its user has logged out, unless the user may linger.
bool GoesAtLogout(const std::string& folder) {
  if (!absl::StartsWith(folder, "/run/user/")) {
    return false;
  }
  const passwd* user = getpwuid(geteuid());
  return user == nullptr ||
         access(absl::StrCat("/var/lib/systemd/linger/", user->pw_name).c_str(), F_OK) != 0;
}

std::string RuntimePlace() {
  const std::string folder = Environment("XDG_RUNTIME_DIR");
  return folder.empty() ? "" : absl::StrCat(folder, "/muster/jobs");
}

std::string StatePlace() {
  const std::string state = Environment("XDG_STATE_HOME");
  const std::string home = Environment("HOME");
  return !state.empty()  ? absl::StrCat(state, "/muster/jobs")
         : !home.empty() ? absl::StrCat(home, "/.local/state/muster/jobs")
                         : "";
}

absl::StatusOr<std::string> PlaceForNewJob() {
  const std::string runtime = RuntimePlace();
  if (!runtime.empty() && !GoesAtLogout(runtime)) {
    return runtime;
  }
  std::string state = StatePlace();
  state = state.empty() ? runtime : state;
  if (state.empty()) {
    return absl::FailedPreconditionError(
        "--detach: no folder for the job's output: set HOME, or XDG_RUNTIME_DIR to a folder of "
        "yours");
  }
  return state;
}

absl::Status CannotMake(const std::string& folder, int error) {
  return absl::FailedPreconditionError(
      absl::StrCat("--detach: the job's output cannot be kept at ", folder, ": ",
                   std::strerror(error), ": set XDG_RUNTIME_DIR to a folder that you may write"));
}

absl::Status MakeFolders(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return CannotMake(folder, errno);
    }
    if (slash == std::string::npos) {
      return absl::OkStatus();
    }
  }
}

// Nobody else may put folders there, or take ours away.
absl::Status CheckOwn(const std::string& place) {
  struct stat info {};
  if (stat(place.c_str(), &info) != 0) {
    return CannotMake(place, errno);
  }
  if (info.st_uid != geteuid() || (info.st_mode & 022) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("--detach: ", place, " belongs to another user, or others may write there: ",
                     "set XDG_RUNTIME_DIR to a folder that only you may write"));
  }
  return absl::OkStatus();
}

absl::Status WriteReserve(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kReserveFile);
  ASSIGN_OR_RETURN(const std::string temp, WritePrivateTemp(path, std::string(kReserveBytes, ' ')));
  return rename(temp.c_str(), path.c_str()) == 0 ? absl::OkStatus() : CannotMake(path, errno);
}

absl::Status Replace(const std::string& path, const std::string& text) {
  ASSIGN_OR_RETURN(const std::string temp, WritePrivateTemp(path, text));
  if (rename(temp.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temp.c_str());
    return absl::InternalError(absl::StrCat("rename to ", path, ": ", std::strerror(error)));
  }
  return absl::OkStatus();
}

std::vector<std::string> Entries(const std::string& folder) {
  std::vector<std::string> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  while (dir != nullptr && out.size() < kJobsMax) {
    const dirent* entry = readdir(dir.get());
    if (entry == nullptr) {
      break;
    }
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

}  // namespace

absl::StatusOr<std::string> MakeJobFolder(const std::string& id) {
  ASSIGN_OR_RETURN(const std::string place, PlaceForNewJob());
  RETURN_IF_ERROR(MakeFolders(place));
  RETURN_IF_ERROR(CheckOwn(place));
  const std::string folder = absl::StrCat(place, "/", id);
  if (mkdir(folder.c_str(), 0700) != 0) {
    return errno == EEXIST ? absl::AlreadyExistsError(folder) : CannotMake(folder, errno);
  }
  if (const absl::Status status = WriteReserve(folder); !status.ok()) {
    RemoveJobFolder(folder);
    return absl::FailedPreconditionError(absl::StrCat(
        "--detach: the job's output cannot be kept: ", status.message(),
        ": make room there, or set XDG_RUNTIME_DIR to a folder on another file system"));
  }
  return folder;
}

absl::Status WriteRecord(const std::string& folder, const JobRecord& record) {
  const std::string path = absl::StrCat(folder, "/", kRecordFile);
  const std::string text = RecordJson(record);
  absl::Status status = Replace(path, text);
  if (!status.ok() && unlink(absl::StrCat(folder, "/", kReserveFile).c_str()) == 0) {
    status = Replace(path, text);
  }
  return status;
}

absl::StatusOr<JobRecord> ReadRecord(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadPrivateFile(absl::StrCat(folder, "/", kRecordFile), kRecordBytesMax));
  return ParseRecord(text);
}

std::vector<StoredJob> ReadJobs() {
  std::vector<StoredJob> out;
  // One's jobs are the same from cron, say, where the variable is not set.
  const std::string runtime = RuntimePlace();
  const std::set<std::string> places = {
      runtime.empty() ? absl::StrCat("/run/user/", geteuid(), "/muster/jobs") : runtime,
      StatePlace()};
  for (const std::string& place : places) {
    for (const std::string& name : Entries(place)) {
      const std::string folder = absl::StrCat(place, "/", name);
      absl::StatusOr<JobRecord> record = ReadRecord(folder);
      if (absl::IsNotFound(record.status())) {
        continue;  // it is being made, or removed
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
      out.push_back({folder, *std::move(record)});
    }
  }
  std::sort(out.begin(), out.end(), [](const StoredJob& a, const StoredJob& b) {
    return a.record.started_at < b.record.started_at;
  });
  return out;
}

std::vector<StoredJob> ForgetOldJobs(std::vector<StoredJob> jobs, absl::Time now) {
  size_t ended = 0;
  std::vector<StoredJob> kept;
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) {
    const absl::Time since = job->record.ended_at.value_or(job->record.started_at);
    const bool old = now - since > kEndedJobsKept || ended >= kEndedJobsMax;
    if (!job->record.live() && old) {
      RemoveJobFolder(job->folder);
      continue;
    }
    ended += job->record.live() ? 0 : 1;
    kept.push_back(std::move(*job));
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
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
