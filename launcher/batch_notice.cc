#include "launcher/batch_notice.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "agent/io/small_file.h"
#include "launcher/batch_shell.h"
#include "launcher/job_run.h"
#include "proto/base/log.h"
#include "proto/base/private_file.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

constexpr ptrdiff_t kJobsKept = 64;
constexpr int kLooks = 10;
constexpr std::chrono::milliseconds kBetweenLooks{20};
constexpr size_t kListBytesMax = 16u << 10;

constexpr absl::string_view kExec = "write 'exec launch ...' as the last command";
// The shell ends when it has what it waited for, and that is the job's end.
constexpr absl::string_view kWait =
    "write 'launch ... & P=$!; trap \"kill -TERM $P; wait $P\" TERM; wait $P'";

// As a shell without job control starts what is to run beside it.
bool InBackground() {
  for (const int signo : {SIGINT, SIGQUIT}) {
    struct sigaction now {};
    if (sigaction(signo, nullptr, &now) != 0 || now.sa_handler != SIG_IGN) {
      return false;
    }
  }
  return true;
}

std::string ToldFile() {
  for (const auto& [name, below] : {std::pair<const char*, const char*>{"XDG_STATE_HOME", ""},
                                    std::pair<const char*, const char*>{"HOME", "/.local/state"}}) {
    const char* folder = std::getenv(name);
    if (folder != nullptr && folder[0] == '/') {
      return absl::StrCat(folder, below, "/muster/told");
    }
  }
  return "";
}

// False where that cannot be kept: then it is said each time.
bool WasTold(const std::string& key) {
  const std::string path = ToldFile();
  if (path.empty() || !MakePrivateFolders(path).ok()) {
    return false;
  }
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid() || flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return false;
  }
  const std::string list = ListWith(ReadAt(fd.get(), 0, kListBytesMax), key);
  if (!list.empty() && ftruncate(fd.get(), 0) == 0) {
    (void)!pwrite(fd.get(), list.data(), list.size(), 0);
  }
  return list.empty();
}

// Of this job and no other, also where a home directory is that of several clusters.
std::string KeyOf(const JobSpec& spec) {
  const char* cluster = std::getenv("SLURM_CLUSTER_NAME");
  return spec.slurm.has_value() ? absl::StrCat(cluster == nullptr ? "" : cluster, " ",
                                               spec.slurm->name, ".", spec.slurm->restarts)
                                : spec.pbs->name;
}

std::optional<BatchPlace> PlaceOf(const JobSpec& spec) {
  BatchPlace place;
  place.in_background = InBackground();
  if (spec.slurm.has_value() && spec.slurm->in_script) {
    std::optional<ProcessStatus> shell = ShellOfSlurm(Ancestors());
    // The shell that has started us with `&` sets the trap that follows a moment later.
    for (int i = 0; place.in_background && i < kLooks && shell && !shell->minds_term; ++i) {
      std::this_thread::sleep_for(kBetweenLooks);
      shell = ShellOfSlurm(Ancestors());
    }
    place.shell_minds = shell.has_value() && shell->minds_term;
    place.in_step = spec.given_hosts.has_value() && (spec.nodes.size() > 1 || InLoneStep(spec));
    return shell.has_value() ? std::optional<BatchPlace>(place) : std::nullopt;
  }
  if (spec.pbs.has_value() && spec.pbs->in_script &&
      ShellOfSessionEndsUnheard(Ancestors(), getsid(0))) {
    place.slurm = false;
    return place;
  }
  return std::nullopt;
}

}  // namespace

std::string BatchNotice(const BatchPlace& place) {
  if (!place.slurm) {
    return absl::StrCat(
        "when PBS stops this job (qdel, walltime), the script's shell dies at once, and all that "
        "runs on this host with it, before workers can save: ",
        place.in_background ? kWait : kExec);
  }
  if (!place.in_step && place.shell_minds) {
    // A trap that passes it on is as good as exec.
    return place.in_background
               ? ""
               : absl::StrCat("when Slurm stops this job, launch does not hear of it, as Slurm ",
                              "signals the script's shell alone: its workers get no time to save, "
                              "also with a trap: ",
                              kExec);
  }
  if (place.shell_minds) {
    return "";
  }
  return absl::StrCat(
      "when Slurm stops this job, the script's shell dies at once, and launch with it before ",
      place.in_step ? "it can report: " : "its workers can save: ",
      place.in_background ? kWait : kExec,
      place.in_step && !place.in_background ? ", or 'trap : TERM' above it" : "");
}

std::string ListWith(absl::string_view list, absl::string_view key) {
  std::vector<absl::string_view> keys = absl::StrSplit(list, '\n', absl::SkipEmpty());
  for (const absl::string_view one : keys) {
    if (one == key) {
      return "";
    }
  }
  keys.push_back(key);
  if (std::ssize(keys) > kJobsKept) {
    keys.erase(keys.begin(), keys.end() - kJobsKept);
  }
  return absl::StrCat(absl::StrJoin(keys, "\n"), "\n");
}

void TellOfBatchShell(const JobSpec& spec) {
  const bool in_script = (spec.slurm.has_value() && spec.slurm->in_script) ||
                         (spec.pbs.has_value() && spec.pbs->in_script);
  const bool of_doctor =
      spec.no_preflight &&
      std::any_of(spec.plan.argv.begin(), spec.plan.argv.end(),
                  [](const std::string& word) { return absl::StrContains(word, "--probe"); });
  if (!in_script || spec.detach || of_doctor) {
    return;
  }
  const std::optional<BatchPlace> place = PlaceOf(spec);
  const std::string notice = place.has_value() ? BatchNotice(*place) : "";
  if (!notice.empty() && !WasTold(KeyOf(spec))) {
    LogInfo(notice);
  }
}

}  // namespace muster
