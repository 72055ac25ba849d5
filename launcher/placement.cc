#include "launcher/placement.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/programs.h"
#include "launcher/schedule/hostlist.h"
#include "launcher/schedule/rankfile.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

std::optional<NamedCount> Named(const JobSpec& spec, OptionId id, uint32_t value) {
  return spec.Has(id) ? std::optional<NamedCount>(NamedCount{value, spec.Said(id)}) : std::nullopt;
}

absl::Status ReadHosts(JobSpec& spec, const FileReader& read_file) {
  if (spec.given_hosts.has_value()) {
    spec.hosts = spec.given_hosts->hosts;
    return absl::OkStatus();
  }
  if (!spec.hosts_texts.empty()) {
    auto hosts = ParseHostList(absl::StrJoin(spec.hosts_texts, ","));
    if (!hosts.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec.Said(OptionId::kHosts), ": ", hosts.status().message()));
    }
    spec.hosts = *std::move(hosts);
    return absl::OkStatus();
  }
  std::string text;
  for (const std::string& path : spec.hostfiles) {
    auto read = read_file(path);
    if (!read.ok()) {
      return absl::Status(read.status().code(),
                          absl::StrCat("--hostfile ", path, ": ", read.status().message()));
    }
    ASSIGN_OR_RETURN(const std::vector<HostEntry> hosts, ParseHostFile(*read, path));
    const auto before = static_cast<ptrdiff_t>(spec.hosts.size());  // of other files
    for (const HostEntry& host : hosts) {
      const bool again =
          std::any_of(spec.hosts.begin(), spec.hosts.begin() + before, [&](const HostEntry& h) {
            return absl::EqualsIgnoreCase(h.name, host.name) && h.port == host.port;
          });
      if (again) {
        return absl::InvalidArgumentError(absl::StrCat(
            path, ": host '", host.name, "' stands in another host file of this command, too"));
      }
      spec.hosts.push_back(host);
    }
  }
  return absl::OkStatus();
}

// What --exclude names goes from the list; users and ports of it say nothing. A name that is not in
// the list is a mistake somewhere, and so are slots: DeepSpeed's `node1:0,2` means GPUs.
absl::Status ExcludeHosts(JobSpec& spec) {
  if (spec.exclude_texts.empty()) {
    return absl::OkStatus();
  }
  const std::string all = DescribeHosts(spec.hosts);
  ASSIGN_OR_RETURN(const std::vector<HostEntry> excluded,
                   ParseHostList(absl::StrJoin(spec.exclude_texts, ",")));
  for (const HostEntry& gone : excluded) {
    if (gone.slots_given) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec.Said(OptionId::kExclude), ": takes whole hosts from the list: say ",
                       gone.name, " alone, or give the host fewer slots in the list"));
    }
    if (std::erase_if(spec.hosts, [&](const HostEntry& h) {
          return absl::EqualsIgnoreCase(h.name, gone.name);
        }) == 0) {
      return absl::InvalidArgumentError(absl::StrCat(spec.Said(OptionId::kExclude), ": host '",
                                                     gone.name, "' is not in the list (", all,
                                                     ")"));
    }
  }
  if (spec.hosts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.Said(OptionId::kExclude), " leaves no host of the list (", all, ")"));
  }
  return absl::OkStatus();
}

// How many run where, when nobody but the scheduler has said so.
std::string WorkersBySlots(const JobSpec& spec) {
  std::vector<uint32_t> counts;
  for (const NodeWorkers& node : spec.nodes) {
    counts.push_back(node.workers);
  }
  const std::string workers = counts.size() == 1
                                  ? Plural(counts.front(), "worker", "workers")
                                  : absl::StrCat(CompressRunLengths(counts), " workers");
  return absl::StrCat(spec.given_hosts->job, ": ", workers, " on ",
                      Plural(counts.size(), "node", "nodes"), ", as many as its ",
                      spec.given_hosts->slots_are, " (--nproc-per-node says otherwise)");
}

