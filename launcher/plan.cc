#include "launcher/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/job_file.h"
#include "launcher/options.h"
#include "launcher/resolve.h"
#include "launcher/schedule/hostlist.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr size_t kScriptBytes = 100;  // a word of more is one: what bootstraps an agent has 2 KB

std::string CommandLine(const std::vector<std::string>& words) {
  return absl::StrJoin(
      words, " ", [](std::string* out, const std::string& word) { out->append(ShellQuote(word)); });
}

// For people, who have --json for the rest.
std::string ShortCommandLine(const std::vector<std::string>& words) {
  return absl::StrJoin(words, " ", [](std::string* out, const std::string& word) {
    out->append(word.size() > kScriptBytes ? absl::StrCat("[script of ", word.size(), " bytes]")
                                           : ShellQuote(word));
  });
}

// Values may be secrets.
std::vector<std::string> Names(const std::vector<std::string>& variables) {
  std::vector<std::string> names;
  names.reserve(variables.size());
  for (const std::string& variable : variables) {
    names.push_back(variable.substr(0, variable.find('=')));
  }
  return names;
}

std::string EndpointText(const RendezvousSpec& r) {
  if (!r.file.empty()) {
    return absl::StrCat("file://", r.file);
  }
  if (r.host.empty()) {
    return "";
  }
  return HostPort(r.host, r.port);
}

// Every node types the same command.
void AddTypedNodes(const JobSpec& spec, LaunchPlan& plan) {
  const bool number = spec.plan.workers_wanted == WorkersWanted::kNumber;
  const auto counts = WorkersByNode(spec);
  const uint32_t own = spec.node_rank.value_or(0);
  for (uint32_t i = 0; i < spec.nodes_max; ++i) {
    PlanNode planned;
    planned.workers = number && counts.ok() ? (*counts)[i] : 0;
    planned.starter =
        i == own && (spec.node_rank || spec.way == StartWay::kServe) ? "embedded" : "joins";
    plan.nodes.push_back(std::move(planned));
  }
}

std::string RankRange(uint32_t first, uint32_t count) {
  return count == 1 ? absl::StrCat(first) : absl::StrCat(first, "-", first + count - 1);
}

std::string Ranks(const PlanNode& node, bool known) {
  if (!known || node.workers == 0) {
    return "?";
  }
  if (node.ranks.empty()) {
    return RankRange(node.rank_first, node.workers);
  }
  std::string out;
  for (size_t i = 0; i < node.ranks.size();) {
    uint32_t count = 1;
    while (i + count < node.ranks.size() && node.ranks[i + count] == node.ranks[i] + count) {
      ++count;
    }
    absl::StrAppend(&out, i == 0 ? "" : ",", RankRange(node.ranks[i], count));
    i += count;
  }
  return out;
}

std::string Start(const PlanNode& node) {
  const std::string how = node.starter == "embedded" ? "in this process"
                          : node.starter == "joins"  ? "typed there"
                                                     : node.starter;
  return node.command.empty() ? how : absl::StrCat(how, ": ", ShortCommandLine(node.command));
}

void AddPrograms(const JobSpec& spec, LaunchPlan& plan) {
  const WorkPlan& work = spec.plan;
  plan.programs.push_back({0, work.further.front().rank_first, work.argv, work.wdir, work.env_set});
  for (size_t i = 0; i < work.further.size(); ++i) {
    const FurtherProgram& program = work.further[i];
    const uint32_t end =
        i + 1 < work.further.size() ? work.further[i + 1].rank_first : spec.total.value_or(0);
    plan.programs.push_back({program.rank_first, end - program.rank_first, program.argv,
                             program.wdir, program.env_set});
  }
}

std::string DescribeOverride(const NodeOverride& one) {
  std::vector<std::string> says = one.says.plan.env_set;
  for (std::string& variable : says) {
    variable = ShellQuote(variable);
  }
  for (const OptionRow& row : OptionTable()) {
    if (row.id != OptionId::kSetEnv && one.says.Has(row.id)) {
      says.push_back(
          absl::StrCat(JobFileKey(row.id), ": ", ShellQuote(ValuesOf(one.says, row.id).front())));
    }
  }
  return absl::StrCat(one.node, ": ", absl::StrJoin(says, ", "));
}

using Rows = std::vector<std::vector<std::string>>;

// Columns as wide as their widest cell; the last one is free.
std::string Table(const Rows& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string out;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      absl::StrAppend(&out, i == 0 ? "  " : "", row[i],
                      last ? "\n" : std::string(widths[i] - row[i].size() + 2, ' '));
    }
  }
  return out;
}

void AppendSurroundings(const std::string& wdir, const std::vector<std::string>& env_set,
                        std::string& out) {
  if (!wdir.empty()) {
    absl::StrAppend(&out, "in       ", wdir, "\n");
  }
  for (const std::string& variable : env_set) {
    absl::StrAppend(&out, "set      ", ShellQuote(variable), "\n");
  }
}

