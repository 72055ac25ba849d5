#include "agent/probe/node_checks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// Loaders of data hold some hundred files and pipes, each connection one more; 1024 is what a
// login has everywhere.
constexpr uint64_t kFilesMin = 1024;
constexpr uint64_t kProcessesMin = 1024;
// What RDMA pins at least.
constexpr uint64_t kMemlockMin = uint64_t{64} << 20;
// Connections that may wait for a store which all ranks call at the same time.
constexpr uint64_t kListenQueueMin = 128;
// Above the 64 MiB of a container of which nobody asked for more: NCCL and torch's loaders of data
// fill that.
constexpr uint64_t kSharedMemoryMin = uint64_t{128} << 20;
constexpr uint64_t kDiskMin = uint64_t{100} << 20;
constexpr uint64_t kDiskSuspect = uint64_t{1} << 30;
constexpr uint64_t kMemoryLeftMin = uint64_t{512} << 20;
constexpr uint64_t kProcessesLeftMin = 256;

// What a lookup may take before it shows in a job's start.
constexpr double kResolveSlow = 1;

void Bad(Findings& out, std::string seen, std::string fix) {
  out.push_back({Health::kBad, std::move(seen), std::move(fix)});
}

void Suspect(Findings& out, std::string seen, std::string fix) {
  out.push_back({Health::kSuspect, std::move(seen), std::move(fix)});
}

bool AllLoopback(const std::vector<std::string>& addresses) {
  return !addresses.empty() && std::all_of(addresses.begin(), addresses.end(), IsLoopback);
}

// A folder that programs use, and what is said of it.
struct UsedFolder {
  const DiskFacts& disk;
  absl::string_view what;
  absl::string_view named_by;  // the option that names another
  Health unwritable;           // what it is then
  absl::string_view where_needed;
};

// What a user sees where no such folder is there, and where a file system is not for writing.
constexpr absl::string_view kMissing = "No such file or directory";
constexpr absl::string_view kReadOnly = "Read-only file system";

void CheckDisk(const std::string& node, const std::string& user, const UsedFolder& folder,
               Findings& out) {
  const DiskFacts& disk = folder.disk;
  const std::string where = absl::StrCat(folder.what, " ", disk.path);
  const std::string path = ShellQuote(disk.path);
  const std::string free = absl::StrCat(where, ": ", Bytes(disk.bytes_free), " free");
  const std::string fix = absl::StrCat("make room on ", node, ": `df -h ", path, "`");
  if (disk.error == kMissing) {
    Bad(out, absl::StrCat(where, ": ", disk.error),
        absl::StrCat("on ", node, ": mkdir -p ", path, ", mount what holds it there, or name ",
                     "another: ", folder.named_by));
  } else if (!disk.error.empty()) {
    Bad(out, absl::StrCat(where, ": ", disk.error),
        absl::StrCat("let ", user, " enter it on ", node, " (`namei -l ", path,
                     "` tells what is in the way), or name another: ", folder.named_by));
  } else if (!disk.write_error.empty()) {  // nor does its room matter
    const std::string mend =
        disk.write_error == kReadOnly
            ? absl::StrCat("mount on ", node, " what holds it for writing: `findmnt -T ", path, "`")
            : absl::StrCat("let ", user, " write to it on ", node, ": `ls -ld ", path, "`");
    out.push_back({folder.unwritable, absl::StrCat(where, " cannot be written: ", disk.write_error),
                   absl::StrCat(folder.where_needed, "name another folder: ", folder.named_by,
                                "; or ", mend)});
  } else if (disk.bytes_free < kDiskMin) {
    Bad(out, free, fix);
  } else if (disk.bytes_free < kDiskSuspect) {
    Suspect(out, free, fix);
  }
}

}  // namespace

Findings OwnNameFindings(const std::string& name, const ProbeFacts& facts) {
  Findings out;
  const ResolvedName& own = facts.own_name;
  if (IsLoopback(facts.address)) {
    return out;  // all nodes are this machine
  }
  if (AllLoopback(own.addresses)) {
    Bad(out,
        absl::StrCat("its own name ", own.name, " is ", own.addresses.front(),
                     " there: a program that tells others its name tells them to call "
                     "themselves"),
        absl::StrCat("in /etc/hosts of ", name, " put '", facts.address, " ", own.name,
                     "' in the place of the line of ", own.addresses.front()));
  } else if (!own.error.empty()) {
    Suspect(out, absl::StrCat("its own name ", own.name, " does not resolve there: ", own.error),
            absl::StrCat("add '", facts.address, " ", own.name, "' to /etc/hosts of ", name,
                         ", or to DNS"));
  } else if (own.took_s > kResolveSlow) {
    Suspect(out, absl::StrFormat("its own name %s took %.1f s to resolve", own.name, own.took_s),
            absl::StrCat("see `getent hosts ", own.name,
                         "` and the servers of "
                         "/etc/resolv.conf on ",
                         name));
  }
  return out;
}

Findings LimitFindings(const std::string& name, const ProbeFacts& facts) {
  Findings out;
  if (facts.nofile < kFilesMin) {
    Bad(out,
        absl::StrCat("ulimit -n is ", facts.nofile, " for a worker, want ", kFilesMin, " or more"),
        facts.nofile_hard >= kFilesMin
            ? absl::StrCat("ulimit -n ", kFilesMin,
                           " there before sshd or slurmd starts; "
                           "for one job: --prologue 'ulimit -n ",
                           kFilesMin, "'")
            : absl::StrCat("nofile in /etc/security/limits.conf of ", name,
                           ", or LimitNOFILE= of its sshd or slurmd"));
  }
  if (facts.nproc < kProcessesMin) {
    Bad(out,
        absl::StrCat("ulimit -u is ", facts.nproc, " for a worker, want ", kProcessesMin,
                     " or more: threads count"),
        absl::StrCat("nproc in /etc/security/limits.conf of ", name));
  }
  if (facts.rdma_devices > 0 && facts.memlock < kMemlockMin) {
    Bad(out,
        absl::StrCat("ulimit -l is ", Bytes(facts.memlock), ", and there is RDMA, which pins ",
                     "memory"),
        absl::StrCat("memlock unlimited in /etc/security/limits.conf of ", name,
                     ", or LimitMEMLOCK=infinity of its sshd or slurmd"));
  }
  return out;
}

