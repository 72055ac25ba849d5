#include "launcher/tail_hint.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

struct Remedy {
  absl::string_view said;  // all of these
  absl::string_view with;
  absl::string_view hint;
};

// The words of Python's argparse and import system, of libc's strerror and torch's TCPStore.
constexpr Remedy kRemedies[] = {
    {"arguments are required", "--local_rank",
     "it wants --local_rank: `launch ... --fill SCRIPT ... --local_rank={local_rank}` fills it in "
     "(or the script reads LOCAL_RANK)"},
    {"arguments are required", "--local-rank",
     "it wants --local-rank: `launch ... --fill SCRIPT ... --local-rank={local_rank}` fills it in "
     "(or the script reads LOCAL_RANK)"},
    {"ModuleNotFoundError", "No module named",
     "if another Python has that module, PYTHON_EXEC=/path/to/python launch ... runs the script "
     "with it"},
    {"Unable to write to PMI_fd", "",
     "its MPICH does not reach the agent: what has started it has closed PMI_FD (Python's "
     "subprocess does, unless close_fds=False), or is a worker's second program with MPI. --mpi "
     "none if each is to be a world of its own"},
    {"OPAL ERROR: Unreachable in file", "",
     "its Open MPI found no PMIx server: --mpi pmix serves it, --mpi none if each is to be a world "
     "of its own"},
    {"ddress already in use", "",
     "a port that a program chooses itself may be another's: MASTER_PORT, which launch gives, is "
     "kept free for it"},
};

// Where Debian's own python3 looks by itself, and a virtual environment must not be told to.
constexpr absl::string_view kDebians = "/usr/lib/python3/dist-packages";

std::string PackageHint(absl::string_view python_dir) {
  constexpr absl::string_view kWheel =
      "`pip install --no-index PREFIX/share/muster/muster-*.whl` puts it into a virtual "
      "environment";
  return python_dir.empty() || python_dir == kDebians
             ? absl::StrCat("this Python has no package of Muster: ", kWheel)
             : absl::StrCat("this Python does not know where Muster's package is: PYTHONPATH=",
                            python_dir, " launch ... tells it, or ", kWheel);
}

}  // namespace

std::string TailHint(absl::string_view stderr_tail, absl::string_view python_dir) {
  if (absl::StrContains(stderr_tail, "No module named 'muster")) {
    return PackageHint(python_dir);
  }
  const auto found =
      std::find_if(std::begin(kRemedies), std::end(kRemedies), [&](const Remedy& remedy) {
        return absl::StrContains(stderr_tail, remedy.said) &&
               absl::StrContains(stderr_tail, remedy.with);
      });
  return found == std::end(kRemedies) ? "" : std::string(found->hint);
}

}  // namespace muster
