// What the nodes see of each other.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "launcher/doctor/checks.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// What a lookup may take before it shows in a job's start.
constexpr double kResolveSlow = 1;
// Between two nodes of one cluster; Fast Ethernet carries less than this.
constexpr double kBytesPerSecondMin = 20e6;
constexpr double kRoundTripSuspect = 5e-3;
constexpr double kRoundTripBad = 50e-3;
// A wall clock that is off by more: log lines do not match, files seem to come from the future;
// and certificates and tickets are refused.
constexpr double kClockSuspect = 1;
constexpr double kClockBad = 60;

bool AnyOf(const std::vector<std::string>& wanted, const std::vector<std::string>& in) {
  return std::any_of(wanted.begin(), wanted.end(), [&](const std::string& one) {
    return std::find(in.begin(), in.end(), one) != in.end();
  });
}

// The node of that rank; null where it said nothing.
const ExaminedNode* NodeOf(const Examination& examined, uint32_t rank) {
  const bool known = rank < examined.nodes.size() && examined.nodes[rank].facts.has_value();
  return known ? &examined.nodes[rank] : nullptr;
}

// Calls `take(from, to, result)` for each pair that was tried.
template <typename F>
void EachPair(const Examination& examined, F take) {
  for (const ExaminedNode& node : examined.nodes) {
    if (!node.results.has_value()) {
      continue;
    }
    for (const PairResult& pair : node.results->pairs) {
      if (const ExaminedNode* to = NodeOf(examined, pair.to); to != nullptr) {
        take(node, *to, pair);
      }
    }
  }
}

// Of a node that is alone, as it has nobody to try; where others said nothing, nobody looked.
void WellAlone(const char* seen, const Examination& examined, CheckRows& check) {
  if (examined.nodes.size() == 1) {
    check.ElseWell(seen);
  }
}

// Calls `take(other, name)` for each other node whose name was looked up by `node`.
template <typename F>
void EachName(const Examination& examined, const ExaminedNode& node, F take) {
  if (!node.results.has_value()) {
    return;
  }
  const std::vector<ResolvedName>& names = node.results->names;
  const std::vector<uint32_t> peers = PeersToTry(node.facts->rank, examined.in_plan);
  for (size_t i = 0; i < std::min(names.size(), peers.size()); ++i) {
    if (const ExaminedNode* other = NodeOf(examined, peers[i]); other != nullptr) {
      take(*other, names[i]);
    }
  }
}

std::string Arrow(const ExaminedNode& from, const ExaminedNode& to) {
  return absl::StrCat(from.name, " -> ", to.name);
}

void CheckOtherName(const ExaminedNode& node, const ExaminedNode& other, const ResolvedName& name,
                    CheckRows& check) {
  const std::string advice = absl::StrCat("in /etc/hosts of ", node.name, ", or in DNS: '",
                                          other.facts->address, " ", name.name, "'");
  if (!name.error.empty()) {
    check.Suspect(node.name,
                  absl::StrCat(name.name, " does not resolve there (", name.error,
                               "); launch goes by addresses, a program may not"),
                  advice);
  } else if (!AnyOf(name.addresses, other.facts->addresses)) {
    check.Bad(node.name,
              absl::StrCat(name.name, " is ", absl::StrJoin(name.addresses, ", "),
                           " there; that node has ", absl::StrJoin(other.facts->addresses, ", ")),
              advice);
  } else if (name.took_s > kResolveSlow) {
    check.Suspect(node.name,
                  absl::StrFormat("%s took %.1f s to resolve there", name.name, name.took_s),
                  absl::StrCat("see the servers of /etc/resolv.conf on ", node.name));
  }
}

// Whether one of `entries` of a no_proxy variable means `host`.
bool Covered(const std::vector<std::string>& entries, absl::string_view host) {
  return std::any_of(entries.begin(), entries.end(), [&](absl::string_view entry) {
    absl::ConsumePrefix(&entry, "*");
    if (entry.empty()) {  // it was "*"
      return true;
    }
    absl::ConsumePrefix(&entry, ".");
    return host == entry || absl::EndsWith(host, absl::StrCat(".", entry));
  });
}

double CertainlyOff(const ExaminedNode& node) {
  // What was sent comes later than it was sent: each message bounds the offset from one side.
  double low = node.facts->sent_at - node.facts_at;
  double high = std::numeric_limits<double>::infinity();
  if (node.results.has_value()) {
    low = std::max(low, node.results->sent_at - node.results_at);
    high = node.results->received_at - node.plan_at;
  }
  return low > 0 ? low : high < 0 ? high : 0;
}

}  // namespace

