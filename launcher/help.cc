#include "launcher/help.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "launcher/options.h"
#include "proto/base/build_info.h"

namespace muster {
namespace {

constexpr size_t kIndent = 2;
constexpr size_t kLeftWidth = 27;  // names and value; longer ones get a line of their own

struct Example {
  absl::string_view command;
  absl::string_view says;
};
constexpr Example kExamples[] = {
    {"launch --nproc-per-node 4 train.py",
     "4 workers on this machine; each finds its RANK, WORLD_SIZE, MASTER_ADDR ..."},
    {"launch --hosts node0,node1 --nproc-per-node 16 train.py --lr 0.1",
     "16 on each of two machines over ssh; in a Slurm or PBS job, leave --hosts out"},
    {"launch --nnodes 2 --nproc-per-node 16 train.py",
     "the same without ssh: prints the line to type on the other machine, and waits for it"},
    {"launch --nnodes 2 --nproc-per-node 16 --rdzv-endpoint node0:29400 train.py",
     "the same, typed on both machines in any order, as with torchrun"},
    {"launch --standalone --nnodes 2 --nproc-per-node 2 train.py", "try two nodes on one machine"},
    {"launch --plan --hosts a:4,b:4 -n 1 ./server : -n 5 -x LR=0.1 ./worker",
     "by slots, as with mpirun: rank 0 on a runs one program, 1-5 another; --plan only shows it"},
};

constexpr absl::string_view kAfter =
    "PROGRAM.py is run with python3 -u ($PYTHON_EXEC if set); a word ':' begins another program.";
constexpr absl::string_view kSeveral =
    "Each of several programs says how many workers it has (-n), and "
    "may have --hosts, -x, --wdir and -m of its own; what holds for the whole job, -genv too, "
    "stands before the first one. A program that needs ':' as an argument gets it from a job file.";
constexpr absl::string_view kExit =
    "0 if all workers ended with 0; else the first cause's: the worker's own, 128 + signal, 127 "
    "not "
    "found, 126 not executable, 124 time limit, 130/143 stopped, 1 never formed or node lost, 2 "
    "usage.";
constexpr absl::string_view kCompare =
    "torchrun's options mean what they mean there, with dashes or underscores, and read PET_NAME "
    "where the command "
    "line is silent. -n, -ppn, --hosts and host files are read as mpirun and mpiexec read them: a "
    "host without a count "
    "has one slot; in a host file that gives slots= on other lines, as many as it has CPUs. More "
    "workers than slots want --oversubscribe, but not with mpiexec's own -hosts and -f. With "
    "--nproc-per-node slots "
    "do not matter.";
constexpr absl::string_view kTorchrun =
    "Called by the name torchrun (a link), or as 'python -m muster.run', launch does also what "
    "torchrun does without being told: PROGRAM is a Python script whatever its name, on one node, "
    "lines have no prefix, --nproc is enough of --nproc-per-node; launch's own options go with it.";

// About jobs of --detach; JOB is an id, the beginning of one, or a name.
constexpr Example kJobCommands[] = {
    {"launch ps [-a] [JOB]", "list them; -a also those that have ended"},
    {"launch attach [-n N] JOB", "show its output from now on (--since: from then on)"},
    {"launch logs [-f] [-n N] JOB", "what it has printed, also after its end (--since 10m)"},
    {"launch stop [--now] JOB", "stop it, as Ctrl-C would"},
    {"launch restart [JOB]", "start all its workers again, free of charge"},
    {"launch chaos WHAT", "kill a worker, freeze or cut off a node: a drill"},
};

constexpr Example kDoctor = {"launch doctor [--json] [OPTIONS] [PROGRAM]",
                             "look at the nodes of a job: names, network, clocks, limits, GPUs, "
                             "versions, and what to do about what is wrong"};

constexpr Example kSweep = {"launch sweep --nproc-per-node LIST ...",
                            "try numbers of workers and bindings for some seconds each, and say "
                            "which is best"};

class Writer {
 public:
  explicit Writer(bool colour) : colour_(colour) {}

  void Heading(absl::string_view text) {
    absl::StrAppend(&out_, "\n", colour_ ? "\x1b[1m" : "", text, colour_ ? "\x1b[0m" : "", "\n");
  }

