#include "launcher/mpi_options.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/binding_options.h"
#include "launcher/option_setters.h"
#include "launcher/option_values.h"
#include "proto/base/build_info.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

// As if it had been said with -x, which is how the line for another node says it.
absl::Status Forward(const OptionValue& v, const std::string& text, JobSpec& s) {
  RETURN_IF_ERROR(AddForward({v.name, text}, s));
  if (absl::StartsWith(v.name, "-genv")) {
    // What a program has of its own (-env, -x) wins, in front of it or behind.
    std::rotate(s.forward.begin() + static_cast<ptrdiff_t>(s.forward_to_all.size()),
                s.forward.end() - 1, s.forward.end());
    s.forward_to_all.push_back(text);
  }
  s.given.insert({OptionId::kSetEnv, Given{false, std::string(v.name), text, ""}});
  return absl::OkStatus();
}

// What fills a node before it goes on to the next one, at any width within the node.
constexpr absl::string_view kInOrder[] = {"slot",    "fill",    "core",    "hwthread",
                                          "socket",  "package", "numa",    "board",
                                          "l1cache", "l2cache", "l3cache", "l4cache"};

bool FillsInOrder(absl::string_view how) {
  return std::find(std::begin(kInOrder), std::end(kInOrder), how) != std::end(kInOrder);
}

absl::Status NoSuchOrder(const OptionValue& v) {
  return absl::InvalidArgumentError(absl::StrCat(
      v.name, " ", v.text, ": ranks fill the hosts in order (--hosts a:2,b:2), or go to one after ",
      "the other in turn (--map-by node); any other place of each says --rankfile FILE"));
}

}  // namespace

void GoRoundAgain(const OptionValue& v, JobSpec& s) {
  if (v.name == "-hosts" || v.name == "-f") {
    s.oversubscribe = true;
    s.rank_order = s.rank_order == RankOrder::kFill ? RankOrder::kGoRound : s.rank_order;
    s.given.insert({OptionId::kOversubscribe, Given{false, std::string(v.name), "", ""}});
  }
}

absl::Status AddForwardPair(const OptionValue& v, JobSpec& s) {
  if (v.text.empty() || v.text[0] == '=') {
    return WantError(v, "a name, and its value as the next word");
  }
  const bool is_one_word = absl::StrContains(v.text, '=');
  return Forward(v, is_one_word ? std::string(v.text) : absl::StrCat(v.text, "=", v.second), s);
}

absl::Status AddForwardList(const OptionValue& v, JobSpec& s) {
  for (const absl::string_view name : absl::StrSplit(v.text, ',')) {
    if (name.empty() || absl::StrContains(name, '=')) {
      return WantError(v, "names with commas between them");
    }
    RETURN_IF_ERROR(Forward(v, std::string(name), s));
  }
  return absl::OkStatus();
}

