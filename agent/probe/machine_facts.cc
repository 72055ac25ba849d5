#include "agent/probe/machine_facts.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/core/cpu_count.h"
#include "agent/io/node_facts.h"
#include "agent/io/small_file.h"
#include "agent/probe/node_checks.h"

namespace muster {
namespace {

constexpr size_t kKernelFileBytesMax = 8192;
// Both spellings are read by somebody; gRPC looks at the first four.
constexpr const char* kProxyNames[] = {"grpc_proxy",  "https_proxy", "http_proxy", "all_proxy",
                                       "HTTPS_PROXY", "HTTP_PROXY",  "ALL_PROXY"};
constexpr const char* kNoProxyNames[] = {"no_grpc_proxy", "no_proxy", "NO_PROXY"};
// Where a scheduler says how many CPUs of this node are ours.
constexpr const char* kAllocatedNames[] = {"SLURM_CPUS_ON_NODE", "NCPUS"};

std::string ReadSmall(const std::string& path) { return ReadHead(path, kKernelFileBytesMax); }

uint64_t SoftLimit(__rlimit_resource resource, uint64_t* hard = nullptr) {
  rlimit limit{};
  getrlimit(resource, &limit);
  static_assert(RLIM_INFINITY == kUnlimited);
  if (hard != nullptr) {
    *hard = limit.rlim_max;
  }
  return limit.rlim_cur;
}

// The file of a controller in the cgroup of this process: as the host has it mounted, or at the
// root where a container sees its own group there.
std::string CgroupFile(const std::string& root, const std::string& controller,
                       const std::string& v1_name, const std::string& v2_name) {
  const std::vector<CgroupLine> lines =
      ParseCgroupFile(ReadSmall(absl::StrCat(root, "/proc/self/cgroup")));
  const CgroupLine* line = FindCgroup(lines, controller);
  if (line == nullptr) {
    return "";
  }
  const bool v2 = line->controllers.empty();
  const std::string mount =
      absl::StrCat(root, "/sys/fs/cgroup", v2 ? "" : "/", v2 ? "" : controller);
  const std::string& name = v2 ? v2_name : v1_name;
  const std::string own = ReadSmall(absl::StrCat(mount, line->path, "/", name));
  return own.empty() ? ReadSmall(absl::StrCat(mount, "/", name)) : own;
}

}  // namespace

uint64_t LeftOf(const std::string& limit, const std::string& used) {
  uint64_t limit_value = 0;
  uint64_t used_value = 0;
  // cgroup v1 says "no limit" with a number that no machine has.
  if (!absl::SimpleAtoi(limit, &limit_value) || limit_value >= kUnlimited / 4) {
    return kUnlimited;
  }
  (void)absl::SimpleAtoi(used, &used_value);
  return limit_value - std::min(limit_value, used_value);
}

std::vector<std::string> HostsFileAddresses(absl::string_view text, absl::string_view name) {
  std::vector<std::string> out;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (!words.empty() && std::find(words.begin() + 1, words.end(), name) != words.end()) {
      out.emplace_back(words[0]);
    }
  }
  return out;
}

ProbeFacts ReadQuickFacts(const NodeFacts& node, const rlimit& files, const FindVariable& find) {
  ProbeFacts facts;
  facts.hostname = node.hostname;
  facts.address = node.address;
  // Nobody is asked: what the file says is what most programs will find.
  facts.own_name.name = node.hostname;
  facts.own_name.addresses = HostsFileAddresses(ReadSmall("/etc/hosts"), node.hostname);
  ReadNetworkFacts("", find, facts);
  ReadLimitFacts("", facts);
  facts.nofile = files.rlim_cur;
  facts.nofile_hard = files.rlim_max;
  ReadCpuFacts("", facts);
  facts.shm = ReadDiskFacts("/dev/shm");
  return facts;
}

std::vector<std::string> DoubtsOfNode(const NodeFacts& node, const rlimit& files,
                                      const FindVariable& find) {
  return QuickDoubts(node.hostname, ReadQuickFacts(node, files, find));
}

