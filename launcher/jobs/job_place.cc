#include "launcher/jobs/job_place.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

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

absl::Status MakeFolders(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return CannotKeepAt(folder, errno);
    }
    if (slash == std::string::npos) {
      return absl::OkStatus();
    }
  }
}

// `place` without links, which others could turn elsewhere. Nobody else may put folders there, or
// take it or ours away. NotFound: there is none.
absl::StatusOr<std::string> OwnPlace(const std::string& place) {
  const std::unique_ptr<char, void (*)(void*)> path(realpath(place.c_str(), nullptr), free);
  if (path == nullptr) {
    return absl::NotFoundError(absl::StrCat(place, ": ", std::strerror(errno)));
  }
  std::string folder = path.get();
  for (int above = 0; !folder.empty(); ++above, folder.resize(folder.rfind('/'))) {
    struct stat info {};
    const bool there = stat(folder.c_str(), &info) == 0;
    const bool ours = info.st_uid == geteuid();
    const bool trusted = ours || info.st_uid == 0;
    const bool all_may_write = (info.st_mode & S_IWOTH) != 0;
    const bool good = above == 0   ? ours && (info.st_mode & 022) == 0
                      : above == 1 ? trusted && (!all_may_write || (info.st_mode & S_ISVTX) != 0)
                                   : !all_may_write || (trusted && (info.st_mode & S_ISVTX) != 0);
    if (!there || !good) {
      return absl::FailedPreconditionError(
          absl::StrCat(folder, " belongs to another user, or others may write there: set ",
                       "XDG_RUNTIME_DIR to a folder that only you may write"));
    }
  }
  return path.get();
}

}  // namespace

absl::Status CannotKeepAt(const std::string& folder, int error) {
  return absl::FailedPreconditionError(
      absl::StrCat("--detach: the job's output cannot be kept at ", folder, ": ",
                   std::strerror(error), ": set XDG_RUNTIME_DIR to a folder that you may write"));
}

absl::StatusOr<std::string> MakeJobPlace() {
  ASSIGN_OR_RETURN(const std::string wanted, PlaceForNewJob());
  RETURN_IF_ERROR(MakeFolders(wanted));
  absl::StatusOr<std::string> place = OwnPlace(wanted);
  if (!place.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("--detach: ", place.status().message()));
  }
  return place;
}

std::set<std::string> JobPlaces() {
  // One's jobs are the same from cron, say, where the variable is not set.
  const std::string runtime = RuntimePlace();
  static std::set<std::string> told;  // a command looks more than once
  std::set<std::string> out;
  for (const std::string& name :
       {runtime.empty() ? absl::StrCat("/run/user/", geteuid(), "/muster/jobs") : runtime,
        StatePlace()}) {
    const absl::StatusOr<std::string> place = OwnPlace(name);
    if (place.ok()) {
      out.insert(*place);
    } else if (!absl::IsNotFound(place.status()) && told.insert(name).second) {
      LogWarning(absl::StrCat("jobs kept in ", name, " are left out: ", place.status().message()));
    }
  }
  return out;
}

}  // namespace muster
