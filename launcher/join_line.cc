#include "launcher/join_line.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/options.h"
#include "launcher/programs.h"
#include "launcher/resolve.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr absl::string_view kIsHost = "is_host";

// Options that the other node must not, or need not, be given.
bool StaysHere(const OptionRow& row) {
  switch (row.id) {
    case OptionId::kConfigLines:
    case OptionId::kNodeRank:
    case OptionId::kSetEnvPair:  // said with -x
    case OptionId::kEnvList:
    case OptionId::kMapBy:  // what it says of nodes is said with -ppn
    case OptionId::kMpiSetting:
    case OptionId::kLauncher:
    case OptionId::kRankBy:
    case OptionId::kServe:
    case OptionId::kJournal:
    case OptionId::kLocalAddr:
    case OptionId::kReport:
    case OptionId::kReportState:
    case OptionId::kDetach:  // each node as its user likes
    case OptionId::kName:
    case OptionId::kJobLog:
    case OptionId::kRdzvEndpoint:
    case OptionId::kSsh:  // nothing is started over ssh
    case OptionId::kSshArgs:
      return true;
    default:
      return row.set == nullptr;
  }
}

// --rdzv-conf without what it says about this node; "" = nothing is left.
std::string Conf(const JobSpec& spec) {
  std::vector<std::string> pairs;
  for (const auto& [key, value] : spec.rendezvous.conf) {
    if (key != kIsHost) {
      pairs.push_back(absl::StrCat(key, "=", value));
    }
  }
  return absl::StrJoin(pairs, ",");
}

std::vector<std::string> ValuesThere(const JobSpec& spec, OptionId id) {
  if (id == OptionId::kRdzvConf) {
    const std::string conf = Conf(spec);
    return conf.empty() ? std::vector<std::string>() : std::vector<std::string>{conf};
  }
  return ValuesOf(spec, id);
}

void AddOption(const OptionRow& row, const std::string& value, std::vector<std::string>& words) {
  const std::string name(OptionName(row.id));
  if (row.kind == ArgumentKind::kNone) {
    words.push_back(name);
  } else if (absl::StartsWith(value, "-")) {  // else it may be taken for an option
    words.push_back(absl::StrCat(name, "=", value));
  } else {
    words.push_back(name);
    words.push_back(value);
  }
}

void AddNodeRank(const JobSpec& spec, std::vector<std::string>& words) {
  const auto counts = WorkersByNode(spec);
  if (!counts.ok() || counts->front() == counts->back()) {
    return;
  }
  words.emplace_back(OptionName(OptionId::kNodeRank));
  words.push_back(spec.nodes_max == 2 ? "1" : absl::StrCat("1..", spec.nodes_max - 1));
}

void AddOptions(const JobSpec& spec, std::vector<std::string>& words) {
  for (const OptionRow& row : OptionTable()) {
    // The options of a job file are given one by one; single nodes only it can name.
    const bool said_one_by_one = row.id == OptionId::kConfig && spec.node_overrides.empty();
    const CpuBinding& binding = spec.plan.binding;
    const bool within_node = row.id == OptionId::kMapBy &&
                             (binding.map_by != MapBy::kAuto || binding.cores_per_worker > 0);
    if (!spec.Has(row.id) || (StaysHere(row) && !within_node) || said_one_by_one) {
      continue;
    }
    for (const std::string& value : ValuesThere(spec, row.id)) {
      AddOption(row, value, words);
    }
  }
}

// What the file of --config says there as well, and the command line undoes.
void AddUndone(const JobSpec& spec, std::vector<std::string>& words) {
  for (const auto& [id, name] : spec.undone) {
    if (!spec.node_overrides.empty() && !StaysHere(OptionOf(id))) {
      words.push_back(name);
    }
  }
}

void AddCommand(const JobSpec& spec, std::vector<std::string>& words) {
  if (absl::StartsWith(spec.program, "-")) {
    words.emplace_back("--");
  }
  words.push_back(spec.program);
  words.insert(words.end(), spec.arguments.begin(), spec.arguments.end());
}

// PYTHON_EXEC of this node, where it runs the script: "PYTHON_EXEC=/v/bin/python ".
std::string PythonThere(const JobSpec& spec) {
  const std::vector<std::string>& argv = spec.plan.argv;
  return argv.empty() || argv.front() == spec.program || argv.front() == "python3"
             ? ""
             : absl::StrCat("PYTHON_EXEC=", ShellQuote(argv.front()), " ");
}

}  // namespace

std::string JoinLine(const JobSpec& spec, const std::string& endpoint) {
  std::vector<std::string> words = {spec.launch_path};
  AddOptions(spec, words);
  AddUndone(spec, words);
  AddNodeRank(spec, words);
  words.emplace_back(OptionName(OptionId::kRdzvEndpoint));
  words.push_back(endpoint);
  AddCommand(spec, words);
  for (const JobSpec& program : spec.further) {
    words.emplace_back(":");
    AddOptions(program, words);
    AddCommand(program, words);
  }
  return PythonThere(spec) +
         absl::StrJoin(words, " ", [](std::string* out, const std::string& word) {
           out->append(ShellQuote(word));
         });
}

}  // namespace muster
