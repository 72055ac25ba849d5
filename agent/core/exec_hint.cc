#include "agent/core/exec_hint.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "absl/strings/match.h"

namespace muster {
namespace {

constexpr absl::string_view kBlanks = " \t\n";
constexpr absl::string_view kShellWords = "$|&;<>*`'\"";
// As other tools call what launch does with a job of its own.
constexpr absl::string_view kJobWords[] = {"status", "list",  "jobs",   "ls",   "show",
                                           "top",    "queue", "cancel", "kill", "signal"};

}  // namespace

std::string ExecHint(absl::string_view program, int error, FileKind there) {
  const bool is_missing = error == ENOENT && there == FileKind::kNone;
  if (is_missing && program.find_first_of(kShellWords) != absl::string_view::npos) {
    return "; words for a shell go behind one, as in: bash -c 'echo $RANK'";
  }
  if (is_missing && program.find_first_of(kBlanks) != absl::string_view::npos) {
    return "; that is one word, blanks and all: a program and its arguments are words of their "
           "own (no quotes around them)";
  }
  if (is_missing &&
      std::find(std::begin(kJobWords), std::end(kJobWords), program) != std::end(kJobWords)) {
    return "; as a command of launch's there is none either: 'launch ps' lists detached jobs, "
           "launch attach, logs, stop and restart take one of them";
  }
  if (is_missing && !absl::StrContains(program, '/')) {
    return "; no folder of its PATH has it (./ in front where it is in the working folder)";
  }
  if (is_missing) {
    return "; is it on that node? --wdir names the folder it starts in, --ship sends it there";
  }
  if (error == ENOENT) {
    return "; it is there, and what runs it is not: see the interpreter that its first line or "
           "`file` names";
  }
  if (error == EACCES && there == FileKind::kFolder) {
    return "; it is a folder";
  }
  return error == EACCES && there == FileKind::kFile
             ? "; chmod +x makes it a program, where its file system allows that"
             : "";
}

}  // namespace muster