// With folder and variables, which are each program's own.
void AppendPrograms(const LaunchPlan& plan, std::string& out) {
  for (const PlanProgram& program : plan.programs) {
    absl::StrAppend(&out, "program  ", program.workers == 1 ? "rank " : "ranks ",
                    RankRange(program.rank_first, program.workers), ": ", CommandLine(program.argv),
                    "\n");
    AppendSurroundings(program.wdir, program.env_set, out);
  }
  if (plan.programs.empty()) {
    absl::StrAppend(&out, "program  ", CommandLine(plan.argv), "\n");
    AppendSurroundings(plan.wdir, plan.env_set, out);
  }
}

}  // namespace

LaunchPlan PlanOf(const JobSpec& spec) {
  LaunchPlan plan;
  plan.job_id = spec.plan.job_id;
  plan.way = std::string(StartWayName(spec.way));
  plan.nodes_min = spec.nodes_min;
  plan.argv = spec.plan.argv;
  plan.wraps = spec.wrap_texts;
  if (!spec.debugger.empty()) {
    plan.wraps.push_back(absl::StrCat(spec.plan.pty->rank, ":", CommandLine(spec.debugger)));
  }
  plan.prologue = spec.plan.prologue;
  plan.wdir = spec.plan.wdir;
  plan.ship = spec.ship;
  plan.ship_entries = spec.ship_entries;
  plan.ship_bytes = spec.ship_bytes;
  plan.on_failure = spec.on_failure;
  plan.rendezvous = spec.way == StartWay::kLocal ? "" : EndpointText(spec.rendezvous);
  plan.env_set = spec.plan.env_set;
  plan.notes = spec.notes;
  if (!spec.plan.further.empty()) {
    AddPrograms(spec, plan);
  }
  for (const NodeOverride& one : spec.node_overrides) {
    plan.only.push_back(DescribeOverride(one));
  }
  for (const NodeWorkers& node : spec.nodes) {
    if (plan.nodes.size() == spec.nodes_max) {
      plan.spares.push_back(node.host.name.empty() ? "this machine" : node.host.name);
      continue;
    }
    PlanNode planned;
    planned.name = node.host.name;
    planned.workers = node.wanted == WorkersWanted::kNumber ? node.workers : 0;
    planned.ranks = node.ranks;
    planned.starter = spec.way == StartWay::kLocal   ? "embedded"
                      : spec.given_hosts.has_value() ? StepProgram(spec.given_hosts->scheduler)
                      : spec.way == StartWay::kHosts ? "ssh"
                                                     : "local";
    plan.nodes.push_back(std::move(planned));
  }
  if (spec.nodes.empty()) {
    AddTypedNodes(spec, plan);
  }
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    plan.nodes[i].node_rank = static_cast<uint32_t>(i);
  }
  NumberRanks(plan);
  return plan;
}

// Ranks are known as long as every node before has a known number of workers.
void NumberRanks(LaunchPlan& plan) {
  uint32_t next = 0;
  bool known = true;
  for (PlanNode& node : plan.nodes) {
    node.rank_first = node.ranks.empty() ? next : node.ranks.front();
    known = known && node.workers > 0;
    next += node.workers;
  }
  plan.world_size = known ? next : 0;
}

uint32_t RankToExplain(const JobSpec& spec, const LaunchPlan& plan) {
  const auto given = spec.given.find(OptionId::kExplainEnv);
  if (given != spec.given.end() && !given->second.value.empty()) {
    return spec.explain_env.value_or(0);
  }
  return plan.nodes.at(spec.node_rank.value_or(0)).rank_first;
}

absl::StatusOr<Assignment> AssignmentOf(const LaunchPlan& plan, uint32_t rank) {
  if (rank >= plan.world_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("want a rank of 0..", plan.world_size - 1, ", got ", rank));
  }
  Assignment out;
  out.nodes = static_cast<uint32_t>(plan.nodes.size());
  out.world_size = plan.world_size;
  for (const PlanNode& node : plan.nodes) {
    const bool asked = std::find(node.ranks.begin(), node.ranks.end(), rank) != node.ranks.end();
    if (node.ranks.empty() ? node.rank_first <= rank : asked) {
      out.node_rank = NodeRank{node.node_rank};
      out.ranks = node.ranks;
      out.rank_first = Rank{node.rank_first};
      out.workers = node.workers;
    }
    if (!out.layout.empty() && out.layout.back().first == node.workers) {
      ++out.layout.back().second;
    } else {
      out.layout.push_back({node.workers, 1});
    }
  }
  return out;
}