void CheckNames(const Examination& examined, Rows& rows) {
  CheckRows check("names", rows);
  if (!examined.several_machines) {
    return check.ElseWell("one machine: nobody else asks for its name");
  }
  size_t asked = 0;
  for (const ExaminedNode& node : examined.nodes) {
    if (!node.facts.has_value()) {
      continue;
    }
    check.Add(node.name, OwnNameFindings(node.name, *node.facts));
    EachName(examined, node, [&](const ExaminedNode& other, const ResolvedName& name) {
      if (name.name != "localhost" && !IsLoopback(name.name)) {  // which are each machine's own
        CheckOtherName(node, other, name, check);
        ++asked;
      }
    });
  }
  check.ElseWell(
      absl::StrCat("every node knows its own name",
                   asked == 0 ? "" : absl::StrCat(", and that of others (", asked, " looked up)")));
}

void CheckAddresses(const Examination& examined, Rows& rows) {
  CheckRows check("addresses", rows);
  Values interfaces;
  for (const ExaminedNode& node : examined.nodes) {
    if (!node.facts.has_value()) {
      continue;
    }
    const ProbeFacts& facts = *node.facts;
    AddValue(facts.interface.empty() ? "no interface" : facts.interface, node.name, interfaces);
    if (!facts.address_error.empty()) {
      check.Bad(node.name, facts.address_error,
                "give an interface or a network that all have: --iface");
    } else if (examined.several_machines && IsLoopback(facts.address)) {
      check.Bad(node.name,
                absl::StrCat("other nodes would be told ", facts.address, " (", facts.address_why,
                             "), which is each machine itself"),
                absl::StrCat("give the network between the nodes: --iface NAME or --iface CIDR "
                             "(`ip -brief address` on ",
                             node.name, " lists them)"));
    }
  }
  EachPair(examined, [&](const ExaminedNode& from, const ExaminedNode& to, const PairResult& pair) {
    if (!pair.source.empty() && pair.source != from.facts->address && examined.several_machines) {
      check.Suspect(Arrow(from, to),
                    absl::StrCat("goes out from ", pair.source, ", while others are told ",
                                 from.facts->address, ": two networks, of which one may be slow"),
                    absl::StrCat("choose one: --iface, or mend the route (`ip route get ",
                                 to.facts->address, "` on ", from.name, ")"));
    }
  });
  check.ElseWell(absl::StrCat("interface ", ValuesText(interfaces)));
}

void CheckPorts(const Examination& examined, Rows& rows) {
  CheckRows check("ports", rows);
  const PortRange& range = examined.ports;
  for (const ExaminedNode& node : examined.nodes) {
    if (!node.facts.has_value()) {
      continue;
    }
    const ProbeFacts& facts = *node.facts;
    if (!facts.port_error.empty()) {
      check.Bad(node.name, facts.port_error,
                "give a range with free ports, one more than the job needs for the doctor: "
                "--port-range LOW-HIGH");
    } else if (!range.Any() && range.low <= facts.ephemeral_high &&
               facts.ephemeral_low <= range.high) {
      check.Suspect(node.name,
                    absl::StrCat("--port-range ", range.Text(),
                                 " is among the ports that the kernel "
                                 "gives to any connection (",
                                 facts.ephemeral_low, "-", facts.ephemeral_high,
                                 "): one of them may be taken"),
                    absl::StrCat("take a range outside, or on each node: sysctl "
                                 "net.ipv4.ip_local_reserved_ports=",
                                 range.Text()));
    }
  }
  check.ElseWell(range.Any()
                     ? "any, as no --port-range is given"
                     : absl::StrCat("--port-range ", range.Text(), " has room on every node"));
}

void CheckConnections(const Examination& examined, Rows& rows) {
  CheckRows check("connections", rows);
  size_t good = 0;
  EachPair(examined, [&](const ExaminedNode& from, const ExaminedNode& to, const PairResult& pair) {
    if (pair.failed != "connect" && pair.failed != "small") {
      ++good;
      return;
    }
    check.Bad(
        Arrow(from, to),
        absl::StrCat(pair.failed == "connect" ? "TCP to " : "TCP holds, and nothing passes, to ",
                     to.facts->address, " port ", to.facts->port, ": ", pair.error),
        absl::StrCat("look at the route (`ip route get ", to.facts->address, "` on ", from.name,
                     ") and the firewalls of both (`nft list ruleset`); where only some ports "
                     "are open: --port-range LOW-HIGH"));
  });
  if (good == 0) {
    return WellAlone("there is no other node to call", examined, check);
  }
  check.ElseWell(absl::StrCat(
      "TCP in both directions: ", Plural(good, "try", "tries"),
      examined.in_plan > kProbeAllPairsMax ? ", a sample of all pairs" : ", all pairs"));
}

