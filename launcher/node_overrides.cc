#include "launcher/node_overrides.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "launcher/placement.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

std::optional<uint32_t> PlaceIn(absl::string_view node) {
  uint32_t place = 0;
  return absl::SimpleAtoi(node, &place) ? std::optional<uint32_t>(place) : std::nullopt;
}

absl::string_view ShortName(absl::string_view host) { return host.substr(0, host.find('.')); }

// A machine may call itself node1.cluster and be node1 to everybody; 10 is no name of 10.0.0.1.
bool SameHost(absl::string_view named, absl::string_view host) {
  return absl::EqualsIgnoreCase(named, host) ||
         (absl::EqualsIgnoreCase(named, ShortName(host)) && !PlaceIn(named).has_value());
}

// Exactly. A host may be called 001; then that is no place.
bool NamesHost(const JobSpec& spec, absl::string_view node) {
  return std::any_of(spec.hosts.begin(), spec.hosts.end(),
                     [&](const HostEntry& host) { return host.name == node; }) ||
         std::any_of(spec.nodes.begin(), spec.nodes.end(),
                     [&](const NodeWorkers& one) { return one.host.name == node; });
}

bool IsAbout(const JobSpec& spec, const NodeOverride& one, absl::string_view host,
             std::optional<uint32_t> place) {
  return (!host.empty() && SameHost(one.node, host)) ||
         (place.has_value() && PlaceIn(one.node) == place && !NamesHost(spec, one.node));
}

// Of the nodes that launch starts.
std::string HostAt(const JobSpec& spec, size_t place) {
  return spec.way == StartWay::kStandalone ? absl::StrCat("node", place)
                                           : spec.nodes[place].host.name;
}

absl::Status Wrong(const NodeOverride& one, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(one.place, ": nodes: '", one.node, "' ", what));
}

// In the list, whatever --nnodes leaves of it.
bool IsListed(const JobSpec& spec, const NodeOverride& one) {
  const std::optional<uint32_t> place = PlaceIn(one.node);
  return std::any_of(spec.hosts.begin(), spec.hosts.end(),
                     [&](const HostEntry& host) { return SameHost(one.node, host.name); }) ||
         (place.has_value() && *place < std::max(spec.hosts.size(), spec.nodes.size()));
}

bool IsStarted(const JobSpec& spec, const NodeOverride& one) {
  for (uint32_t i = 0; i < spec.nodes.size(); ++i) {
    if (IsAbout(spec, one, HostAt(spec, i), i)) {
      return true;
    }
  }
  return false;
}

// Whether the nodes are others than those that the file had in mind.
bool NodesWereTyped(const JobSpec& spec) {
  const std::initializer_list<OptionId> options = {OptionId::kHosts,    OptionId::kHostfile,
                                                   OptionId::kRankfile, OptionId::kNnodes,
                                                   OptionId::kExclude,  OptionId::kStandalone};
  return std::any_of(options.begin(), options.end(), [&](OptionId id) {
    const auto given = spec.given.find(id);
    return given != spec.given.end() && given->second.place.empty();
  });
}

// V3.
absl::Status Unknown(JobSpec& spec, const NodeOverride& one, absl::string_view what) {
  if (!NodesWereTyped(spec)) {
    return Wrong(one, what);
  }
  spec.notes.push_back(
      absl::StrCat(one.place, ": nodes: '", one.node, "' is not used: the job has no such node"));
  return absl::OkStatus();
}

absl::Status CheckNode(JobSpec& spec, const NodeOverride& one) {
  if (spec.nodes.empty()) {  // typed on every node: which hosts those are nobody knows yet
    return PlaceIn(one.node).has_value() && !spec.node_rank
               ? Wrong(one,
                       "is a number, which a node knows only with --node-rank: give its "
                       "host's name, or say --hosts")
               : absl::OkStatus();
  }
  const bool own_name = spec.way == StartWay::kLocal && !PlaceIn(one.node).has_value();
  if (own_name || IsStarted(spec, one) || IsListed(spec, one)) {
    return absl::OkStatus();
  }
  const std::string last = absl::StrCat("0..", spec.nodes.size() - 1);
  return Unknown(
      spec, one,
      absl::StrCat(
          "is no node of this job; name one by its host or as ", last,
          spec.hosts.empty() ? std::string() : absl::StrCat(" (", DescribeHosts(spec.hosts), ")")));
}