// The last hosts are the spares. Any may take the place of any other node.
absl::Status SetSparesAside(JobSpec& spec, const AllocationRequest& request) {
  const uint32_t spares = *spec.spares;
  const size_t hosts = spec.nodes.size();
  const uint32_t least = request.nodes_min ? request.nodes_min->value : 1;
  if (hosts < size_t{least} + spares) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.Said(OptionId::kSpares), " and ", Plural(least, "node", "nodes"),
                     " to run on want ", least + spares, " hosts, but ", request.hosts_said,
                     " names ", hosts, ": name more hosts, or ask for fewer spares"));
  }
  const NodeWorkers& first = spec.nodes.front();
  for (const NodeWorkers& node : spec.nodes) {
    if (node.wanted == WorkersWanted::kNumber && node.workers != first.workers) {
      return absl::InvalidArgumentError(
          absl::StrCat(spec.Said(OptionId::kSpares), ": ", first.host.name, " would run ",
                       first.workers, " and ", node.host.name, " ", node.workers,
                       " workers, but a spare may take the place of any: say --nproc-per-node"));
    }
  }
  spec.nodes_max = static_cast<uint32_t>(hosts) - spares;
  const bool elastic =
      request.nodes_min && request.nodes_min->value + spares < request.nodes_max->value;
  spec.nodes_min = elastic ? request.nodes_min->value : spec.nodes_max;
  return absl::OkStatus();
}

// Ranks can be dealt out in turn where it is known how many each node has, at all times.
absl::Status CheckRankOrder(const JobSpec& spec) {
  if (spec.rank_order != RankOrder::kInTurn) {
    return absl::OkStatus();
  }
  if (spec.nodes_min != spec.nodes.size()) {
    return Contradiction(spec, OptionId::kMapBy,
                         spec.Has(OptionId::kSpares) ? OptionId::kSpares : OptionId::kNnodes,
                         "ranks are dealt out to nodes that are the same all the time");
  }
  if (std::any_of(spec.nodes.begin(), spec.nodes.end(),
                  [](const NodeWorkers& node) { return node.wanted != WorkersWanted::kNumber; })) {
    return absl::InvalidArgumentError(
        absl::StrCat(spec.Said(OptionId::kMapBy), ": say how many workers each node has: -ppn N, ",
                     "--nproc-per-node N, or slots in the list (--hosts a:2,b:2)"));
  }
  return absl::OkStatus();
}

absl::Status CountHosts(JobSpec& spec) {
  AllocationRequest request;
  request.hosts = spec.hosts;
  request.hosts_said = spec.given_hosts.has_value() ? spec.given_hosts->job
                       : spec.Has(OptionId::kHosts) ? spec.Said(OptionId::kHosts)
                                                    : spec.Said(OptionId::kHostfile);
  request.nodes_min = Named(spec, OptionId::kNnodes, spec.nodes_min);
  request.nodes_max = Named(spec, OptionId::kNnodes, spec.nodes_max);
  const uint32_t spares = spec.spares.value_or(0);
  if (request.nodes_max) {
    request.nodes_max->value += spares;
  }
  if (spec.total) {
    request.total = NamedCount{*spec.total, TotalSaid(spec)};
  }
  request.per_node = Named(spec, OptionId::kPpn, spec.per_node.value_or(0));
  request.wanted = spec.plan.workers_wanted;
  request.exact = Named(spec, OptionId::kNprocPerNode, spec.plan.workers);
  request.oversubscribe = spec.oversubscribe;
  request.order = spec.rank_order;
  ASSIGN_OR_RETURN(Allocation allocation, AllocateHosts(request));
  spec.nodes = std::move(allocation.nodes);
  spec.nodes_min = allocation.nodes_min;
  spec.nodes_max = static_cast<uint32_t>(spec.nodes.size());
  if (spares > 0) {
    RETURN_IF_ERROR(SetSparesAside(spec, request));
  }
  RETURN_IF_ERROR(CheckRankOrder(spec));
  spec.notes.insert(spec.notes.end(), allocation.notes.begin(), allocation.notes.end());
  if (spec.given_hosts.has_value() && !request.total && !request.per_node && !request.exact &&
      spec.plan.workers_wanted == WorkersWanted::kNumber) {
    spec.notes.push_back(WorkersBySlots(spec));
  }
  return absl::OkStatus();
}