  // `left` in its column, `text` wrapped in the one behind it.
  void Row(absl::string_view left, absl::string_view text, size_t column) {
    std::string line = left.empty() ? "" : absl::StrCat(std::string(kIndent, ' '), left);
    if (line.size() + 2 > column) {
      absl::StrAppend(&out_, line, "\n");
      line.clear();
    }
    for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
      const bool fresh = line.size() <= column;
      if (!fresh && line.size() + 1 + word.size() > kHelpWidth) {
        absl::StrAppend(&out_, line, "\n");
        line.clear();
      }
      if (line.size() < column) {
        line.resize(column, ' ');
        absl::StrAppend(&line, word);
      } else {
        absl::StrAppend(&line, line.size() == column ? "" : " ", word);
      }
    }
    absl::StrAppend(&out_, line, line.empty() ? "" : "\n");
  }

  void Text(absl::string_view text) { absl::StrAppend(&out_, text); }
  std::string Take() { return std::move(out_); }

 private:
  const bool colour_;
  std::string out_;
};

absl::string_view Bare(absl::string_view name) {
  return absl::StripPrefix(absl::StripPrefix(name, "-"), "-");
}

std::string Names(const OptionRow& row, bool all) {
  std::vector<absl::string_view> names = absl::StrSplit(row.names, ' ');
  const absl::string_view value = row.value_name;
  if (!all) {  // the second name only where it is another word, and finds room
    const bool two = names.size() > 1 && Bare(names[1]) != Bare(names[0]) &&
                     names[0].size() + names[1].size() + value.size() + 6 < kLeftWidth;
    names.resize(two ? 2 : 1);
  }
  const absl::string_view between = value.empty()                         ? ""
                                    : row.kind == ArgumentKind::kOptional ? "[="
                                                                          : " ";
  return absl::StrCat(absl::StrJoin(names, ", "), between, value, between == "[=" ? "]" : "");
}

}  // namespace

std::string HelpText(bool all, bool colour) {
  Writer writer(colour);
  writer.Text(
      "launch [OPTIONS] PROGRAM [ARGUMENTS]    start a program on one machine or many, and keep it "
      "running\n");
  writer.Heading("Examples");
  for (const Example& example : kExamples) {
    writer.Row(example.command, "", 0);
    writer.Row("", example.says, 3 * kIndent);
  }
  absl::string_view group;
  for (const OptionRow& row : OptionTable()) {
    if (!all && !row.common) {
      continue;
    }
    if (group != row.group) {
      group = row.group;
      writer.Heading(group);
    }
    std::string help =
        row.set == nullptr ? absl::StrCat("accepted without effect: ", row.help) : row.help;
    if (row.id == OptionId::kMpi && !BuiltWithPmix()) {
      absl::StrAppend(&help, " (this build has no pmix)");
    }
    if (all && row.environment[0] != '\0') {
      absl::StrAppend(&help, " [", row.environment, "]");
    }
    writer.Row(Names(row, all), help, kIndent + kLeftWidth);
  }
  writer.Heading("Program");
  writer.Row("", kAfter, kIndent);
  if (all) {
    writer.Row("", kSeveral, kIndent);
  }
  writer.Heading("Exit status");
  writer.Row("", kExit, kIndent);
  if (all) {
    writer.Heading("When something is wrong with the nodes ('launch doctor --help' says more)");
    writer.Row(kDoctor.command, kDoctor.says, kIndent + kLeftWidth + 2);
    writer.Heading("How many workers, and bound how ('launch sweep --help' says more)");
    writer.Row(kSweep.command, kSweep.says, kIndent + kLeftWidth + 2);
    writer.Heading("Detached jobs ('launch ps --help' and so on say more)");
    for (const Example& command : kJobCommands) {
      writer.Row(command.command, command.says, kIndent + kLeftWidth + 2);
    }
    writer.Heading("Coming from torchrun, mpirun or mpiexec");
    writer.Row("", kCompare, kIndent);
    writer.Row("", kTorchrun, kIndent);
  }
  return writer.Take();
}

std::string VersionText() { return absl::StrCat("launch ", BuildName(), "\n"); }

}  // namespace muster
