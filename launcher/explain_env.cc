#include "launcher/explain_env.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "agent/core/dialects.h"
#include "agent/core/worker_env.h"
#include "nlohmann/json.hpp"
#include "proto/base/env_names.h"
#include "proto/base/text.h"

namespace muster {
namespace {

struct Line {
  std::string name;
  std::optional<std::string> value;  // nullopt: only a started job knows
  std::string why;
};

struct Explanation {
  Place place;
  std::vector<Line> variables;
  std::vector<EnvVar> kept;  // tuning variables that are the user's own
  BackendAdvice backend;
  std::vector<std::string> notes;
};

bool KnownBeforeStart(const ExplainInput& input, const std::string& name) {
  const Assignment& a = input.assignment;
  const bool is_address = name == "MASTER_ADDR" || name == "HOROVOD_GLOO_RENDEZVOUS_ADDR";
  const bool is_port = name == "MASTER_PORT" || name == "HOROVOD_GLOO_RENDEZVOUS_PORT";
  return !((is_address && a.master_addr.empty()) || (is_port && a.master_port == 0) ||
           (name == "TF_CONFIG" && a.worker_ports.empty()) || name == kEnvRound ||
           name == "TORCHELASTIC_ERROR_FILE" ||
           ((name == "TORCHELASTIC_RUN_ID" || name == kEnvJobId) && input.plan.job_id.empty()));
}

Explanation Explain(const ExplainInput& input) {
  Explanation out;
  out.place = PlaceOf(input.assignment, input.local);
  const WorkerEnvInput worker{
      input.plan,
      input.assignment,
      input.facts,
      input.store_is_agent,
      "",
      input.local,
      input.program.torch_version,
      MpiServed(input.plan.mpi, input.program),
      input.share,
      input.topology,
      nullptr,
      "",
      OffersPmi1(input.plan.mpi, input.program, input.assignment.world_size)};
  for (EnvVar& variable : WorkerVariables(worker, input.base)) {
    std::optional<std::string> value;
    if (KnownBeforeStart(input, variable.name)) {
      value = std::move(variable.value);
    }
    if (input.base.Find(variable.name) != nullptr) {
      absl::StrAppend(&variable.why, "; identity, so your own value is not used");
    }
    out.variables.push_back({std::move(variable.name), std::move(value), std::move(variable.why)});
  }
  for (const std::string& name : TuningNames()) {
    if (const char* value = input.base.Find(name); value != nullptr) {
      out.kept.push_back({name, value, "set by you, so muster leaves it alone"});
    } else if (input.base.unset.count(name) != 0) {
      out.kept.push_back({name, "", "you want it absent"});
    }
  }
  out.backend = AdviseBackend(input.facts, input.program, input.assignment.workers);
  const std::string mpi = MpiNotice(input.plan.mpi, input.program, out.place.world_size);
  if (!mpi.empty()) {
    out.notes.push_back(mpi);
  }
  if (worker.mpi == MpiMode::kPmix) {
    out.notes.push_back(
        "PMIX_* variables, which Open MPI reads, are set by the PMIx server of each round");
  }
  return out;
}

std::string Printable(const std::string& value) {
  return value.empty() ? "\"\"" : absl::Utf8SafeCEscape(value);
}

// A secret stays out of what people paste into bug reports.
std::string RemovedValue(const EnvVar& variable) {
  return variable.name == kEnvSecret ? "(hidden)" : variable.value;
}

std::string Headline(const ExplainInput& input, const Place& place) {
  return absl::StrCat("Rank ", place.rank, " of ", place.world_size, " (local rank ",
                      place.local_rank, " of ", place.local_size, " on ", input.facts.hostname,
                      ", node ", place.node_rank, " of ", place.nodes, ")");
}

void AppendTable(const std::vector<Line>& lines, std::string& out) {
  size_t name_width = 0;
  size_t value_width = 0;
  for (const Line& line : lines) {
    name_width = std::max(name_width, line.name.size());
    value_width =
        std::max(value_width, std::min<size_t>(Printable(line.value.value_or("")).size(), 24));
  }
  for (const Line& line : lines) {
    absl::StrAppend(
        &out,
        absl::StrFormat("  %-*s  %-*s  %s\n", static_cast<int>(name_width), line.name,
                        static_cast<int>(value_width),
                        line.value.has_value() ? Printable(*line.value) : "(at start)", line.why));
  }
}

}  // namespace

BackendAdvice AdviseBackend(const NodeFacts& facts, const ProgramFacts& program, uint32_t workers) {
  if (facts.gpus == 0) {
    return {"gloo", absl::StrCat("workers on ", facts.hostname, " see no GPU")};
  }
  const std::string gpus = Plural(facts.gpus, "GPU", "GPUs");
  if (!program.torch_version.empty() && program.torch_cuda.empty()) {
    return {"gloo", absl::StrCat(facts.hostname, " has ", gpus, ", but torch ",
                                 program.torch_version, " is built without CUDA")};
  }
  if (workers > facts.gpus) {
    return {"gloo", absl::StrCat("nccl wants a GPU for each worker, and ", workers,
                                 " workers would share ", gpus, " of ", facts.hostname,
                                 "; with --nproc-per-node ", facts.gpus, " nccl fits")};
  }
  return {"nccl", absl::StrCat("for CUDA tensors, worker l on cuda:l (", gpus, " on ",
                               facts.hostname, "); gloo for tensors in host memory")};
}

std::string ExplainEnvText(const ExplainInput& input) {
  const Explanation e = Explain(input);
  std::string out = absl::StrCat(Headline(input, e.place), " finds, beyond what it inherits:\n");
  AppendTable(e.variables, out);
  const std::vector<Line>::const_iterator late = std::find_if(
      e.variables.begin(), e.variables.end(), [](const Line& v) { return !v.value.has_value(); });
  if (late != e.variables.end()) {
    absl::StrAppend(&out,
                    "  (at start): chosen when the job starts; you type no address and no port.\n");
  }
  std::vector<Line> lines;
  for (const EnvVar& kept : e.kept) {
    lines.push_back({kept.name, kept.value, kept.why});
  }
  if (!lines.empty()) {
    absl::StrAppend(&out, "Yours:\n");
    AppendTable(lines, out);
  }
  lines.clear();
  for (const EnvVar& removed : input.base.removed) {
    lines.push_back({removed.name, RemovedValue(removed), removed.why});
  }
  if (!lines.empty()) {
    absl::StrAppend(&out, "In your environment, but not inherited:\n");
    AppendTable(lines, out);
  }
  absl::StrAppend(&out, "Everything else in the environment is inherited as it is.\n",
                  "torch backend: ", e.backend.backend, " (", e.backend.why, ")\n");
  if (input.program.is_python) {
    absl::StrAppend(
        &out, "torch: ",
        input.program.torch_version.empty() ? "none found for "
                                            : absl::StrCat(input.program.torch_version, ", of "),
        input.program.interpreter.empty() ? "this Python" : input.program.interpreter, "\n");
  }
  for (const std::string& note : e.notes) {
    absl::StrAppend(&out, "Note: ", note, "\n");
  }
  return out;
}

std::string ExplainEnvJson(const ExplainInput& input) {
  using Json = nlohmann::ordered_json;
  const Explanation e = Explain(input);
  Json json;
  json["worker"] = {{"rank", e.place.rank},
                    {"world_size", e.place.world_size},
                    {"local_rank", e.place.local_rank},
                    {"local_world_size", e.place.local_size},
                    {"node_rank", e.place.node_rank},
                    {"nodes", e.place.nodes},
                    {"host", input.facts.hostname}};
  json["variables"] = Json::array();
  for (const Line& v : e.variables) {
    json["variables"].push_back({{"name", v.name},
                                 {"value", v.value.has_value() ? Json(*v.value) : Json()},
                                 {"why", v.why}});
  }
  const auto add = [&json](const char* key, const std::string& name, const std::string& value,
                           const std::string& why) {
    json[key].push_back({{"name", name}, {"value", value}, {"why", why}});
  };
  json["kept"] = Json::array();
  for (const EnvVar& v : e.kept) {
    add("kept", v.name, v.value, v.why);
  }
  json["removed"] = Json::array();
  for (const EnvVar& v : input.base.removed) {
    add("removed", v.name, RemovedValue(v), v.why);
  }
  json["backend"] = {{"name", e.backend.backend}, {"why", e.backend.why}};
  json["program"] = {{"name", input.program.program},
                     {"interpreter", input.program.interpreter},
                     {"torch", input.program.torch_version},
                     {"mpi", input.program.mpi}};
  json["notes"] = e.notes;
  // Values may hold any bytes; JSON holds text.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace muster
