#include "launcher/schedule/slurm_gpus.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "launcher/schedule/first_set.h"
#include "launcher/schedule/hostlist.h"
#include "launcher/schedule/slurm.h"
#include "proto/base/env_names.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

bool SeveralTypes(const SlurmVariable& variable) { return absl::StrContains(variable.second, ','); }

// G1. `by`: the variable that asks for them, with their type: "a100:4". How several types are
// spread is not known; where they are even, Slurm is left to it.
SlurmGpus Spread(std::vector<uint32_t> each, const SlurmVariable& by) {
  SlurmGpus out;
  const bool even =
      std::adjacent_find(each.begin(), each.end(), std::not_equal_to<>()) == each.end();
  const std::string type =
      SeveralTypes(by) ? "" : by.second.substr(0, by.second.rfind(':') + 1);  // "a100:"
  for (const uint32_t gpus : each) {
    out.step.push_back(even && SeveralTypes(by)
                           ? ""
                           : absl::StrCat(even ? "--gpus-per-node=" : "--gpus=", type, gpus));
  }
  out.each = std::move(each);
  return out;
}

// G2: `all` GPUs, as `by` says.
absl::StatusOr<SlurmGpus> SpreadAll(const SlurmVariables& environment, uint32_t all,
                                    const SlurmVariable& by, size_t hosts, size_t own) {
  if (const auto* told = FirstSet(environment, kGpusOfNodes)) {
    absl::StatusOr<std::vector<uint32_t>> each = NumberEach(*told, hosts);
    if (each.ok()) {
      return Spread(*std::move(each), by);
    }
  }
  const auto* variable = FirstSet(environment, "SLURM_GPUS_ON_NODE");
  const auto share = static_cast<uint32_t>(all / hosts);
  ASSIGN_OR_RETURN(const uint32_t here,
                   variable == nullptr ? absl::StatusOr<uint32_t>(share) : NumberOfGpus(*variable));
  if (here == share && all % hosts == 0) {
    return Spread(std::vector<uint32_t>(hosts, share), by);
  }
  if (hosts == 2 && variable != nullptr && own < hosts && here > 0 && here < all) {
    std::vector<uint32_t> each(hosts, all - here);
    each[own] = here;
    return Spread(std::move(each), by);
  }
  SlurmGpus out;
  out.each.assign(hosts, 1);
  out.step.assign(hosts, "--gpus-per-node=1");
  out.note = absl::StrCat("how its ", all, " GPUs (", by.first, "=", by.second,
                          ") are spread over ", hosts, " nodes is not known, as scontrol does not ",
                          "say: one of each is used (ask for --gpus-per-node=N)");
  return out;
}

}  // namespace

absl::StatusOr<uint32_t> NumberOfGpus(const SlurmVariable& variable) {
  uint32_t sum = 0;
  for (const absl::string_view item : absl::StrSplit(variable.second, ',')) {
    const absl::string_view number = item.substr(item.rfind(':') + 1);  // none: npos + 1 is 0
    uint32_t gpus = 0;
    if (!absl::SimpleAtoi(number, &gpus) || gpus > kWorkersPerNodeMax) {
      return NotSlurms(variable, "want a number of GPUs, as in 4 or a100:4");
    }
    sum += gpus;
  }
  return sum <= kWorkersPerNodeMax ? absl::StatusOr<uint32_t>(sum)
                                   : NotSlurms(variable, "more GPUs than a node has");
}

absl::StatusOr<SlurmGpus> GpusOfJob(const SlurmVariables& environment, size_t hosts, size_t own) {
  if (const auto* each = FirstSet(environment, "SLURM_GPUS_PER_NODE")) {
    ASSIGN_OR_RETURN(const uint32_t gpus, NumberOfGpus(*each));
    SlurmGpus out;
    out.each.assign(hosts, gpus);
    out.step.assign(hosts, absl::StrCat("--gpus-per-node=", each->second));
    return out;
  }
  if (const auto* all = FirstSet(environment, "SLURM_GPUS")) {
    ASSIGN_OR_RETURN(const uint32_t gpus, NumberOfGpus(*all));
    return SpreadAll(environment, gpus, *all, hosts, own);
  }
  const auto* tasks = FirstSet(environment, "SLURM_TASKS_PER_NODE");
  const auto* per_task = FirstSet(environment, "SLURM_GPUS_PER_TASK");
  if (per_task != nullptr && tasks != nullptr) {
    ASSIGN_OR_RETURN(const uint32_t gpus, NumberOfGpus(*per_task));
    ASSIGN_OR_RETURN(std::vector<uint32_t> each, NumberEach(*tasks, hosts));
    for (uint32_t& of_node : each) {
      of_node *= gpus;  // both up to kWorkersPerNodeMax = 2^12
    }
    return Spread(std::move(each), *per_task);
  }
  const auto* per_gpu = FirstSet(environment, "SLURM_NTASKS_PER_GPU");
  uint32_t share = 0;
  if (per_gpu != nullptr && tasks != nullptr && absl::SimpleAtoi(per_gpu->second, &share) &&
      share > 0) {
    ASSIGN_OR_RETURN(const std::vector<uint32_t> counts, NumberEach(*tasks, hosts));
    const uint32_t all = std::accumulate(counts.begin(), counts.end(), 0u);
    return SpreadAll(environment, (all + share - 1) / share, *per_gpu, hosts, own);
  }
  SlurmGpus out;
  out.step.assign(hosts, "");
  const auto* here = FirstSet(environment, "SLURM_GPUS_ON_NODE");
  ASSIGN_OR_RETURN(const uint32_t gpus,
                   here == nullptr ? absl::StatusOr<uint32_t>(0) : NumberOfGpus(*here));
  out.each.assign(gpus > 0 ? hosts : 0, gpus);  // --gres: a step has them all
  return out;
}