void CheckLargePackets(const Examination& examined, Rows& rows) {
  CheckRows check("large packets", rows);
  bool any = false;
  EachPair(examined, [&](const ExaminedNode& from, const ExaminedNode& to, const PairResult& pair) {
    any = true;
    if (pair.failed == "large") {
      check.Bad(
          Arrow(from, to),
          absl::StrCat("small packets pass, large ones are lost (", pair.error,
                       "): something on the way has a smaller MTU, or drops them"),
          absl::StrCat("compare `ip link` of both and the switches between; `ping -M do -s 1472 ",
                       to.facts->address, "` on ", from.name,
                       " tells whether 1500 bytes pass; else: ip link set ", from.facts->interface,
                       " mtu 1400"));
    }
  });
  if (!any) {
    return WellAlone("there is no other node to send any to", examined, check);
  }
  check.ElseWell("64 KiB at once pass wherever a connection holds");
}

void CheckSpeed(const Examination& examined, Rows& rows) {
  CheckRows check("speed", rows);
  std::vector<double> rates;
  std::vector<double> trips;
  EachPair(examined, [&](const ExaminedNode& from, const ExaminedNode& to, const PairResult& pair) {
    if (!pair.failed.empty() || pair.round_trip_s == 0) {
      return;
    }
    rates.push_back(pair.bytes_per_s);
    trips.push_back(pair.round_trip_s);
    const std::string trip = absl::StrFormat("a round trip takes %.1f ms", pair.round_trip_s * 1e3);
    const std::string hint = absl::StrCat("`ip route get ", to.facts->address, "` on ", from.name,
                                          ": is it the network that is meant? else --iface");
    const bool far = pair.round_trip_s > kRoundTripBad;
    if (far) {
      check.Bad(Arrow(from, to), trip, hint);
    } else if (pair.round_trip_s > kRoundTripSuspect) {
      check.Suspect(Arrow(from, to), trip, hint);
    }
    if (pair.bytes_per_s < kBytesPerSecondMin) {
      check.Bad(Arrow(from, to),
                absl::StrFormat("%.1f MB/s, in a short sample%s", pair.bytes_per_s / 1e6,
                                far ? ", in which round trips take their part" : ""),
                far ? hint
                    : absl::StrCat(hint, "; `ethtool ", from.facts->interface,
                                   "` tells the link's speed"));
    }
  });
  if (rates.empty()) {
    return WellAlone("there is nothing to measure", examined, check);
  }
  const auto [slow, fast] = std::minmax_element(rates.begin(), rates.end());
  const auto [near, far] = std::minmax_element(trips.begin(), trips.end());
  check.ElseWell(absl::StrFormat("%.0f to %.0f MB/s in a short sample, round trips %.2f to %.2f ms",
                                 *slow / 1e6, *fast / 1e6, *near * 1e3, *far * 1e3));
}

void CheckProxies(const Examination& examined, Rows& rows) {
  CheckRows check("proxies", rows);
  for (const ExaminedNode& node : examined.nodes) {
    if (!node.facts.has_value() || node.facts->proxies.empty()) {
      continue;
    }
    const std::vector<std::string> entries =
        absl::StrSplit(node.facts->no_proxy, absl::ByAnyChar(", "), absl::SkipEmpty());
    std::vector<std::string> missing;
    for (const ExaminedNode& other : examined.nodes) {
      for (const std::string& host :
           {other.name, other.facts.has_value() ? other.facts->address : ""}) {
        if (!host.empty() && !Covered(entries, host) &&
            std::find(missing.begin(), missing.end(), host) == missing.end()) {
          missing.push_back(host);
        }
      }
    }
    if (!missing.empty()) {
      check.Bad(node.name,
                absl::StrCat(absl::StrJoin(node.facts->proxies, " "),
                             " without a no_proxy that covers the nodes: gRPC (JAX, etcd) between "
                             "them hangs"),
                absl::StrCat("-x no_proxy=", absl::StrJoin(entries, ","),
                             entries.empty() ? "" : ",", absl::StrJoin(missing, ",")));
    }
  }
  check.ElseWell("none set that would stand between the nodes");
}

void CheckClocks(const Examination& examined, Rows& rows) {
  CheckRows check("clocks", rows);
  for (const ExaminedNode& node : examined.nodes) {
    if (!node.facts.has_value()) {
      continue;
    }
    const double off = CertainlyOff(node);
    const std::string seen =
        absl::StrFormat("%s %s this machine's clock", ShortDuration(absl::Seconds(std::abs(off))),
                        off > 0 ? "ahead of" : "behind");
    const std::string fix =
        absl::StrCat("on ", node.name, ": timedatectl set-ntp true, or: chronyc makestep");
    if (std::abs(off) > kClockBad) {
      check.Bad(node.name, seen, fix);
    } else if (std::abs(off) > kClockSuspect) {
      check.Suspect(node.name, seen, fix);
    }
  }
  check.ElseWell("as this machine's, to a second");
}

}  // namespace muster