absl::Status SetMapBy(const OptionValue& v, JobSpec& s) {
  std::vector<std::string> parts = absl::StrSplit(absl::AsciiStrToLower(v.text), ':');
  size_t used = 1;
  CpuBinding& binding = s.plan.binding;
  // "device=gpu" is how Open MPI 5 says it.
  if (parts[0] == "device=gpu") {
    parts[0] = "gpu";
  }
  if (parts[0] == "ppr" && parts.size() >= 3 && (parts[2] == "hwthread" || parts[2] == "gpu")) {
    return WantError(v, "ppr:N:core, l3cache, numa, package or node");
  }
  if (parts[0] == "ppr" && parts.size() >= 3 && MapByObject(parts[2], binding)) {
    ASSIGN_OR_RETURN(binding.workers_per_object,
                     ParseNumber({v.name, parts[1]}, 1, kWorkersPerNodeMax));
    used = 3;
  } else if (parts[0] == "ppr") {
    if (parts.size() < 3 || parts[2] != "node") {
      return NoSuchOrder(v);
    }
    RETURN_IF_ERROR(SetPerNode({v.name, parts[1]}, s));
    s.given.insert_or_assign(OptionId::kPpn,
                             Given{false, std::string(OptionName(OptionId::kPpn)), parts[1], ""});
    used = 3;
  } else if (parts[0] == "node") {
    s.rank_order = RankOrder::kInTurn;
  } else if (!parts[0].empty() && !MapByObject(parts[0], binding) && !FillsInOrder(parts[0])) {
    return NoSuchOrder(v);
  }
  for (size_t i = used; i < parts.size(); ++i) {
    ASSIGN_OR_RETURN(const bool taken, TakeMapModifier(v, parts[i], binding));
    if (parts[i] == "oversubscribe") {
      s.oversubscribe = true;
    } else if (!taken && parts[i] != "nooversubscribe") {
      return NoSuchOrder(v);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRankBy(const OptionValue& v, JobSpec&) {
  return FillsInOrder(absl::AsciiStrToLower(v.text)) ? absl::OkStatus() : NoSuchOrder(v);
}

absl::StatusOr<std::string> ParseFilePattern(const OptionValue& v) {
  std::string out;
  bool has_rank = false;
  for (size_t i = 0; i < v.text.size(); ++i) {
    if (v.text[i] != '%') {
      out += v.text[i];
      continue;
    }
    const char letter = ++i < v.text.size() ? v.text[i] : '\0';
    has_rank = has_rank || letter == 'r';
    switch (letter) {
      case 'r':
        out += "{rank}";
        break;
      case 'h':
        out += "{host}";
        break;
      case 'p':
        out += "{node_rank}";
        break;
      case 'g':
        out += '0';  // Hydra's number of a process group: there is one
        break;
      case '%':
        out += '%';
        break;
      default:
        return WantError(v, "a path with %r (rank), %h (host), %p (number of the node) or %%");
    }
  }
  if (!has_rank) {
    return WantError(v,
                     "a path with %r, as each worker has a file of its own; for one file of all "
                     "say > FILE behind the command");
  }
  return out;
}

absl::Status SetOutputFilename(const OptionValue& v, JobSpec& s) {
  constexpr uint8_t kBoth = 3;
  const size_t colon = v.text.rfind(':');
  bool copy = true;
  bool job_id = true;
  if (colon != absl::string_view::npos) {
    for (const absl::string_view word : absl::StrSplit(v.text.substr(colon + 1), ',')) {
      if (word != "nocopy" && word != "nojobid") {
        return WantError(v, "a folder, with nothing but :nocopy or :nojobid behind it");
      }
      copy = copy && word != "nocopy";
      job_id = job_id && word != "nojobid";
    }
  }
  const absl::string_view folder = v.text.substr(0, colon);
  if (folder.empty()) {
    return WantError(v, "a folder");
  }
  // One mpirun has one job, the first.
  const std::string of_rank = absl::StrCat(folder, job_id ? "/1" : "", "/rank.{rank0}/");
  s.plan.output.out_file = of_rank + "stdout";
  s.plan.output.err_file = of_rank + "stderr";
  s.plan.output.tee.all = copy ? kBoth : 0;
  return absl::OkStatus();
}

absl::Status IgnoreSetting(const OptionValue& v, JobSpec& s) {
  if (v.text.empty()) {
    return WantError(v, "a key, and its value as the next word");
  }
  s.mpi_settings.emplace_back(v.text);
  return absl::OkStatus();
}

void NoteIgnoredSettings(const Environment& environment, JobSpec& s) {
  const bool has_hosts = s.Has(OptionId::kHosts) || s.Has(OptionId::kHostfile) ||
                         environment.count("SLURM_JOB_ID") + environment.count("PBS_JOBID") > 0;
  for (const char* name :
       {"HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile"}) {
    if (const auto it = environment.find(name); it != environment.end() && !has_hosts) {
      s.notes.push_back(absl::StrCat(name, " is not read: --hostfile ", it->second,
                                     " starts on the hosts of that file"));
    }
  }
  if (!s.mpi_settings.empty()) {
    s.notes.push_back(absl::StrCat(
        "settings of Open MPI itself have no effect: ", absl::StrJoin(s.mpi_settings, ", "),
        " (a program that reads one gets it with -x OMPI_MCA_", s.mpi_settings[0],
        "=...; for networks see --iface)"));
  }
}

absl::Status SetMpi(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(const size_t word, ParseWord(v, {"auto", "pmi1", "pmix", "none"}));
  constexpr MpiMode kModes[] = {MpiMode::kAuto, MpiMode::kPmi1, MpiMode::kPmix, MpiMode::kNone};
  if (kModes[word] == MpiMode::kPmix && !BuiltWithPmix()) {
    return absl::InvalidArgumentError(
        absl::StrCat(v.name,
                     " pmix: this launch was built without libpmix; build it where Debian's "
                     "libpmix-dev is installed, or use --mpi none and the program's own mpirun"));
  }
  s.plan.mpi = kModes[word];
  return absl::OkStatus();
}

absl::Status CheckLauncher(const OptionValue& v, JobSpec& s) {
  if (v.text != "ssh") {
    s.notes.push_back(absl::StrCat(v.name, " ", v.text,
                                   " has no effect: hosts are reached over ssh, or what --ssh "
                                   "names"));
  }
  return absl::OkStatus();
}

}  // namespace muster