void ReadAddressFacts(const ProbeRequest& request, ProbeFacts& facts) {
  NodeQuery query;
  query.other_nodes = true;
  query.iface = request.iface;
  query.route_to = request.route_to;
  query.route_is_hint = true;
  const char* ssh = std::getenv("SSH_CONNECTION");
  query.ssh_connection = ssh == nullptr ? "" : ssh;
  const absl::StatusOr<LocalAddress> chosen = ChooseAddress(query);
  if (chosen.ok()) {
    facts.address = chosen->address;
    facts.interface = chosen->interface;
    facts.address_why = chosen->why;
  } else {
    facts.address_error = std::string(chosen.status().message());
  }
  facts.addresses = OwnAddresses();
}

void ReadNetworkFacts(const std::string& root, const FindVariable& find, ProbeFacts& facts) {
  (void)absl::SimpleAtoi(ReadSmall(absl::StrCat(root, "/proc/sys/net/core/somaxconn")),
                         &facts.somaxconn);
  const std::string ports = ReadSmall(absl::StrCat(root, "/proc/sys/net/ipv4/ip_local_port_range"));
  const std::vector<std::string> ends =
      absl::StrSplit(ports, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  uint32_t low = 0;
  uint32_t high = 0;
  if (ends.size() == 2 && absl::SimpleAtoi(ends[0], &low) && absl::SimpleAtoi(ends[1], &high)) {
    facts.ephemeral_low = static_cast<uint16_t>(low);
    facts.ephemeral_high = static_cast<uint16_t>(high);
  }
  for (const char* name : kProxyNames) {
    if (const char* value = find(name); value != nullptr && value[0] != '\0') {
      facts.proxies.push_back(absl::StrCat(name, "=", value));
    }
  }
  for (const char* name : kNoProxyNames) {
    if (const char* value = find(name); value != nullptr && facts.no_proxy.empty()) {
      facts.no_proxy = value;
    }
  }
}

void ReadLimitFacts(const std::string& root, ProbeFacts& facts) {
  facts.nofile = SoftLimit(RLIMIT_NOFILE, &facts.nofile_hard);
  facts.nproc = geteuid() == 0 ? kUnlimited : SoftLimit(RLIMIT_NPROC);  // root has none
  facts.memlock = SoftLimit(RLIMIT_MEMLOCK);
  facts.memory_left = LeftOf(CgroupFile(root, "memory", "memory.limit_in_bytes", "memory.max"),
                             CgroupFile(root, "memory", "memory.usage_in_bytes", "memory.current"));
  facts.processes_left = LeftOf(CgroupFile(root, "pids", "pids.max", "pids.max"),
                                CgroupFile(root, "pids", "pids.current", "pids.current"));
}

void ReadCpuFacts(const std::string& root, ProbeFacts& facts) {
  CpuSet all;
  const int64_t online = sysconf(_SC_NPROCESSORS_ONLN);
  for (uint32_t cpu = 0; cpu < online; ++cpu) {
    all.Add(cpu);
  }
  facts.cpus_mask = AffinityMask().Count();
  facts.cpus_here = AllowedCpus(all, root).Count();
  facts.cpu_quota = CpuQuota(root);
  for (const char* name : kAllocatedNames) {
    if (const char* value = std::getenv(name); value != nullptr && facts.cpus_allocated == 0 &&
                                               !absl::SimpleAtoi(value, &facts.cpus_allocated)) {
      facts.cpus_allocated = 0;
    }
  }
  facts.rdma_devices = CountRdmaDevices(root);
  facts.gpus = CountGpus(root, std::getenv("CUDA_VISIBLE_DEVICES"));
}

DiskFacts ReadDiskFacts(const std::string& path) {
  DiskFacts out;
  out.path = path;
  struct statvfs disk {};
  struct stat folder {};
  if (statvfs(path.c_str(), &disk) != 0 || stat(path.c_str(), &folder) != 0 ||
      access(path.c_str(), X_OK) != 0) {
    out.error = std::strerror(errno);
    return out;
  }
  if (!S_ISDIR(folder.st_mode)) {
    out.error = std::strerror(ENOTDIR);
    return out;
  }
  if (access(path.c_str(), W_OK) != 0) {
    out.write_error = std::strerror(errno);
  }
  out.bytes_total = uint64_t{disk.f_blocks} * disk.f_frsize;
  out.bytes_free = uint64_t{disk.f_bavail} * disk.f_frsize;
  return out;
}

}  // namespace muster
