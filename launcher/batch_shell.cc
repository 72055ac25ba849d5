#include "launcher/batch_shell.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/io/small_file.h"

namespace muster {
namespace {

constexpr size_t kAncestorsMax = 64;
constexpr size_t kStatusBytesMax = 16u << 10;

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
    } else if (field.first == "NSsid") {
      const absl::string_view innermost = value.substr(value.rfind('\t') + 1);
      out.session = absl::SimpleAtoi(innermost, &out.session) ? out.session : 0;
    } else if (field.first == "SigIgn" || field.first == "SigCgt") {
      out.minds_term |= HasTerm(value);
    }
  }
  return out;
}

bool ShellEndsUnheard(const std::vector<ProcessStatus>& ancestors) {
  const auto slurm = std::find_if(ancestors.begin(), ancestors.end(), [](const ProcessStatus& one) {
    return one.name == "slurmstepd";
  });
  return slurm != ancestors.end() && slurm != ancestors.begin() && !std::prev(slurm)->minds_term;
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
    const UniqueFd fd = OpenRegular(absl::StrCat("/proc/", pid, "/status"));
    out.push_back(
        ParseProcessStatus(fd.valid() ? ReadAt(fd.get(), 0, kStatusBytesMax) : std::string()));
  }
  return out;
}

}  // namespace muster
