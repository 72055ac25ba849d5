// What each node is by itself, and where they differ.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "launcher/doctor/checks.h"
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

// Calls `take(name, facts)` for each node that has said some.
template <typename F>
void EachNode(const Examination& examined, F take) {
  for (const ExaminedNode& node : examined.nodes) {
    if (node.facts.has_value()) {
      take(node.name, *node.facts);
    }
  }
}

// A row where the nodes do not all have the same of `get`.
template <typename F>
Values MustAgree(const Examination& examined, absl::string_view what, F get, const std::string& fix,
                 CheckRows& check) {
  Values values;
  EachNode(examined, [&](const std::string& name, const ProbeFacts& facts) {
    AddValue(get(facts), name, values);
  });
  if (values.size() > 1) {
    check.Bad("", absl::StrCat(what, " differs: ", ValuesText(values)), fix);
  }
  return values;
}

void CheckDisk(const std::string& node, const DiskFacts& disk, absl::string_view what,
               CheckRows& check) {
  const std::string free =
      absl::StrCat(what, " ", disk.path, ": ", Bytes(disk.bytes_free), " free");
  const std::string fix = absl::StrCat("make room on ", node, ": `df -h ", disk.path, "`");
  if (!disk.error.empty()) {
    check.Bad(node, absl::StrCat(what, " ", disk.path, ": ", disk.error),
              absl::StrCat("on ", node, ": mkdir -p ", ShellQuote(disk.path),
                           ", mount what holds it there, or name another"));
  } else if (disk.bytes_free < kDiskMin) {
    check.Bad(node, free, fix);
  } else if (disk.bytes_free < kDiskSuspect) {
    check.Suspect(node, free, fix);
  }
}

}  // namespace

void CheckLimits(const Examination& examined, Rows& rows) {
  CheckRows check("limits", rows);
  EachNode(examined, [&](const std::string& name, const ProbeFacts& facts) {
    if (facts.nofile < kFilesMin) {
      check.Bad(name,
                absl::StrCat("ulimit -n is ", facts.nofile, " for a worker, want ", kFilesMin,
                             " or more"),
                facts.nofile_hard >= kFilesMin
                    ? absl::StrCat("ulimit -n ", kFilesMin,
                                   " there before sshd or slurmd starts; "
                                   "for one job: --prologue 'ulimit -n ",
                                   kFilesMin, "'")
                    : absl::StrCat("nofile in /etc/security/limits.conf of ", name,
                                   ", or LimitNOFILE= of its sshd or slurmd"));
    }
    if (facts.nproc < kProcessesMin) {
      check.Bad(name,
                absl::StrCat("ulimit -u is ", facts.nproc, " for a worker, want ", kProcessesMin,
                             " or more: threads count"),
                absl::StrCat("nproc in /etc/security/limits.conf of ", name));
    }
    if (facts.rdma_devices > 0 && facts.memlock < kMemlockMin) {
      check.Bad(name,
                absl::StrCat("ulimit -l is ", Bytes(facts.memlock),
                             ", and there is RDMA, which pins ", "memory"),
                absl::StrCat("memlock unlimited in /etc/security/limits.conf of ", name,
                             ", or LimitMEMLOCK=infinity of its sshd or slurmd"));
    }
  });
  check.ElseWell("files, processes and pinned memory suffice");
}

void CheckListenQueue(const Examination& examined, Rows& rows) {
  CheckRows check("listen queue", rows);
  EachNode(examined, [&](const std::string& name, const ProbeFacts& facts) {
    if (facts.somaxconn > 0 && facts.somaxconn < kListenQueueMin) {
      check.Bad(name,
                absl::StrCat("net.core.somaxconn is ", facts.somaxconn, ", want ", kListenQueueMin,
                             " or more: ranks that call a store together are refused"),
                absl::StrCat("on ", name, ": sysctl -w net.core.somaxconn=4096"));
    }
  });
  check.ElseWell("net.core.somaxconn suffices");
}

void CheckSharedMemory(const Examination& examined, Rows& rows) {
  CheckRows check("shared memory", rows);
  EachNode(examined, [&](const std::string& name, const ProbeFacts& facts) {
    const DiskFacts& shm = facts.shm;
    if (!shm.error.empty()) {
      check.Bad(name, absl::StrCat(shm.path, ": ", shm.error),
                absl::StrCat("on ", name, ": mount -t tmpfs -o mode=1777 tmpfs ", shm.path));
    } else if (shm.bytes_free < kSharedMemoryMin) {
      check.Bad(
          name,
          absl::StrCat(shm.path, " has ", Bytes(shm.bytes_free), " free of ",
                       Bytes(shm.bytes_total), ", want ", Bytes(kSharedMemoryMin), " or more"),
          absl::StrCat("a container: --shm-size=8g or --ipc=host; else on ", name,
                       ": rm what "
                       "is left in ",
                       shm.path, ", or mount -o remount,size=50% ", shm.path));
    }
  });
  check.ElseWell("/dev/shm has room");
}

void CheckDisks(const Examination& examined, Rows& rows) {
  CheckRows check("disks", rows);
  EachNode(examined, [&](const std::string& name, const ProbeFacts& facts) {
    CheckDisk(name, facts.tmp, "temporary folder", check);
    CheckDisk(name, facts.folder, "working folder", check);
  });
  check.ElseWell("working and temporary folder are there, with room");
}