// Ranks dealt to hosts one after the other; a host comes in where its first rank does.
class Dealer {
 public:
  absl::Status Deal(const HostEntry& host, uint32_t count, absl::string_view said) {
    const auto it = std::find_if(nodes_.begin(), nodes_.end(), [&](const NodeWorkers& node) {
      return absl::EqualsIgnoreCase(node.host.name, host.name) && node.host.port == host.port &&
             node.host.user == host.user;
    });
    const auto at = static_cast<size_t>(it - nodes_.begin());
    if (it == nodes_.end()) {
      nodes_.push_back({host, WorkersWanted::kNumber, 0, {}});
      ranks_.emplace_back();
    }
    for (; count > 0; --count) {
      ranks_[at].push_back(next_++);
    }
    if (ranks_[at].size() > kWorkersPerNodeMax) {
      return absl::InvalidArgumentError(absl::StrCat(said, ": want at most ", kWorkersPerNodeMax,
                                                     " workers on a node, got more on '", host.name,
                                                     "'"));
    }
    return absl::OkStatus();
  }

  void Take(JobSpec& spec) {
    SetRanks(std::move(ranks_), nodes_);
    spec.nodes = std::move(nodes_);
    spec.nodes_min = spec.nodes_max = static_cast<uint32_t>(spec.nodes.size());
  }

 private:
  std::vector<NodeWorkers> nodes_;
  std::vector<std::vector<uint32_t>> ranks_;  // of each of them
  uint32_t next_ = 0;
};

// In order of the ranks: how many follow each other on one host.
std::vector<std::pair<const HostEntry*, uint32_t>> RunsOf(const std::vector<NodeWorkers>& nodes) {
  std::map<uint32_t, const HostEntry*> host_of;  // by rank
  uint32_t next = 0;
  for (const NodeWorkers& node : nodes) {
    for (uint32_t i = 0; i < node.workers; ++i, ++next) {
      host_of[node.ranks.empty() ? next : node.ranks[i]] = &node.host;
    }
  }
  std::vector<std::pair<const HostEntry*, uint32_t>> out;
  for (const auto& [rank, host] : host_of) {
    if (out.empty() || out.back().first != host) {
      out.emplace_back(host, 0);
    }
    ++out.back().second;
  }
  return out;
}

// Once CountPrograms has summed them up.
uint32_t WorkersOf(const JobSpec& spec, const JobSpec& program) {
  return &program == &spec ? spec.plan.further.front().rank_first : *program.total;
}

// Each program on the hosts that it names.
absl::Status PlacePrograms(JobSpec& spec, const FileReader& read_file) {
  for (const OptionId id : {OptionId::kNnodes, OptionId::kNprocPerNode, OptionId::kExclude}) {
    if (spec.Has(id)) {
      return absl::InvalidArgumentError(absl::StrCat(
          spec.Said(id), ": the programs have hosts of their own, which say how many and where"));
    }
  }
  Dealer dealer;
  for (const JobSpec* one : ProgramsOf(spec)) {
    JobSpec program = *one;
    const OptionId list = program.Has(OptionId::kHosts) ? OptionId::kHosts : OptionId::kHostfile;
    if (!program.Has(list)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "program '", program.program, "' has no --hosts, but another one behind ':' has: give ",
          "each its own, or one list to the first for all"));
    }
    RETURN_IF_ERROR(ReadHosts(program, read_file));
    AllocationRequest request;
    request.hosts = program.hosts;
    request.hosts_said = program.Said(list);
    request.total = NamedCount{WorkersOf(spec, *one), program.Said(OptionId::kTotal)};
    request.per_node = Named(spec, OptionId::kPpn, spec.per_node.value_or(0));
    request.oversubscribe = spec.oversubscribe || program.oversubscribe;
    request.order = program.rank_order == RankOrder::kFill ? spec.rank_order : program.rank_order;
    ASSIGN_OR_RETURN(const Allocation allocation, AllocateHosts(request));
    for (const auto& [host, count] : RunsOf(allocation.nodes)) {
      RETURN_IF_ERROR(dealer.Deal(*host, count, program.Said(list)));
    }
    spec.notes.insert(spec.notes.end(), allocation.notes.begin(), allocation.notes.end());
  }
  dealer.Take(spec);
  return absl::OkStatus();
}

