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

// What `find` says of each node.
void AddFindings(const Examination& examined, decltype(&LimitFindings) find, CheckRows& check) {
  EachNode(examined, [&](const std::string& name, const ProbeFacts& facts) {
    check.Add(name, find(name, facts));
  });
}

}  // namespace

void CheckLimits(const Examination& examined, Rows& rows) {
  CheckRows check("limits", rows);
  AddFindings(examined, LimitFindings, check);
  check.ElseWell("files, processes and pinned memory suffice");
}

void CheckListenQueue(const Examination& examined, Rows& rows) {
  CheckRows check("listen queue", rows);
  AddFindings(examined, ListenQueueFindings, check);
  check.ElseWell("net.core.somaxconn suffices");
}

void CheckSharedMemory(const Examination& examined, Rows& rows) {
  CheckRows check("shared memory", rows);
  AddFindings(examined, SharedMemoryFindings, check);
  check.ElseWell("/dev/shm has room");
}

void CheckDisks(const Examination& examined, Rows& rows) {
  CheckRows check("disks", rows);
  AddFindings(examined, DiskFindings, check);
  check.ElseWell("working and temporary folder are there, with room");
}

void CheckCgroups(const Examination& examined, Rows& rows) {
  CheckRows check("cgroups", rows);
  AddFindings(examined, CgroupFindings, check);
  check.ElseWell("no limit of memory or processes is near");
}

void CheckCpus(const Examination& examined, Rows& rows) {
  CheckRows check("CPUs", rows);
  AddFindings(examined, CpuFindings, check);
  Values counts;
  bool all = true;
  EachNode(examined, [&](const std::string& name, const ProbeFacts& facts) {
    const bool has_all = facts.cpus_mask >= facts.cpus_here;
    all = all && has_all;
    AddValue(has_all ? absl::StrCat(facts.cpus_mask)
                     : absl::StrCat(facts.cpus_mask, " of ", facts.cpus_here),
             name, counts);
  });
  check.ElseWell(absl::StrCat(ValuesText(counts),
                              all ? ": all that are there" : ": all that the scheduler has given"));
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