void CheckCgroups(const Examination& examined, Rows& rows) {
  CheckRows check("cgroups", rows);
  EachNode(examined, [&](const std::string& name, const ProbeFacts& facts) {
    const absl::string_view fix =
        "ask the scheduler for more, or raise the limit of the container or of the login";
    if (facts.memory_left < kMemoryLeftMin) {
      check.Bad(name,
                absl::StrCat("its cgroup allows ", Bytes(facts.memory_left), " more memory, want ",
                             Bytes(kMemoryLeftMin), " or more"),
                absl::StrCat(fix, " (memory.max)"));
    }
    if (facts.processes_left < kProcessesLeftMin) {
      check.Bad(name,
                absl::StrCat("its cgroup allows ", facts.processes_left,
                             " more processes and threads, want ", kProcessesLeftMin, " or more"),
                absl::StrCat(fix, " (pids.max)"));
    }
  });
  check.ElseWell("no limit of memory or processes is near");
}

void CheckCpus(const Examination& examined, Rows& rows) {
  CheckRows check("CPUs", rows);
  Values counts;
  EachNode(examined, [&](const std::string& name, const ProbeFacts& facts) {
    AddValue(absl::StrCat(facts.cpus_mask), name, counts);
    const uint32_t ours = facts.cpus_allocated == 0
                              ? facts.cpus_here
                              : std::min(facts.cpus_allocated, facts.cpus_here);
    if (facts.cpus_mask < ours) {
      check.Bad(
          name,
          absl::StrCat("the CPU mask has ", Plural(facts.cpus_mask, "CPU", "CPUs"), " of the ",
                       ours, " that ", facts.cpus_allocated == 0 ? "are there" : "were allocated",
                       ": all workers share these"),
          "start without what binds (taskset, numactl, srun --exact or --cpu-bind; "
          "CPUAffinity= of sshd)");
    } else if (facts.cpu_quota > 0 && facts.cpu_quota < facts.cpus_mask) {
      check.Suspect(name,
                    absl::StrFormat("the cgroup's quota is %.1f of %u CPUs", facts.cpu_quota,
                                    facts.cpus_mask),
                    "raise it (cpu.max, docker --cpus), or start as many workers as it feeds");
    }
  });
  check.ElseWell(absl::StrCat(ValuesText(counts), ": all that are there"));
}

void CheckGpus(const Examination& examined, Rows& rows) {
  CheckRows check("GPUs", rows);
  EachNode(examined, [&](const std::string& name, const ProbeFacts& facts) {
    for (const GpuProcess& process : facts.gpu_processes) {
      check.Bad(name,
                absl::StrCat("process ", process.pid, " (", process.name, ") holds ",
                             process.memory, " of ", process.gpu),
                absl::StrCat("if nobody needs it: ssh ", name, " kill ", process.pid));
    }
    if (!facts.gpu_error.empty()) {
      check.Bad(name, absl::StrCat("GPUs are there, but ", facts.gpu_error),
                absl::StrCat("see `nvidia-smi` and `dmesg | grep -i nvrm` on ", name));
    }
  });
  const std::string fix = "update the driver where it is older, or leave the node out: --exclude";
  MustAgree(
      examined, "the NVIDIA driver", [](const ProbeFacts& facts) { return facts.gpu_driver; }, fix,
      check);
  const Values counts = MustAgree(
      examined, "the number of GPUs",
      [](const ProbeFacts& facts) { return absl::StrCat(facts.gpus); },
      "see CUDA_VISIBLE_DEVICES and `nvidia-smi` on the nodes; --exclude leaves one out", check);
  check.ElseWell(counts.size() == 1 && counts[0].first != "0"
                     ? absl::StrCat(counts[0].first, " on every node, no process on them")
                     : "there are none");
}

void CheckVersions(const Examination& examined, Rows& rows) {
  CheckRows check("versions", rows);
  const std::string fix =
      "use one environment on all nodes: PYTHON_EXEC=/path/of/python3, a shared folder, or "
      "--prologue 'module load ...'";
  EachNode(examined, [&](const std::string& name, const ProbeFacts& facts) {
    if (!facts.python_error.empty()) {
      check.Bad(name, facts.python_error, fix);
    }
  });
  const auto none = [](const std::string& text) { return text.empty() ? "none" : text; };
  const Values pythons = MustAgree(
      examined, "Python", [&](const ProbeFacts& facts) { return none(facts.python_version); }, fix,
      check);
  const Values torches = MustAgree(
      examined, "torch", [&](const ProbeFacts& facts) { return none(facts.torch_version); }, fix,
      check);
  MustAgree(
      examined, "muster", [](const ProbeFacts& facts) { return facts.build; },
      "install the same build on all nodes", check);
  check.ElseWell(absl::StrCat("Python ", pythons.empty() ? "none" : pythons[0].first, ", torch ",
                              torches.empty() ? "none" : torches[0].first, " on every node"));
}

void CheckProgram(const Examination& examined, Rows& rows) {
  CheckRows check("program", rows);
  EachNode(examined, [&](const std::string& name, const ProbeFacts& facts) {
    if (!facts.program_error.empty()) {
      check.Bad(name, absl::StrCat(facts.program_path, ": ", facts.program_error),
                "put it there, or into a folder that all nodes share; --wdir names the folder");
    }
  });
  const Values files = MustAgree(
      examined, "its content",
      [](const ProbeFacts& facts) {
        return facts.program_hash.empty()
                   ? ""
                   : absl::StrCat(facts.program_hash, " (", facts.program_bytes, " bytes)");
      },
      "copy it anew, or use a folder that all nodes share", check);
  check.ElseWell(files.empty() ? "none was named" : "the same file on every node");
}

}  // namespace muster