std::string PlanText(const LaunchPlan& plan) {
  const bool elastic = plan.nodes_min < plan.nodes.size();
  std::string out;
  const std::string world = plan.world_size == 0 ? "as many workers as the nodes find"
                                                 : Plural(plan.world_size, "worker", "workers");
  absl::StrAppend(&out, "job      ", plan.job_id.empty() ? "" : absl::StrCat(plan.job_id, ": "),
                  world, " on ", Plural(plan.nodes.size(), "node", "nodes"),
                  elastic ? absl::StrCat(" (starts with ", plan.nodes_min, ")") : "", "\n");
  if (!plan.spares.empty()) {
    absl::StrAppend(&out, "spares   ", absl::StrJoin(plan.spares, ", "), "\n");
  }
  AppendPrograms(plan, out);
  if (!plan.ship.empty()) {
    absl::StrAppend(&out, "ship     ", CommandLine(plan.ship), ": ",
                    Plural(plan.ship_entries, "file or folder", "files and folders"), ", ",
                    Plural(plan.ship_bytes, "byte", "bytes"), ", to each node\n");
  }
  for (const std::string& wrap : plan.wraps) {
    absl::StrAppend(&out, "wrap     ", wrap, "\n");
  }
  for (const absl::string_view line : absl::StrSplit(plan.prologue, '\n', absl::SkipEmpty())) {
    absl::StrAppend(&out, "prologue ", line, "\n");
  }
  if (plan.on_failure == OnFailure::kContinue) {
    absl::StrAppend(&out, "failure  when no restart is left, the other workers go on\n");
  }
  if (!plan.rendezvous.empty()) {
    absl::StrAppend(&out, "meet at  ", plan.rendezvous, "\n");
  }
  if (!plan.environment.empty()) {
    absl::StrAppend(&out, "sent     ", absl::StrJoin(Names(plan.environment), " "), "\n");
  }
  Rows rows = {{"node", "host", "workers", "ranks", "start"}};
  bool known = true;
  for (const PlanNode& node : plan.nodes) {
    known = known && node.workers > 0;
    const std::string host = !node.name.empty()        ? node.name
                             : node.starter == "joins" ? "?"
                                                       : "this machine";
    rows.push_back({absl::StrCat(node.node_rank), host,
                    node.workers == 0 ? "?" : absl::StrCat(node.workers), Ranks(node, known),
                    Start(node)});
  }
  absl::StrAppend(&out, Table(rows));
  for (const PlannedPlaces& node : plan.places) {
    absl::StrAppend(&out, node.text);
  }
  for (const std::string& one : plan.only) {
    absl::StrAppend(&out, "only     ", one, "\n");
  }
  for (const std::string& note : plan.notes) {
    absl::StrAppend(&out, "note     ", note, "\n");
  }
  return out;
}

std::string PlanJson(const LaunchPlan& plan) {
  nlohmann::ordered_json nodes = nlohmann::ordered_json::array();
  bool known = true;
  for (const PlanNode& node : plan.nodes) {
    nlohmann::ordered_json item;
    item["node_rank"] = node.node_rank;
    item["name"] = node.name;
    const nlohmann::ordered_json unknown = nullptr;
    item["workers"] = node.workers == 0 ? unknown : nlohmann::ordered_json(node.workers);
    item["rank_first"] = known ? nlohmann::ordered_json(node.rank_first) : unknown;
    if (!node.ranks.empty()) {
      item["ranks"] = node.ranks;
    }
    known = known && node.workers > 0;
    item["starter"] = node.starter;
    item["command"] = node.command;
    nodes.push_back(std::move(item));
  }
  nlohmann::ordered_json out;
  out["job_id"] = plan.job_id;
  out["way"] = plan.way;
  out["nodes_min"] = plan.nodes_min;
  out["spares"] = plan.spares;
  out["world_size"] = plan.world_size == 0 ? nlohmann::ordered_json(nullptr)
                                           : nlohmann::ordered_json(plan.world_size);
  out["argv"] = plan.argv;
  for (const PlanProgram& program : plan.programs) {
    nlohmann::ordered_json item;
    item["rank_first"] = program.rank_first;
    item["workers"] = program.workers;
    item["argv"] = program.argv;
    item["wdir"] = program.wdir;
    item["env_set"] = program.env_set;
    out["programs"].push_back(std::move(item));
  }
  out["wraps"] = plan.wraps;
  out["prologue"] = plan.prologue;
  out["wdir"] = plan.wdir;
  if (!plan.ship.empty()) {
    out["ship"] = {
        {"paths", plan.ship}, {"entries", plan.ship_entries}, {"bytes", plan.ship_bytes}};
  }
  out["on_failure"] = OnFailureName(plan.on_failure);
  out["rendezvous"] = plan.rendezvous;
  out["env_set"] = plan.env_set;
  out["environment"] = Names(plan.environment);
  out["nodes"] = std::move(nodes);
  out["bindings"] = nlohmann::ordered_json::array();
  for (const PlannedPlaces& node : plan.places) {
    nlohmann::ordered_json workers = nlohmann::ordered_json::array();
    for (const PlannedPlaces::Worker& worker : node.workers) {
      workers.push_back({{"rank", worker.rank},
                         {"bound", worker.bound},
                         {"cpus", worker.cpus},
                         {"cores", worker.cores},
                         {"sharers", worker.sharers},
                         {"memory", worker.memory},
                         {"gpus", worker.gpus}});
    }
    out["bindings"].push_back(std::move(workers));
  }
  out["only"] = plan.only;
  out["notes"] = plan.notes;
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace muster
