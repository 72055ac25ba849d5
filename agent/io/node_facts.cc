#include "agent/io/node_facts.h"

#include <dirent.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/core/allowed_cpus.h"
#include "agent/io/small_file.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"

extern char** environ;

namespace muster {
namespace {

// /proc/self/cgroup has a line for each hierarchy, a dozen at most; the others are one line.
constexpr size_t kKernelFileBytesMax = 8192;

std::string ReadSmall(const std::string& path) { return ReadHead(path, kKernelFileBytesMax); }

struct DirCloser {
  void operator()(DIR* dir) const { closedir(dir); }
};

// Calls `take` with each name in a folder but . and ..; nothing when there is no such folder.
template <typename F>
void ForEachName(const std::string& path, F take) {
  const std::unique_ptr<DIR, DirCloser> dir(opendir(path.c_str()));
  if (dir == nullptr) {
    return;
  }
  while (const dirent* entry = readdir(dir.get())) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") {
      take(name);
    }
  }
}

// The folder of a controller's hierarchy below /sys/fs/cgroup, as it is usually mounted.
std::string CgroupMount(const std::string& root, const CgroupLine& line,
                        absl::string_view controller) {
  const std::string base = absl::StrCat(root, "/sys/fs/cgroup");
  if (line.controllers.empty()) {
    const std::string hybrid = absl::StrCat(base, "/unified");
    struct stat st {};
    return stat(hybrid.c_str(), &st) == 0 ? hybrid : base;
  }
  const std::string joined = absl::StrCat(base, "/", line.controllers);
  struct stat st {};
  return stat(joined.c_str(), &st) == 0 ? joined : absl::StrCat(base, "/", controller);
}

// "/a/b" -> "/a" -> "" ; false at the root.
bool ToParent(std::string& path) {
  if (path.empty() || path == "/") {
    return false;
  }
  path.erase(path.rfind('/'));
  return true;
}

double QuotaAt(const std::string& folder, bool v2) {
  if (v2) {
    return ParseCpuMax(ReadSmall(absl::StrCat(folder, "/cpu.max")));
  }
  const std::string quota = ReadSmall(absl::StrCat(folder, "/cpu.cfs_quota_us"));
  if (quota.empty() || quota[0] == '-') {
    return 0;
  }
  return ParseCfsQuota(quota, ReadSmall(absl::StrCat(folder, "/cpu.cfs_period_us")));
}

bool IsGpuName(absl::string_view name) {
  uint32_t number = 0;
  return absl::ConsumePrefix(&name, "nvidia") && absl::SimpleAtoi(name, &number);
}

}  // namespace

NodeQuery OwnQuery(const std::string& cpu_list) {
  NodeQuery query;
  query.cuda_visible = std::getenv("CUDA_VISIBLE_DEVICES");
  query.cpu_list = cpu_list;
  query.slurm_cpus =
      SlurmCpus(std::getenv("SLURM_JOB_CPUS_PER_NODE"), std::getenv("SLURM_CPUS_ON_NODE"));
  return query;
}

absl::StatusOr<NodeFacts> ReadNodeFacts(const NodeQuery& query) {
  NodeFacts facts;
  facts.hostname = Hostname();
  ASSIGN_OR_RETURN(
      CpusForWorkers allowed,
      AllowedOf({AffinityMask(), CgroupCpus(query.root), OnlineCpus(query.root), query.slurm_cpus,
                 query.cpu_list, std::getenv("PBS_JOBID") != nullptr}));
  facts.cpus_allowed = std::max(allowed.cpus.Count(), 1u);
  facts.cpus = std::move(allowed.cpus);
  facts.cpus_notice = std::move(allowed.notice);
  facts.cpu_quota = CpuQuota(query.root);
  facts.gpus = CountGpus(query.root, query.cuda_visible);
  if (!query.other_nodes) {
    facts.address_why = "this machine only";
    return facts;
  }
  facts.rdma_devices = CountRdmaDevices(query.root);
  ASSIGN_OR_RETURN(LocalAddress chosen, ChooseAddress(query));
  facts.address = chosen.address;
  facts.interface = chosen.interface;
  facts.address_why = chosen.why;
  facts.address_is_loopback = absl::StartsWith(chosen.address, "127.") || chosen.address == "::1";
  facts.addresses = OwnAddresses();
  facts.addresses.resize(std::min(facts.addresses.size(), kNodeAddressesMax));
  return facts;
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    out.emplace_back(*entry);
  }
  return out;
}

std::string OwnFolder() {
  char* folder = get_current_dir_name();
  std::string out = folder == nullptr ? "" : folder;
  free(folder);
  return out;
}

std::string Hostname() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) {
    return "localhost";
  }
  return name.data();
}