absl::Status CheckCount(const JobSpec& spec, const NodeOverride& one) {
  if (!one.says.Has(OptionId::kNprocPerNode)) {
    return absl::OkStatus();
  }
  for (const OptionId id : {OptionId::kTotal, OptionId::kPpn, OptionId::kRankfile}) {
    if (spec.Has(id)) {
      return Wrong(one, absl::StrCat("says nproc-per-node, but ", spec.Said(id),
                                     " says how many workers each node runs: keep one of the two"));
    }
  }
  return absl::OkStatus();
}

// V4.
absl::Status CheckNamedOnce(const JobSpec& spec, absl::string_view host,
                            std::optional<uint32_t> place) {
  const NodeOverride* first = nullptr;
  for (const NodeOverride& one : spec.node_overrides) {
    if (!IsAbout(spec, one, host, place)) {
      continue;
    }
    if (first != nullptr) {
      return Wrong(one, absl::StrCat("is the same node as '", first->node, "' (", first->place,
                                     "): say all of it under one of the two"));
    }
    first = &one;
  }
  return absl::OkStatus();
}

void CountWorkers(const JobSpec& spec, size_t place, NodeWorkers& node) {
  for (const NodeOverride& one : spec.node_overrides) {
    if (one.says.Has(OptionId::kNprocPerNode) &&
        IsAbout(spec, one, HostAt(spec, place), static_cast<uint32_t>(place))) {
      node.wanted = one.says.plan.workers_wanted;
      node.workers = one.says.plan.workers;
    }
  }
}

void SetVariables(const std::vector<std::string>& own, std::vector<std::string>& all) {
  for (const std::string& variable : own) {
    const absl::string_view name = absl::string_view(variable).substr(0, variable.find('=') + 1);
    std::erase_if(all, [&](const std::string& other) { return absl::StartsWith(other, name); });
    all.push_back(variable);
  }
}

}  // namespace

bool MaySayNode(OptionId id) {
  return id == OptionId::kSetEnv || id == OptionId::kWdir || id == OptionId::kIface ||
         id == OptionId::kPrologue || id == OptionId::kNprocPerNode;
}

absl::Status SettleNodeOverrides(JobSpec& spec) {
  for (const NodeOverride& one : spec.node_overrides) {
    RETURN_IF_ERROR(CheckNode(spec, one));
    RETURN_IF_ERROR(CheckCount(spec, one));
  }
  uint64_t world = 0;
  for (size_t i = 0; i < spec.nodes.size(); ++i) {
    RETURN_IF_ERROR(CheckNamedOnce(spec, HostAt(spec, i), static_cast<uint32_t>(i)));
    CountWorkers(spec, i, spec.nodes[i]);
    world += spec.nodes[i].workers;
  }
  if (world > kWorldSizeMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("nodes: want at most ", kWorldSizeMax, " workers in a job, got ", world));
  }
  return absl::OkStatus();
}

absl::Status CheckOwnName(JobSpec& spec, absl::string_view host) {
  const bool local = spec.way == StartWay::kLocal;
  if (!local && !spec.nodes.empty()) {
    return absl::OkStatus();  // SettleNodeOverrides knew the names
  }
  RETURN_IF_ERROR(CheckNamedOnce(spec, host, local ? 0 : spec.node_rank));
  for (const NodeOverride& one : spec.node_overrides) {
    if (local && !IsAbout(spec, one, host, 0) && !IsListed(spec, one)) {
      RETURN_IF_ERROR(
          Unknown(spec, one,
                  absl::StrCat("is no node of this job, which runs on this machine alone: name it ",
                               host, " or 0, or type --nnodes 1 to leave it out")));
    }
  }
  return absl::OkStatus();
}

void TakeNodeOverrides(const JobSpec& spec, absl::string_view host, std::optional<uint32_t> place,
                       WorkPlan& plan) {
  for (const NodeOverride& one : spec.node_overrides) {
    if (!IsAbout(spec, one, host, place)) {
      continue;
    }
    const JobSpec& says = one.says;
    SetVariables(says.plan.env_set, plan.env_set);
    for (FurtherProgram& program : plan.further) {
      SetVariables(says.plan.env_set, program.env_set);
      program.wdir = program.wdir.empty() ? says.plan.wdir : program.wdir;
    }
    if (!says.plan.wdir.empty() && (plan.further.empty() || plan.wdir.empty())) {
      plan.wdir = says.plan.wdir;
    }
    if (!says.plan.iface.empty()) {
      plan.iface = says.plan.iface;
    }
    if (!says.plan.prologue.empty()) {
      absl::StrAppend(&plan.prologue, plan.prologue.empty() ? "" : "\n", says.plan.prologue);
    }
    if (says.Has(OptionId::kNprocPerNode)) {
      plan.workers_wanted = says.plan.workers_wanted;
      plan.workers = says.plan.workers;
    }
  }
}

}  // namespace muster
