// How an option is found by what the user typed, and what was meant where there is none.
#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/ascii.h"
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
  absl::string_view names;  // between spaces
  absl::string_view here;
};
constexpr Habit kHabits[] = {
    {"-N",
     "it means workers per node to mpirun and nodes to srun: say --nproc-per-node or --nnodes"},
    {"-c", "mpirun's is -n N; for srun's, OMP_NUM_THREADS follows from the CPUs of each worker"},
    {"--cpus-per-task",
     "OMP_NUM_THREADS follows from the CPUs of each worker; set it with -x OMP_NUM_THREADS=N"},
    {"-w --nodelist",
     "hosts are given with --hosts, over ssh; in a job of Slurm's, --nnodes and --exclude take "
     "some of its nodes"},
    {"--multi-prog", "say --configfile FILE, or 'launch -n 1 ./a : -n 3 ./b'"},
    {"-s", "say --stdin RANK|all|none"},
    {"-path --path", "say -x PATH=FOLDER:$PATH"},
    {"--nodes", "the number of nodes is --nnodes"},
    {"--export", "say -x NAME or -x NAME=VALUE, once for each"},
    {"--output", "say --tag-output, --timestamps, --log-dir DIR or --output-filename DIR"},
    {"--cpu-bind --hint --threads-per-core",
     "--bind-to none, core, hwthread, numa ... says where workers run"},
    {"--bynode -bynode --map-by-node -rr -grr", "say --map-by node"},
    {"--bycore -bycore --byslot -byslot", "ranks fill the hosts in order: leave it out"},
    {"--bind-to-core -bind-to-core", "say --bind-to core"},
    {"--bind-to-socket -bind-to-socket", "say --bind-to socket"},
    {"--npersocket -npersocket --npernuma", "say --nproc-per-node N, and --bind-to socket or numa"},
    {"--get-stack-traces", "say --report-state-on-timeout, which names who still ran"},
    {"--hetero-nodes -info -localhost -trace", "leave it out"},
    {"-tv -totalview", "start the debugger on launch itself, or say --gdb RANK"},
    {"-print-rank-map", "say --plan, which shows where ranks go without starting them"},
    {"-tune", "its settings are the MPI library's own: leave it out, or set I_MPI_... variables"},
    {"-output-proxy", "say --verbose"},
    {"-rankmap", "say --rankfile FILE, with a line 'rank 0=HOST' for each rank"},
    {"-order-nodes", "give the hosts in the order you want: --hosts a,b"},
    {"--nolocal -skip-launch-node", "name this machine with --exclude"},
    {"--pernode -pernode", "say --nproc-per-node 1"},
    {"--set-env", "say -x NAME=VALUE"},
    {"--output-directory", "say --output-filename DIR"},
    {"-output-from", "say --show RANKS"},
    {"-gwdir --gwdir", "say -wdir FOLDER"},
    {"-am --am", "say --mca KEY VALUE, or export OMPI_MCA_KEY=VALUE"},
    {"-d --debug-devel --debug-daemons --debug-daemons-file --leave-session-attached",
     "say --verbose"},
    {"--display-devel-map --display-devel-allocation --display-topo", "say --plan"},
    {"--xterm -xterm", "say --gdb RANK, or --wrap 'RANK:xterm -e'"},
    {"--merge-stderr-to-stdout -merge-stderr-to-stdout", "say 2>&1 behind the command"},
    {"-prepend-pattern", "say --log-prefix TEMPLATE"},
    {"--kill-on-bad-exit -K",
     "a failure ends the job anyway, unless --on-failure=continue is given"},
    {"--preload-binary", "the program must lie at the same path on every node: copy it first"},
    {"--preload-files", "files must lie at the same path on every node: copy them first"},
    {"--tune", "its settings are Open MPI's own: leave it out, or set OMPI_MCA_... with -x"},
    {"-rsh", "--ssh names the program"},
    {"--num-processes", "say -n N for workers in all, or --nproc-per-node N"},
    {"--num-machines --num-nodes", "the number of nodes is --nnodes"},
    {"--num-gpus", "say --nproc-per-node N"},
    {"--multi-gpu", "say --nproc-per-node gpu"},
    {"--machine-rank", "say --node-rank N"},
    {"--main-process-ip", "say --master-addr HOST"},
    {"--main-process-port", "say --master-port PORT"},
    {"--mixed-precision --dynamo-backend --config-file --use-deepspeed --use-fsdp",
     "that is for accelerate's own launcher: give it to Accelerator() in the script"},
    {"--min-np --max-np", "say --nnodes MIN:MAX"},
    {"--gloo", "say --dialect horovod, which has Horovod's gloo controller"},
    {"--include", "name the hosts: --hosts a,b"},
    {"--use-env", "that is always so: leave it out"},
    {"-o", "say > FILE behind the command, or --outfile-pattern FILE with %r in it for each rank"},
    {"-e --error",
     "say 2> FILE behind the command, or --errfile-pattern FILE with %r in it for each rank"},
    {"-i --input", "say < FILE behind the command, and --stdin RANK|all|none for who reads it"},
    {"-D", "say --wdir DIR"},
    {"-W --wait", "the job goes on when ranks end well, and ends when one fails: leave it out"},
    {"-u --unbuffered", "Python writes at once anyway; put stdbuf -oL in front of another program"},
    {"-J --job-name", "say --name NAME"},
    {"--distribution", "--map-by, --rankfile or the order of --hosts say which rank runs where"},
    {"--gpus-per-task", "say --gpus-per-proc N"},
    {"--overlap --exact", "it is about Slurm's steps, which launch asks for itself: leave it out"},
    {"--het-group",
     "launch uses all components of the job; --hosts or --exclude choose among their nodes"},
    {"--time", "give it to sbatch, salloc or qsub; --timeout ends this launch sooner"},
    {"--signal", "it is about the warning before a job's end: give it to sbatch or salloc"},
    {"-p --partition -A --account --qos --mem --exclusive --constraint --array "
     "--gres -G --gpus --gpus-per-node",
     "it says what a job gets, and launch uses what it got: give it to sbatch, salloc or qsub"},
};

