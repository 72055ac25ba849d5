// What `launch doctor` and the probe on each node tell each other, as values and as lines of JSON:
// the request is an argument of the probe, its facts are a line of its stdout, the plan a line of
// its stdin, its results another line of its stdout. Pure.
//
// Both sides are of the same build, as the agents of a job are, so nothing here has a version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

inline constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
// Up to here every node tries every other one; above, a few chosen ones (PeersToTry).
inline constexpr uint32_t kProbeAllPairsMax = 16;

struct ProbeRequest {
  std::string iface;     // --iface; "" = by the route
  std::string route_to;  // another node of the job; "" = there is none
  uint16_t port_low = 0;
  uint16_t port_high = 0;
  std::string folder;             // where the job would run
  std::vector<std::string> argv;  // of the program, or of a Python where none was named
  std::string program_file;       // as typed; "" = none was named
};

struct ResolvedName {
  std::string name;
  std::vector<std::string> addresses;
  std::string error;  // "" = it resolves
  double took_s = 0;
};

struct DiskFacts {
  std::string path;
  std::string error;        // "" = it is there, and one may enter it
  std::string write_error;  // "" = one may write to it
  uint64_t bytes_total = 0;
  uint64_t bytes_free = 0;
};

struct GpuProcess {
  std::string gpu;  // as nvidia-smi names it
  uint32_t pid = 0;
  std::string name;
  std::string memory;  // "1024 MiB"
};

struct ProbeFacts {
  uint32_t rank = 0;
  uint32_t world_size = 0;
  std::string build;
  std::string hostname;
  std::string user;

  // network
  std::string address;  // that the other nodes are told; "" = none, `address_error` says why
  std::string interface;
  std::string address_why;
  std::string address_error;
  std::vector<std::string> addresses;  // all of this machine but loopback and link-local ones
  uint16_t port = 0;  // where the probe listens; 0 = nowhere, `port_error` says why
  std::string port_error;
  ResolvedName own_name;
  uint64_t somaxconn = 0;  // 0 = unknown
  uint16_t ephemeral_low = 0;
  uint16_t ephemeral_high = 0;
  std::vector<std::string> proxies;  // "https_proxy=http://..."
  std::string no_proxy;

  // limits; kUnlimited where there is none
  uint64_t nofile = kUnlimited;
  uint64_t nofile_hard = kUnlimited;
  uint64_t nproc = kUnlimited;
  uint64_t memlock = kUnlimited;
  uint64_t memory_left = kUnlimited;     // of the cgroup
  uint64_t processes_left = kUnlimited;  // of the cgroup
  DiskFacts shm;
  DiskFacts tmp;
  DiskFacts folder;

  // CPUs and GPUs
  uint32_t cpus_mask = 0;       // the affinity mask
  uint32_t cpus_here = 0;       // online, and in the cgroup's cpuset
  uint32_t cpus_allocated = 0;  // that a scheduler says are ours; 0 = it says nothing
  double cpu_quota = 0;         // cores; 0 = none
  uint32_t rdma_devices = 0;
  uint32_t gpus = 0;
  std::string gpu_driver;
  std::string gpu_error;  // of nvidia-smi where there are GPUs
  std::vector<GpuProcess> gpu_processes;

  // the program
  std::string python;          // path; "" = none was found
  std::string python_version;  // "3.11.2"
  std::string python_error;
  std::string torch_version;
  std::string torch_cuda;
  std::string program_path;
  std::string program_error;  // "" = it can be read, or none was named
  uint64_t program_bytes = 0;
  std::string program_hash;

  double sent_at = 0;  // its wall clock, seconds since 1970
};

struct ProbePeer {
  uint32_t rank = 0;
  std::string name;     // as the user's list has it
  std::string address;  // "" = it has none, or listens nowhere: it is not tried
  uint16_t port = 0;
};

struct ProbePlan {
  std::string word;  // that a caller says to the probe it calls: strangers get no answer
  std::vector<ProbePeer> nodes;  // in the order of their ranks, which begin at 0
};

struct PairResult {
  uint32_t to = 0;
  // "" = all of it went well, else the step that failed: "connect", "small" or "large" (packets).
  std::string failed;
  std::string error;
  std::string source;       // the address that the kernel chose here
  double round_trip_s = 0;  // 0 = was not measured, nor was what follows
  double bytes_per_s = 0;
};

struct ProbeResults {
  uint32_t rank = 0;
  double received_at = 0;  // of the plan, by this node's wall clock
  double sent_at = 0;
  std::vector<PairResult> pairs;
  std::vector<ResolvedName> names;  // of the other nodes
};

// Whom the node `rank` of `nodes` calls: all others up to kProbeAllPairsMax, else those 1, 2, 4, 8
// ... places behind it, so that each node is called as often as it calls.
std::vector<uint32_t> PeersToTry(uint32_t rank, uint32_t nodes);

// One line each, without its newline.
std::string ToLine(const ProbeRequest& request);
std::string ToLine(const ProbeFacts& facts);
std::string ToLine(const ProbePlan& plan);
std::string ToLine(const ProbeResults& results);

// InvalidArgument: not such a line; names the field.
absl::StatusOr<ProbeRequest> ParseProbeRequest(absl::string_view line);
absl::StatusOr<ProbeFacts> ParseProbeFacts(absl::string_view line);
absl::StatusOr<ProbePlan> ParseProbePlan(absl::string_view line);
absl::StatusOr<ProbeResults> ParseProbeResults(absl::string_view line);

}  // namespace muster