Findings ListenQueueFindings(const std::string& name, const ProbeFacts& facts) {
  Findings out;
  if (facts.somaxconn > 0 && facts.somaxconn < kListenQueueMin) {
    Bad(out,
        absl::StrCat("net.core.somaxconn is ", facts.somaxconn, ", want ", kListenQueueMin,
                     " or more: ranks that call a store together are refused"),
        absl::StrCat("on ", name, ": sysctl -w net.core.somaxconn=4096"));
  }
  return out;
}

Findings SharedMemoryFindings(const std::string& name, const ProbeFacts& facts) {
  Findings out;
  const DiskFacts& shm = facts.shm;
  if (const std::string& error = shm.error.empty() ? shm.write_error : shm.error; !error.empty()) {
    Bad(out, absl::StrCat(shm.path, ": ", error),
        absl::StrCat("on ", name, ": mount -t tmpfs -o mode=1777 tmpfs ", shm.path));
  } else if (shm.bytes_free < kSharedMemoryMin) {
    Bad(out,
        absl::StrCat(shm.path, " has ", Bytes(shm.bytes_free), " free of ", Bytes(shm.bytes_total),
                     ", want ", Bytes(kSharedMemoryMin), " or more"),
        absl::StrCat("a container: --shm-size=8g or --ipc=host; else on ", name,
                     ": rm what "
                     "is left in ",
                     shm.path, ", or mount -o remount,size=50% ", shm.path));
  }
  return out;
}

Findings DiskFindings(const std::string& name, const ProbeFacts& facts) {
  Findings out;
  CheckDisk(name, facts.user, {facts.tmp, "temporary folder", "-x TMPDIR=FOLDER", Health::kBad, ""},
            out);
  // A program may well run where it was installed, and write elsewhere.
  CheckDisk(name, facts.user,
            {facts.folder, "working folder", "--wdir", Health::kSuspect,
             "if the program writes files there, "},
            out);
  return out;
}

Findings CgroupFindings(const std::string&, const ProbeFacts& facts) {
  Findings out;
  const absl::string_view fix =
      "ask the scheduler for more, or raise the limit of the container or of the login";
  if (facts.memory_left < kMemoryLeftMin) {
    Bad(out,
        absl::StrCat("its cgroup allows ", Bytes(facts.memory_left), " more memory, want ",
                     Bytes(kMemoryLeftMin), " or more"),
        absl::StrCat(fix, " (memory.max)"));
  }
  if (facts.processes_left < kProcessesLeftMin) {
    Bad(out,
        absl::StrCat("its cgroup allows ", facts.processes_left,
                     " more processes and threads, want ", kProcessesLeftMin, " or more"),
        absl::StrCat(fix, " (pids.max)"));
  }
  return out;
}

Findings CpuFindings(const std::string& name, const ProbeFacts& facts) {
  Findings out;
  const uint32_t ours =
      facts.cpus_allocated == 0 ? facts.cpus_here : std::min(facts.cpus_allocated, facts.cpus_here);
  if (facts.cpus_mask < ours) {
    Bad(out,
        absl::StrCat("the CPU mask has ", Plural(facts.cpus_mask, "CPU", "CPUs"), " of the ", ours,
                     " that ", facts.cpus_allocated == 0 ? "are there" : "were allocated",
                     ": all workers share these"),
        absl::StrCat("start without what binds on ", name,
                     " (taskset, numactl, srun --exact or --cpu-bind; CPUAffinity= of sshd)"));
  } else if (facts.cpu_quota > 0 && facts.cpu_quota < facts.cpus_mask) {
    Suspect(
        out,
        absl::StrFormat("the cgroup's quota is %.1f of %u CPUs", facts.cpu_quota, facts.cpus_mask),
        "raise it (cpu.max, docker --cpus), or start as many workers as it feeds");
  }
  return out;
}

std::vector<std::string> QuickDoubts(const std::string& name, const ProbeFacts& facts) {
  constexpr decltype(&LimitFindings) kQuick[] = {OwnNameFindings,     LimitFindings,
                                                 ListenQueueFindings, SharedMemoryFindings,
                                                 CgroupFindings,      CpuFindings};
  std::vector<std::string> out;
  for (const auto& find : kQuick) {
    for (const Finding& finding : find(name, facts)) {
      if (finding.health == Health::kBad) {
        out.push_back(absl::StrCat(finding.seen, "; fix: ", finding.fix));
      }
    }
  }
  if (!facts.proxies.empty() && facts.no_proxy.empty()) {
    out.push_back(
        absl::StrCat(absl::StrJoin(facts.proxies, " "),
                     " without a no_proxy: gRPC (JAX, etcd) between the nodes hangs; fix: "
                     "-x no_proxy=... with all of them"));
  }
  return out;
}

bool IsLoopback(absl::string_view address) {
  return absl::StartsWith(address, "127.") || address == "::1";
}

std::string Bytes(uint64_t bytes) {
  constexpr absl::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr double kStep = 1024;
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= kStep && unit + 1 < std::size(kUnits)) {
    value /= kStep;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 1, value, kUnits[unit]);
}

}  // namespace muster
