#include "agent/io/spawn_words.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "agent/core/exec_hint.h"

namespace muster {
namespace {

// Of the first file that was to be run and is there.
FileKind KindOf(const SpawnRequest& request) {
  for (const char* const candidate : request.candidates) {
    const bool is_relative = *candidate != '/' && request.wdir != nullptr && *request.wdir != '\0';
    const std::string path =
        is_relative ? absl::StrCat(request.wdir, "/", candidate) : std::string(candidate);
    struct stat is = {};
    if (stat(path.c_str(), &is) == 0) {
      return S_ISDIR(is.st_mode) ? FileKind::kFolder : FileKind::kFile;
    }
  }
  return FileKind::kNone;
}

}  // namespace

// On the node of this worker; launch's own folder is where nothing else is asked for.
constexpr absl::string_view kNoFolderHint =
    " on this node; --wdir DIR names one that is there, --ship FILE brings the program along";

std::string WhyNot(const SpawnRequest& request, const SpawnResult& failed) {
  const absl::string_view step = failed.step;
  const bool is_exec = step == "exec";
  const char* const object = step == "chdir"  ? request.wdir
                             : is_exec        ? request.argv[0]
                             : step == "hold" ? "a process for the debugger"
                             : step == "PMI"  ? "descriptor of a process"
                             : step == "bind" ? "a process to its CPUs or memory"
                                              : "a process";
  return absl::StrCat(
      step, " ", object, ": ", std::strerror(failed.error),
      is_exec                                     ? ExecHint(object, failed.error, KindOf(request))
      : step == "chdir" && failed.error == ENOENT ? kNoFolderHint
      : step == "PMI" && failed.error == EBADF
          ? "; this node allows no descriptor of number 102 (PMI_FD): raise `ulimit -n` to 128"
          : "");
}

}  // namespace muster
