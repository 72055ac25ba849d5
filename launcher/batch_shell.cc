#include "launcher/batch_shell.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/io/small_file.h"

namespace muster {
namespace {

constexpr size_t kAncestorsMax = 64;
constexpr size_t kStatusBytesMax = 16u << 10;

ProcessStatus StatusOf(const std::string& process) {
  const UniqueFd fd = OpenRegular(absl::StrCat("/proc/", process, "/status"));
  return ParseProcessStatus(fd.valid() ? ReadAt(fd.get(), 0, kStatusBytesMax) : std::string());
}

// What a link of /proc leads to, "" = it may not be read.
std::string LinkOf(absl::string_view process, absl::string_view name) {
  char target[PATH_MAX];
  const ssize_t size =
      readlink(absl::StrCat("/proc/", process, "/", name).c_str(), target, sizeof(target));
  return std::string(target, size > 0 ? static_cast<size_t>(size) : 0);
}

// numactl --membind and its like.
bool HasMemoryPolicy() {
  int mode = 0;
  return syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) == 0 && mode != 0;
}

bool HasTerm(absl::string_view mask) {
  uint64_t bits = 0;
  return absl::SimpleHexAtoi(mask, &bits) && (bits >> (SIGTERM - 1) & 1) != 0;
}

}  // namespace

ProcessStatus ParseProcessStatus(absl::string_view text) {
  ProcessStatus out;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    const absl::string_view value = absl::StripAsciiWhitespace(field.second);
    if (field.first == "Name") {
      out.name = std::string(value);
    } else if (field.first == "PPid") {
      out.parent = absl::SimpleAtoi(value, &out.parent) ? out.parent : 0;
    } else if (field.first == "Pid") {
      out.pid = absl::SimpleAtoi(value, &out.pid) ? out.pid : 0;
    } else if (field.first == "Uid" || field.first == "Gid" || field.first == "Groups" ||
               field.first == "Cpus_allowed_list") {
      absl::StrAppend(&out.rights, field.first, ":", value, "\n");
    } else if (field.first == "NSsid") {
      const absl::string_view innermost = value.substr(value.rfind('\t') + 1);
      out.session = absl::SimpleAtoi(innermost, &out.session) ? out.session : 0;
    } else if (field.first == "SigIgn" || field.first == "SigCgt") {
      out.minds_term |= HasTerm(value);
    }
  }
  return out;
}

std::optional<ProcessStatus> ShellOfSlurm(const std::vector<ProcessStatus>& ancestors) {
  const auto slurm = std::find_if(ancestors.begin(), ancestors.end(), [](const ProcessStatus& one) {
    return one.name == "slurmstepd";
  });
  return slurm != ancestors.end() && slurm != ancestors.begin()
             ? std::optional<ProcessStatus>(*std::prev(slurm))
             : std::nullopt;
}

bool OnlyShellsBetween(const std::vector<ProcessStatus>& ancestors, const ProcessStatus& shell) {
  const auto other =
      std::find_if(ancestors.begin(), ancestors.end(), [&shell](const ProcessStatus& one) {
        return one.pid == shell.pid || one.name != shell.name;
      });
  return other != ancestors.end() && other->pid == shell.pid;
}

bool ShellOfSessionEndsUnheard(const std::vector<ProcessStatus>& ancestors, int session) {
  const auto outside =
      std::find_if(ancestors.begin(), ancestors.end(),
                   [session](const ProcessStatus& one) { return one.session != session; });
  return outside != ancestors.begin() && !std::prev(outside)->minds_term;
}

bool AtAPrompt() { return getpgrp() != getsid(0); }

std::vector<ProcessStatus> Ancestors() {
  std::vector<ProcessStatus> out;
  for (int pid = getppid(); pid > 0 && out.size() < kAncestorsMax; pid = out.back().parent) {
    out.push_back(StatusOf(absl::StrCat(pid)));
  }
  return out;
}

bool StepSeesTheSame(const ProcessStatus& shell, const std::vector<std::string>& words) {
  const bool own_file = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return absl::StrContains(word, "/dev/fd/") || absl::StrContains(word, "/proc/self/fd/");
  });
  if (own_file || HasMemoryPolicy() || StatusOf("self").rights != shell.rights) {
    return false;
  }
  constexpr absl::string_view kLinks[] = {"ns/mnt", "ns/user", "ns/net",
                                          "ns/pid", "ns/ipc",  "root"};
  return std::all_of(std::begin(kLinks), std::end(kLinks), [&shell](absl::string_view name) {
    const std::string own = LinkOf("self", name);
    return !own.empty() && own == LinkOf(absl::StrCat(shell.pid), name);
  });
}

}  // namespace muster