bool IsAmong(absl::string_view names, absl::string_view name) {
  for (const absl::string_view one : absl::StrSplit(names, ' ')) {
    if (one == name) {
      return true;
    }
  }
  return false;
}

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
    if (IsAmong(row.names, wanted)) {
      return &row;
    }
  }
  // mpirun's long options may have one dash.
  const bool one_dash = name.size() > 2 && name[0] == '-' && name[1] != '-';
  return one_dash ? FindOption(absl::StrCat("-", name)) : nullptr;
}

size_t ValuesBehind(const OptionRow& row, absl::string_view next) {
  switch (row.kind) {
    case ArgumentKind::kNone:
    case ArgumentKind::kOptional:
      return 0;
    case ArgumentKind::kRequired:
      return 1;
    case ArgumentKind::kTwoWords:
      return row.id == OptionId::kSetEnvPair && absl::StrContains(next, '=') ? 1 : 2;
  }
  return 0;
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
  std::string wanted = Dashes(name);
  if (wanted.size() > 2 && wanted[0] == '-' &&
      absl::ascii_isdigit(static_cast<uint8_t>(wanted[2]))) {
    wanted.resize(2);  // -N2
  }
  for (const Habit& habit : kHabits) {
    if (IsAmong(habit.names, wanted)) {
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
      const absl::string_view begin = known.substr(0, wanted.size());
      const bool abbreviated = wanted.size() > 4 && begin == wanted;  // --nproc
      const size_t whole = abbreviated ? 1 : EditDistance(wanted, known);
      const size_t distance =  // --nporc
          wanted.size() > 6 ? std::min(whole, EditDistance(wanted, begin)) : whole;
      if (distance <= allowed && distance < best) {
        best = distance;
        nearest = std::string(known);
      }
    }
  }
  return best == kNever ? "" : absl::StrCat("; did you mean ", nearest, "?");
}

}  // namespace muster