CpuSet AffinityMask() {
  CpuSet set;
  for (size_t cpus = 1024; cpus <= 65536; cpus *= 2) {  // EINVAL: the kernel has more than that
    std::vector<cpu_set_t> mask(cpus / CPU_SETSIZE);
    const size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, mask.data()) == 0) {
      for (uint32_t cpu = 0; cpu < cpus; ++cpu) {
        if (CPU_ISSET_S(cpu, bytes, mask.data())) {
          set.Add(cpu);
        }
      }
      return set;
    }
    if (errno != EINVAL) {
      break;
    }
  }
  const int64_t online = sysconf(_SC_NPROCESSORS_ONLN);
  for (uint32_t cpu = 0; cpu < online; ++cpu) {
    set.Add(cpu);
  }
  return set;
}

std::optional<CpuSet> CgroupCpus(const std::string& root) {
  const std::vector<CgroupLine> lines =
      ParseCgroupFile(ReadSmall(absl::StrCat(root, "/proc/self/cgroup")));
  const CgroupLine* line = FindCgroup(lines, "cpuset");
  if (line == nullptr) {
    return std::nullopt;
  }
  const std::string mount = CgroupMount(root, *line, "cpuset");
  const bool v2 = line->controllers.empty();
  // Only the nearest level that has the file: effective sets are already cut by those above. The
  // path is the host's where a container sees its own cgroup as the root of the mount.
  std::string path = line->path == "/" ? "" : line->path;
  do {
    const std::string folder = absl::StrCat(mount, path);
    for (const char* name :
         v2 ? std::array<const char*, 2>{"/cpuset.cpus.effective", "/cpuset.cpus"}
            : std::array<const char*, 2>{"/cpuset.effective_cpus", "/cpuset.cpus"}) {
      if (auto set = ParseCpuList(ReadSmall(folder + name)); set.has_value()) {
        return set;
      }
    }
  } while (ToParent(path));
  return std::nullopt;
}

CpuSet AllowedCpus(CpuSet mask, const std::string& root) {
  return AllowedOf({std::move(mask), CgroupCpus(root), {}, 0, "", false})->cpus;  // N2
}

CpuSet OnlineCpus(const std::string& root) {
  return ParseCpuList(ReadSmall(absl::StrCat(root, "/sys/devices/system/cpu/online")))
      .value_or(CpuSet());
}

double CpuQuota(const std::string& root) {
  const std::vector<CgroupLine> lines =
      ParseCgroupFile(ReadSmall(absl::StrCat(root, "/proc/self/cgroup")));
  const CgroupLine* line = FindCgroup(lines, "cpu");
  if (line == nullptr) {
    return 0;
  }
  const std::string mount = CgroupMount(root, *line, "cpu");
  double quota = 0;
  std::string path = line->path == "/" ? "" : line->path;
  do {  // a quota holds for everything below it
    quota = TighterQuota(quota, QuotaAt(absl::StrCat(mount, path), line->controllers.empty()));
  } while (ToParent(path));
  return quota;
}

std::vector<VisibleGpu> VisibleGpus(size_t present, absl::string_view list) {
  std::vector<VisibleGpu> out;
  for (const absl::string_view raw : absl::StrSplit(list, ',')) {
    const absl::string_view item = absl::StripAsciiWhitespace(raw);
    uint32_t index = 0;
    if (absl::SimpleAtoi(item, &index) && index < present) {
      out.push_back({index, ""});
    } else if (absl::StartsWith(item, "GPU-") || absl::StartsWith(item, "MIG-")) {
      out.push_back({std::nullopt, std::string(item)});
    } else {
      break;
    }
  }
  return out;
}

uint32_t CountGpus(const std::string& root, const char* cuda_visible) {
  uint32_t present = 0;
  ForEachName(absl::StrCat(root, "/proc/driver/nvidia/gpus"),
              [&](absl::string_view) { ++present; });
  if (struct stat st{}; stat(absl::StrCat(root, "/dev/nvidiactl").c_str(), &st) == 0) {
    // A container may have devices for some of the node's GPUs only; the driver's list may also be
    // hidden from it.
    uint32_t devices = 0;
    ForEachName(absl::StrCat(root, "/dev"),
                [&](absl::string_view name) { devices += IsGpuName(name) ? 1 : 0; });
    present =
        present == 0 || devices == 0 ? std::max(present, devices) : std::min(present, devices);
  }
  return cuda_visible == nullptr ? present
                                 : static_cast<uint32_t>(VisibleGpus(present, cuda_visible).size());
}

uint32_t CountRdmaDevices(const std::string& root) {
  uint32_t n = 0;
  ForEachName(absl::StrCat(root, "/sys/class/infiniband"), [&](absl::string_view) { ++n; });
  return n;
}

}  // namespace muster