// Of the list where there is one.
absl::StatusOr<HostEntry> HostOf(const JobSpec& spec, const RankPlace& place) {
  const std::string at = absl::StrCat(spec.rankfile, ":", place.line, ": ");
  const bool listed =
      spec.Has(OptionId::kHosts) || spec.Has(OptionId::kHostfile) || spec.given_hosts.has_value();
  if (place.index) {
    if (*place.index < spec.hosts.size()) {
      return spec.hosts[*place.index];
    }
    return absl::InvalidArgumentError(
        absl::StrCat(at, "+n", *place.index, " is host ", *place.index, " of a list from 0, ",
                     listed ? absl::StrCat("which has ", Plural(spec.hosts.size(), "host", "hosts"))
                            : "and there is none: say --hosts or --hostfile, too"));
  }
  if (!listed) {
    HostEntry host;
    host.name = place.host;
    return host;
  }
  const auto it = std::find_if(spec.hosts.begin(), spec.hosts.end(), [&](const HostEntry& host) {
    return absl::EqualsIgnoreCase(host.name, place.host);
  });
  if (it == spec.hosts.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        at, "host '", place.host, "' is not in the list (", DescribeHosts(spec.hosts), ")"));
  }
  return *it;
}

absl::Status PlaceByRankFile(JobSpec& spec, const FileReader& read_file) {
  const absl::StatusOr<std::string> text = read_file(spec.rankfile);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat(spec.Said(OptionId::kRankfile), ": ",
                                                           text.status().message()));
  }
  ASSIGN_OR_RETURN(std::vector<RankPlace> places, ParseRankFile(*text, spec.rankfile));
  if (spec.total && *spec.total > places.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(TotalSaid(spec), ": ", spec.Said(OptionId::kRankfile), " places only ",
                     Plural(places.size(), "rank", "ranks"), ": add a line for each"));
  }
  places.resize(spec.total.value_or(static_cast<uint32_t>(places.size())));
  Dealer dealer;
  for (const RankPlace& place : places) {
    ASSIGN_OR_RETURN(const HostEntry host, HostOf(spec, place));
    RETURN_IF_ERROR(dealer.Deal(host, 1, absl::StrCat(spec.rankfile, ":", place.line)));
  }
  dealer.Take(spec);
  if (std::any_of(places.begin(), places.end(), [](const RankPlace& p) { return p.slots; })) {
    spec.notes.push_back(absl::StrCat(spec.Said(OptionId::kRankfile),
                                      ": slot= has no effect, --bind-to and --cpu-list have; ",
                                      "the host of each rank is as the file says"));
  }
  return absl::OkStatus();
}

// As Slurm writes it.
std::string ListOfNodes(const JobSpec& spec) {
  std::vector<std::string> names;
  names.reserve(spec.nodes.size());
  for (const NodeWorkers& node : spec.nodes) {
    names.push_back(node.host.name);
  }
  return SlurmHostList(names);
}

}  // namespace

std::string TotalSaid(const JobSpec& spec) {
  if (spec.further.empty()) {
    return spec.Said(OptionId::kTotal);
  }
  return absl::StrCat(absl::StrJoin(ProgramsOf(spec), " : ",
                                    [](std::string* out, const JobSpec* program) {
                                      out->append(program->Said(OptionId::kTotal));
                                    }),
                      " (", spec.total.value_or(0), " in all)");
}

bool NamesHosts(const JobSpec& spec) {
  return spec.Has(OptionId::kHosts) || spec.Has(OptionId::kHostfile) ||
         spec.Has(OptionId::kRankfile) || SaysProgram(spec, OptionId::kHosts) ||
         spec.given_hosts.has_value();
}

absl::Status PlaceOnHosts(JobSpec& spec, const FileReader& read_file) {
  const bool by_program = SaysProgram(spec, OptionId::kHosts);
  if (by_program && spec.Has(OptionId::kRankfile)) {
    return absl::InvalidArgumentError(absl::StrCat(
        spec.Said(OptionId::kRankfile),
        ": it places every rank, so programs behind ':' have no --hosts of their own"));
  }
  if (by_program) {
    return PlacePrograms(spec, read_file);
  }
  RETURN_IF_ERROR(ReadHosts(spec, read_file));
  RETURN_IF_ERROR(ExcludeHosts(spec));
  RETURN_IF_ERROR(spec.Has(OptionId::kRankfile) ? PlaceByRankFile(spec, read_file)
                                                : CountHosts(spec));
  if (spec.given_hosts.has_value() && spec.given_hosts->scheduler == Scheduler::kSlurm) {
    spec.plan.slurm_nodelist = ListOfNodes(spec);
  }
  return absl::OkStatus();
}

absl::Status Contradiction(const JobSpec& spec, OptionId a, OptionId b, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(spec.Said(a), " and ", spec.Said(b), " contradict: ", why));
}

}  // namespace muster
