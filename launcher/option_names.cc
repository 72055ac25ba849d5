// How an option is found by what the user typed, and what was meant where there is none.
#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "launcher/job_file.h"
#include "launcher/option_values.h"
#include "launcher/options.h"

namespace muster {
namespace {

// What people type out of habit, and what it is called here.
struct Habit {
  absl::string_view name;
  absl::string_view here;
};
constexpr absl::string_view kOfTheAllocation =
    "it says what a job gets, and launch uses what it got: give it to sbatch, salloc or qsub";
constexpr absl::string_view kOfAStep =
    "it is about Slurm's steps, which launch asks for itself: leave it out";
constexpr Habit kHabits[] = {
    {"-N",
     "it means workers per node to mpirun and nodes to srun: say --nproc-per-node or --nnodes"},
    {"-c", "say --nproc-per-node for workers; OMP_NUM_THREADS follows from the CPUs of each"},
    {"--cpus-per-task",
     "OMP_NUM_THREADS follows from the CPUs of each worker; set it with -x OMP_NUM_THREADS=N"},
    {"-w", "hosts are given with --hosts"},
    {"--nodelist", "hosts are given with --hosts"},
    {"--nodes", "the number of nodes is --nnodes"},
    {"--export", "say -x NAME or -x NAME=VALUE, once for each"},
    {"--output", "say --tag-output, --timestamps, --log-dir DIR or --output-filename DIR"},
    {"--cpu-bind", "--bind-to none, core, numa ... says where workers run"},
    {"-rankmap", "say --rankfile FILE, with a line 'rank 0=HOST' for each rank"},
    {"-order-nodes", "give the hosts in the order you want: --hosts a,b"},
    {"--nolocal", "name this machine with --exclude"},
    {"-skip-launch-node", "name this machine with --exclude"},
    {"--pernode", "say --nproc-per-node 1"},
    {"-pernode", "say --nproc-per-node 1"},
    {"--set-env", "say -x NAME=VALUE"},
    {"--output-directory", "say --output-filename DIR"},
    {"-output-from", "say --show RANKS"},
    {"--merge-stderr-to-stdout", "say 2>&1 behind the command"},
    {"-prepend-pattern", "say --log-prefix TEMPLATE"},
    {"--kill-on-bad-exit", "a failure ends the job anyway, unless --on-failure=continue is given"},
    {"--preload-binary", "the program must lie at the same path on every node: copy it first"},
    {"--preload-files", "files must lie at the same path on every node: copy them first"},
    {"--tune", "its settings are Open MPI's own: leave it out, or set OMPI_MCA_... with -x"},
    {"-rsh", "--ssh names the program"},
    {"--use-env", "that is always so: leave it out"},
    // srun's, whose users find themselves in its place
    {"-o", "say -r 3 --log-dir DIR, or --outfile-pattern FILE with %r for the rank"},
    {"-e", "say -r 3 --log-dir DIR, or --errfile-pattern FILE with %r for the rank"},
    {"--error", "say -r 3 --log-dir DIR, or --errfile-pattern FILE with %r for the rank"},
    {"-i", "say --stdin RANK|all|none for who reads launch's own, as in: launch ... < FILE"},
    {"--input", "say --stdin RANK|all|none for who reads launch's own, as in: launch ... < FILE"},
    {"-D", "say --wdir DIR"},
    {"-K", "a failure ends the job anyway, unless --on-failure=continue is given"},
    {"-W", "the job goes on when ranks end well, and ends when one fails: leave it out"},
    {"--wait", "the job goes on when ranks end well, and ends when one fails: leave it out"},
    {"-u", "Python writes at once anyway; put stdbuf -oL in front of another program"},
    {"--unbuffered", "Python writes at once anyway; put stdbuf -oL in front of another program"},
    {"-J", "say --name NAME"},
    {"--job-name", "say --name NAME"},
    {"--distribution", "--map-by, --rankfile or the order of --hosts say which rank runs where"},
    {"--hint", "--bind-to core, hwthread ... says where workers run"},
    {"--threads-per-core", "--bind-to core, hwthread ... says where workers run"},
    {"--gpus-per-task", "say --gpus-per-proc N"},
    {"--overlap", kOfAStep},
    {"--exact", kOfAStep},
    {"--het-group",
     "launch uses all components of the job; --hosts or --exclude choose among their nodes"},
    {"-p", kOfTheAllocation},
    {"--partition", kOfTheAllocation},
    {"-A", kOfTheAllocation},
    {"--account", kOfTheAllocation},
    {"--qos", kOfTheAllocation},
    {"--time",
     "it says how long a job may run: give it to sbatch or salloc; --timeout ends this launch "
     "sooner"},
    {"--mem", kOfTheAllocation},
    {"--exclusive", kOfTheAllocation},
    {"--constraint", kOfTheAllocation},
    {"--array", kOfTheAllocation},
    {"--gres", kOfTheAllocation},
    {"-G", kOfTheAllocation},
    {"--gpus", kOfTheAllocation},
    {"--gpus-per-node", kOfTheAllocation},
    {"--signal", kOfTheAllocation},
};

std::string Dashes(absl::string_view name) {  // --nproc_per_node is --nproc-per-node
  std::string out(name);
  if (absl::StartsWith(name, "--")) {
    std::replace(out.begin(), out.end(), '_', '-');
  }
  return out;
}

}  // namespace

const OptionRow* FindOption(absl::string_view name) {
  const std::string wanted = Dashes(name);
  for (const OptionRow& row : OptionTable()) {
    for (absl::string_view known : absl::StrSplit(row.names, ' ')) {
      if (known == wanted) {
        return &row;
      }
    }
  }
  return nullptr;
}

std::string UndoName(OptionId id) {
  if (OptionOf(id).kind != ArgumentKind::kNone || !MayBeInJobFile(id)) {
    return "";
  }
  const std::string key = JobFileKey(id);
  absl::string_view rest = key;
  if (!absl::ConsumePrefix(&rest, "no-")) {
    return absl::StrCat("--no-", key);
  }
  const std::string plain = absl::StrCat("--", rest);
  return FindOption(plain) == nullptr ? plain : std::string("--label");
}

const OptionRow* FindUndone(absl::string_view name) {
  const std::string wanted = Dashes(name);
  absl::string_view rest = wanted;
  const bool negated = absl::ConsumePrefix(&rest, "--no-");
  if (FindOption(wanted) != nullptr || (!negated && !absl::ConsumePrefix(&rest, "--"))) {
    return nullptr;
  }
  const OptionRow* row = FindOption(absl::StrCat(negated ? "--" : "--no-", rest));
  const bool undoes =
      row != nullptr && !UndoName(row->id).empty() && (negated || UndoName(row->id) == wanted);
  return undoes ? row : nullptr;
}

std::string OptionHint(absl::string_view name) {
  const std::string wanted = Dashes(name);
  for (const Habit& habit : kHabits) {
    if (habit.name == wanted) {
      return absl::StrCat("; ", habit.here);
    }
  }
  constexpr size_t kNever = 1000;
  size_t best = kNever;
  std::string nearest;
  for (const OptionRow& row : OptionTable()) {
    for (absl::string_view known : absl::StrSplit(row.names, ' ')) {
      if (known.size() < 4 || wanted.size() < 4) {
        continue;  // one letter is near to everything
      }
      const size_t allowed = std::max<size_t>(1, wanted.size() / 4);
      if (wanted.size() > known.size() + allowed) {
        continue;  // known before the work is done, which a long word makes long
      }
      const bool abbreviated = wanted.size() > 4 && absl::StartsWith(known, wanted);  // --nproc
      const size_t distance = abbreviated ? 1 : EditDistance(wanted, known);
      if (distance <= allowed && distance < best) {
        best = distance;
        nearest = std::string(known);
      }
    }
  }
  return best == kNever ? "" : absl::StrCat("; did you mean ", nearest, "?");
}

}  // namespace muster
