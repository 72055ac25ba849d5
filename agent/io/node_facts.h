// Reads what NodeFacts holds from the machine: address, CPUs, GPUs. Any thread; a few small files
// and one socket that sends nothing, below 1 ms. Never resolves the machine's own name.
//
// Invariants (cited by tests):
//  N1 an address for other nodes is never link-local, and loopback only where nothing else is;
//  N2 files that are missing or unreadable never make the number of CPUs smaller.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "agent/core/cpu_count.h"
#include "agent/core/facts.h"

namespace muster {

struct NodeQuery {
  bool other_nodes = false;            // false: one machine, 127.0.0.1 and no interface
  std::string iface;                   // --iface NAME | CIDR: decides where given
  std::string route_to;                // host or address of the master; a name is resolved
  bool route_is_hint = false;          // a name that only ssh or a scheduler knows is left out
  std::string ssh_connection;          // $SSH_CONNECTION: where sshd was reached; else the route
  const char* cuda_visible = nullptr;  // $CUDA_VISIBLE_DEVICES; null = not set
  std::string cpu_list;                // --cpu-list
  uint32_t slurm_cpus = 0;             // of CpuBounds
  std::string root;                    // in front of /proc, /sys and /dev; tests only
};

// What this process's environment says, and --cpu-list; no other node is asked for.
NodeQuery OwnQuery(const std::string& cpu_list);

// Errors: InvalidArgument (--iface or --cpu-list names nothing here; the text says what there is),
// Unavailable (route_to does not resolve).
absl::StatusOr<NodeFacts> ReadNodeFacts(const NodeQuery& query);

// The process's own environment, in order, bytes as they are.
std::vector<std::string> OwnEnvironment();
// The folder it is in, by the name that $PWD has for it if that is right: one through links may be
// the one that other machines know. "" = the folder is gone.
std::string OwnFolder();

// The parts, each with the files below `root`.
std::string Hostname();
CpuSet AffinityMask();
// The cgroup's cpuset; nullopt = it has none, or it cannot be read.
std::optional<CpuSet> CgroupCpus(const std::string& root);
CpuSet OnlineCpus(const std::string& root);
// `mask` ∩ the cgroup's cpuset.
CpuSet AllowedCpus(CpuSet mask, const std::string& root);
// Cores that the cgroup's quota allows, over all levels of it; 0 = none.
double CpuQuota(const std::string& root);
uint32_t CountGpus(const std::string& root, const char* cuda_visible);
// What an entry of CUDA_VISIBLE_DEVICES names: a number, or the beginning of a UUID.
struct VisibleGpu {
  std::optional<uint32_t> number;
  std::string uuid;
};
// By CUDA's rule: the list ends at the first entry that names nothing.
std::vector<VisibleGpu> VisibleGpus(size_t present, absl::string_view list);
uint32_t CountRdmaDevices(const std::string& root);

// Whether `host` is a name of this machine that needs no resolver: localhost, its own, or one of
// its addresses.
bool IsThisMachine(const std::string& host);
// The same for any name: it resolves to addresses of this machine alone. Blocks as long as the
// resolver does.
bool ResolvesHere(const std::string& host);

// Of interfaces that are up, but loopback and link-local ones; those of bridges of containers and
// virtual machines come last.
std::vector<std::string> OwnAddresses();

struct LocalAddress {
  std::string address;
  std::string interface;
  std::string why;
};
// By the order of NodeQuery's fields, else the default route, else the first interface that is up
// and not a bridge of containers or virtual machines, else loopback.
absl::StatusOr<LocalAddress> ChooseAddress(const NodeQuery& query);

}  // namespace muster