bool AsksForGpus(const SlurmVariables& environment) {
  const auto* list = FirstSet(environment, "SLURM_JOB_NODELIST SLURM_NODELIST");
  const bool in_step =
      FirstSet(environment, "SLURM_STEP_NODELIST") != nullptr && !IsShell(environment);
  if (list == nullptr || FirstSet(environment, "SLURM_JOB_ID") == nullptr || in_step ||
      environment.count(kEnvJobId) != 0 ||
      FirstSet(environment, "SLURM_GPUS SLURM_NTASKS_PER_GPU") == nullptr ||
      FirstSet(environment, "SLURM_GPUS_PER_NODE SLURM_HET_SIZE") != nullptr) {
    return false;
  }
  const absl::StatusOr<std::vector<std::string>> names = ExpandHostList(list->second);
  const bool two_known =
      names.ok() && names->size() == 2 && FirstSet(environment, "SLURM_GPUS_ON_NODE") != nullptr;
  return names.ok() && names->size() > 1 && !two_known;
}

std::optional<std::string> GpusOfNodes(absl::string_view job, const SlurmVariables& environment) {
  // "... Nodes=node[0-1] CPU_IDs=0-1 Mem=0 GRES=gpu:a100:2(IDX:0-1),shard:4(...) Nodes=node2 ..."
  std::map<std::string, uint32_t> gpus;
  std::vector<std::string> nodes;
  const auto* id = FirstSet(environment, "SLURM_JOB_ID");
  bool others = false;  // of another task of its array
  for (absl::string_view word : absl::StrSplit(job, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&word, "JobId=")) {
      others = id != nullptr && word != id->second;
    } else if (others) {
      continue;
    } else if (absl::ConsumePrefix(&word, "Nodes=")) {
      nodes = ExpandHostList(word).value_or(std::vector<std::string>());
    } else if (absl::ConsumePrefix(&word, "GRES=")) {
      for (const absl::string_view item : absl::StrSplit(word, ')')) {
        absl::string_view one = absl::StripPrefix(item, ",");
        one = one.substr(0, one.find('('));
        uint32_t count = 0;
        if (absl::StartsWith(one, "gpu:") &&
            absl::SimpleAtoi(one.substr(one.rfind(':') + 1), &count)) {
          for (const std::string& node : nodes) {
            gpus[node] += count;
          }
        }
      }
    }
  }
  const auto* list = FirstSet(environment, "SLURM_JOB_NODELIST SLURM_NODELIST");
  const absl::StatusOr<std::vector<std::string>> names =
      list == nullptr ? absl::NotFoundError("") : ExpandHostList(list->second);
  std::vector<uint32_t> each;
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    each.push_back(gpus[name]);
  }
  const bool all = std::find(each.begin(), each.end(), 0u) == each.end();
  return all && !each.empty() ? std::optional<std::string>(CompressRunLengths(each)) : std::nullopt;
}

std::optional<GpusOfTask> OwnGpusOfTask(const SlurmVariables& environment) {
  const auto said = [](const SlurmVariable& variable, uint32_t each) {
    return each == 0 ? std::nullopt
                     : std::optional<GpusOfTask>(
                           {each, absl::StrCat(variable.first, "=", variable.second)});
  };
  if (const auto* bind = FirstSet(environment, "SLURM_GPU_BIND")) {  // "verbose,single:1"
    absl::string_view how = bind->second;
    how = how.substr(how.rfind(',') == absl::string_view::npos ? 0 : how.rfind(',') + 1);
    uint32_t each = 0;
    if (how == "single:1") {
      return said(*bind, 1);
    }
    return absl::ConsumePrefix(&how, "per_task:") && absl::SimpleAtoi(how, &each)
               ? said(*bind, each)
               : std::nullopt;
  }
  if (const auto* per_task = FirstSet(environment, "SLURM_GPUS_PER_TASK")) {
    return said(*per_task, NumberOfGpus(*per_task).value_or(0));
  }
  const auto* per_gpu = FirstSet(environment, "SLURM_NTASKS_PER_GPU");
  return per_gpu != nullptr && per_gpu->second == "1" ? said(*per_gpu, 1) : std::nullopt;
}

}  // namespace muster
