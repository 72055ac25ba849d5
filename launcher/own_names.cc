#include "launcher/own_names.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/core/worker_env.h"

namespace muster {
namespace {

// Of the only worker of a job like this one: all have the same names.
std::vector<EnvVar> GivenToWorkers(const JobSpec& spec, const Environment& environment) {
  std::vector<std::string> inherited;
  for (const char* name : {"SLURM_JOB_ID", "SLURM_CPUS_PER_TASK"}) {
    if (const auto it = environment.find(name); it != environment.end()) {
      inherited.push_back(absl::StrCat(name, "=", it->second));
    }
  }
  Assignment alone;
  alone.nodes = 1;
  alone.workers = 1;
  alone.world_size = 1;
  alone.layout = {{1, 1}};
  const NodeFacts facts;
  const WorkerEnvInput first = {spec.plan, alone, facts, false, "", LocalRank{0}, ""};
  return WorkerVariables(first, FilterEnvironment(inherited, spec.plan));
}

}  // namespace

void NoteOwnNames(JobSpec& spec, const Environment& environment) {
  if (spec.forward.empty()) {
    return;
  }
  for (const EnvVar& given : GivenToWorkers(spec, environment)) {
    for (const std::string& text : spec.forward) {  // PREFIX* means what it finds
      if (NameOf(text) == given.name) {
        spec.notes.push_back(absl::StrCat("-x ", given.name,
                                          " has no effect: launch gives each worker one of its "
                                          "own"));
        break;
      }
    }
  }
}

}  // namespace muster
