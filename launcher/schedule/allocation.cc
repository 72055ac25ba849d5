#include "launcher/schedule/allocation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// Every value is bounded by kWorkersPerNodeMax * kNodesMax = 2^26 or kWorldSizeMax: sums fit 64
// bits by far.
uint64_t Sum(const std::vector<uint32_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

std::string HostCount(size_t n) { return Plural(n, "host", "hosts"); }

// Hosts that rules A1, A2 and A5 leave; the rest of the list is not used.
absl::StatusOr<size_t> HostsUsed(const AllocationRequest& r) {
  const size_t listed = r.hosts.size();
  if (r.nodes_min && r.nodes_min->value > listed) {
    return absl::InvalidArgumentError(absl::StrCat(
        r.nodes_min->said, " wants ", r.nodes_min->value == r.nodes_max->value ? "" : "at least ",
        Plural(r.nodes_min->value, "node", "nodes"), ", but ", r.hosts_said, " names ",
        HostCount(listed), ": name more hosts, or ask for fewer nodes"));
  }
  const size_t most = r.nodes_max ? std::min<size_t>(listed, r.nodes_max->value) : listed;
  const auto& per_node = r.exact ? r.exact : r.per_node;
  if (!r.total || !per_node) {
    return most;
  }
  const uint32_t p = per_node->value;
  const uint32_t n = r.total->value;
  const size_t needed = n / p + (n % p != 0 ? 1 : 0);
  const bool fixed = r.nodes_min.has_value();
  const uint64_t room = uint64_t{p} * most;
  if (r.exact && (n % p != 0 || needed > most || (fixed && (needed < r.nodes_min->value)))) {
    const size_t nodes = fixed || needed > most ? most : needed;
    return absl::InvalidArgumentError(absl::StrCat(
        r.total->said, " and ", per_node->said, " disagree: ", Plural(nodes, "node", "nodes"),
        " with ", p, " each make ", uint64_t{p} * nodes, " workers (",
        fixed ? r.nodes_min->said : r.hosts_said, "); give one of the two"));
  }
  if (needed > most && !r.oversubscribe) {
    return absl::InvalidArgumentError(
        absl::StrCat(r.total->said, " does not fit: ", per_node->said, " on ", HostCount(most),
                     " (", r.hosts_said, ") makes ", room, "; name more hosts, raise ",
                     per_node->said, ", or allow it with --oversubscribe"));
  }
  if (fixed && needed < r.nodes_min->value) {
    return absl::InvalidArgumentError(absl::StrCat(
        r.total->said, " with ", per_node->said, " fills ", Plural(needed, "node", "nodes"),
        ", but ", r.nodes_min->said, " asks for ", r.nodes_min->value, ": lower one of them"));
  }
  return std::min(needed, most);
}

// What a host gets at one time where they are served one after the other.
uint64_t AtOneTime(const AllocationRequest& r, size_t host) {
  if (r.order != RankOrder::kGoRound) {
    return 1;
  }
  return r.per_node ? r.per_node->value : std::max<uint32_t>(r.hosts[host].slots, 1);
}

// Deals `left` workers out in turn to nodes that `room` allows; returns what is left over. O(nodes
// * rounds) with rounds <= the largest room.
uint64_t DealOut(const AllocationRequest& r, uint64_t left, const std::vector<uint64_t>& room,
                 std::vector<uint32_t>& counts) {
  for (bool dealt = true; left > 0 && dealt;) {
    dealt = false;
    for (size_t i = 0; i < counts.size(); ++i) {
      const uint64_t more = std::min({left, AtOneTime(r, i), room[i] - counts[i]});
      counts[i] += static_cast<uint32_t>(more);
      left -= more;
      dealt = dealt || more > 0;
    }
  }
  return left;
}

// A6, A7: more workers than slots, `left` of them, in turn; as many as max_slots= allows.
absl::Status DealOver(const AllocationRequest& r, uint64_t left, std::vector<uint32_t>& counts) {
  std::vector<uint64_t> room;
  for (size_t i = 0; i < counts.size(); ++i) {
    const uint32_t most = r.hosts[i].slots_max != 0 ? r.hosts[i].slots_max : kWorkersPerNodeMax;
    room.push_back(std::max(most, counts[i]));
  }
  left = DealOut(r, left, room, counts);
  return left == 0 ? absl::OkStatus()
                   : absl::InvalidArgumentError(absl::StrCat(
                         r.total->said, " does not fit: the hosts of ", r.hosts_said, " may have ",
                         r.total->value - left, " workers, --oversubscribe or not (max_slots=, ",
                         "and ", kWorkersPerNodeMax, " each); name more hosts, or raise that"));
}

// A3, A6 and A8; every host has a known number of slots.
absl::StatusOr<std::vector<uint32_t>> PlaceTotal(const AllocationRequest& r, size_t used) {
  const uint32_t n = r.total->value;
  std::vector<uint32_t> counts(used, 0);
  std::vector<uint64_t> slots;
  for (size_t i = 0; i < used; ++i) {
    slots.push_back(r.hosts[i].slots);
  }
  uint64_t left = n;
  if (r.nodes_min || r.order == RankOrder::kInTurn) {
    left = DealOut(r, left, slots, counts);
  } else {
    for (size_t i = 0; i < used; ++i) {
      counts[i] = static_cast<uint32_t>(std::min<uint64_t>(left, slots[i]));
      left -= counts[i];
    }
  }
  if (left > 0 && r.oversubscribe) {
    RETURN_IF_ERROR(DealOver(r, left, counts));
  } else if (left > 0) {
    const uint64_t all = std::accumulate(slots.begin(), slots.end(), uint64_t{0});
    const uint64_t each = (n + used - 1) / used;
    return absl::InvalidArgumentError(absl::StrCat(
        r.total->said, " does not fit: ", r.hosts_said, " has ", Plural(all, "slot", "slots"),
        " on ", HostCount(used), "; give the hosts their slots (as in '", r.hosts[0].name, ":",
        each, n % used == 0 ? absl::StrCat("'), replace -n by --nproc-per-node ", each) : "')",
        ", or allow it with --oversubscribe"));
  }
  while (!counts.empty() &&
         counts.back() == 0) {  // only the last ones can be empty: nodes fill in order
    counts.pop_back();
  }
  return counts;
}

absl::StatusOr<std::vector<uint32_t>> Counts(const AllocationRequest& r, size_t used) {
  if (r.total && !r.exact && !r.per_node) {
    for (size_t i = 0; i < used; ++i) {
      if (r.hosts[i].by_cpus) {
        return absl::InvalidArgumentError(
            absl::StrCat(r.total->said, " needs the slots of every host, and ", r.hosts_said,
                         " gives none for '", r.hosts[i].name, "': add slots=N there"));
      }
    }
    return PlaceTotal(r, used);
  }
  std::vector<uint32_t> counts;
  for (size_t i = 0; i < used; ++i) {
    counts.push_back(r.exact ? r.exact->value : r.per_node ? r.per_node->value : r.hosts[i].slots);
  }
  if (r.total && r.per_node && !r.exact) {  // A2: the last node gets the rest
    const uint64_t all = Sum(counts);
    if (all >= r.total->value) {
      counts.back() -= static_cast<uint32_t>(all - r.total->value);
    } else {
      RETURN_IF_ERROR(DealOver(r, r.total->value - all, counts));
    }
  }
  return counts;
}

// A7, A8: ranks as the workers were dealt out.
std::vector<std::vector<uint32_t>> RanksInTurn(const AllocationRequest& r,
                                               const std::vector<uint32_t>& counts) {
  std::vector<std::vector<uint32_t>> ranks(counts.size());
  const uint64_t all = Sum(counts);
  for (uint32_t next = 0; next < all;) {
    for (size_t i = 0; i < counts.size(); ++i) {
      for (uint64_t k = AtOneTime(r, i); k > 0 && ranks[i].size() < counts[i]; --k) {
        ranks[i].push_back(next++);
      }
    }
  }
  return ranks;
}

}  // namespace

void SetRanks(std::vector<std::vector<uint32_t>> ranks, std::vector<NodeWorkers>& nodes) {
  uint32_t next = 0;
  bool in_order = true;
  for (const std::vector<uint32_t>& of_node : ranks) {
    for (const uint32_t rank : of_node) {
      in_order = in_order && rank == next++;
    }
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].workers = static_cast<uint32_t>(ranks[i].size());
    nodes[i].ranks = in_order ? std::vector<uint32_t>() : std::move(ranks[i]);
  }
}

std::vector<uint32_t> SpreadEvenly(uint32_t total, uint32_t nodes) {
  std::vector<uint32_t> counts(nodes, total / nodes);
  for (uint32_t i = 0; i < total % nodes; ++i) {
    ++counts[i];
  }
  return counts;
}

absl::StatusOr<Allocation> AllocateHosts(const AllocationRequest& r) {
  Allocation out;
  ASSIGN_OR_RETURN(const size_t used, HostsUsed(r));
  if (r.nodes_min && r.total && r.total->value < r.nodes_min->value) {
    return absl::InvalidArgumentError(
        absl::StrCat(r.total->said, " is less than one worker a node: ", r.nodes_min->said,
                     " asks for ", r.nodes_min->value));
  }
  if (r.wanted != WorkersWanted::kNumber) {
    for (size_t i = 0; i < used; ++i) {
      out.nodes.push_back({r.hosts[i], r.wanted, 1});
    }
  } else {
    ASSIGN_OR_RETURN(const std::vector<uint32_t> counts, Counts(r, used));
    for (size_t i = 0; i < counts.size(); ++i) {
      const bool by_cpus = r.hosts[i].by_cpus && !r.exact && !r.per_node;
      out.nodes.push_back(
          {r.hosts[i], by_cpus ? WorkersWanted::kCpu : WorkersWanted::kNumber, counts[i]});
    }
    if (Sum(counts) > kWorldSizeMax) {
      return absl::InvalidArgumentError(absl::StrCat(r.hosts_said, ": want at most ", kWorldSizeMax,
                                                     " workers in a job, got ", Sum(counts)));
    }
    const bool known = std::all_of(out.nodes.begin(), out.nodes.end(), [](const NodeWorkers& node) {
      return node.wanted == WorkersWanted::kNumber;
    });
    if (r.order != RankOrder::kFill && known) {
      SetRanks(RanksInTurn(r, counts), out.nodes);
    }
  }
  out.nodes_min = static_cast<uint32_t>(r.nodes_min && r.nodes_min->value < r.nodes_max->value
                                            ? r.nodes_min->value
                                            : out.nodes.size());
  if (out.nodes.size() < r.hosts.size()) {
    const std::string& why = r.nodes_max && out.nodes.size() == r.nodes_max->value
                                 ? r.nodes_max->said
                             : r.total ? r.total->said
                                       : r.nodes_max->said;
    out.notes.push_back(absl::StrCat("the first ", out.nodes.size(), " of ", r.hosts.size(),
                                     " hosts are used (", why, ")"));
  }
  return out;
}

}  // namespace muster
