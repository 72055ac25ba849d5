#include "launcher/binding_options.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/core/cpu_count.h"
#include "agent/core/cpu_plan.h"
#include "launcher/option_values.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::string_view kBindWords =
    "auto, none, hwthread, core, l3cache, numa or package, with :overload-allowed or a number of "
    "cores (core:2) behind it";

bool BindToObject(absl::string_view word, BindTo& out) {
  static constexpr std::pair<absl::string_view, BindTo> kWords[] = {
      {"auto", BindTo::kAuto},          {"none", BindTo::kNone},
      {"machine", BindTo::kNone},       {"hwthread", BindTo::kHwthread},
      {"hwthreads", BindTo::kHwthread}, {"rr", BindTo::kHwthread},
      {"core", BindTo::kCore},          {"l3cache", BindTo::kL3Cache},
      {"numa", BindTo::kNuma},          {"package", BindTo::kPackage},
      {"socket", BindTo::kPackage},     {"sockets", BindTo::kPackage},
  };
  for (const auto& [name, bind_to] : kWords) {
    if (name == word) {
      out = bind_to;
      return true;
    }
  }
  return false;
}

constexpr absl::string_view kMemoryWords =
    "none, local, bind or interleave; the last two may name NUMA nodes (interleave:0-1, "
    "interleave:all), and 0,1 alone is bind:0,1";

bool IsNodeList(absl::string_view word) {
  return word == kAllMemoryNodes || ParseCpuList(word).has_value();
}

bool IsOverload(absl::string_view word) { return word == "overload-allowed"; }

// Of mpirun: what we do anyway.
bool SaysNothing(absl::string_view word) {
  return word == "if-supported" || word == "no-overload" || word == "nooverload";
}

}  // namespace

absl::Status SetBindTo(const OptionValue& v, JobSpec& s) {
  const std::string text = absl::AsciiStrToLower(v.text);
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  CpuBinding& binding = s.plan.binding;
  if (parts[0] == "user") {  // mpiexec's
    return absl::InvalidArgumentError(absl::StrCat(
        v.name, " ", v.text,
        ": say --cpu-list 0,1 for the CPUs that the workers of a node share, and --bind-to core ",
        "to deal them out; --wrap '0:taskset -c 1' puts one rank on one CPU"));
  }
  if (!BindToObject(parts[0], binding.bind_to)) {
    return WantError(v, kBindWords);
  }
  for (size_t i = 1; i < parts.size(); ++i) {
    if (IsOverload(parts[i])) {
      binding.overload = true;
    } else if (i == 1 &&
               (binding.bind_to == BindTo::kCore || binding.bind_to == BindTo::kHwthread) &&
               !parts[i].empty() && absl::ascii_isdigit(static_cast<unsigned char>(parts[i][0]))) {
      ASSIGN_OR_RETURN(binding.cores_per_worker, ParseNumber({v.name, parts[i]}, 1, kCpusMax));
    } else if (!SaysNothing(parts[i])) {
      return WantError(v, kBindWords);
    }
  }
  return absl::OkStatus();
}

absl::Status SetCpuList(const OptionValue& v, JobSpec& s) {
  if (!ParseCpuList(v.text).has_value()) {
    return WantError(v, "numbers of CPUs, as in 0-3,8");
  }
  s.plan.binding.cpu_list = std::string(v.text);
  return absl::OkStatus();
}

absl::Status SetMemoryBinding(const OptionValue& v, JobSpec& s) {
  // Hydra says firsttouch for what the kernel does by itself; a list alone is numactl's.
  std::vector<absl::string_view> parts = absl::StrSplit(v.text, absl::MaxSplits(':', 1));
  if (IsNodeList(parts[0])) {
    parts.insert(parts.begin(), "bind");
  }
  const absl::string_view how = parts[0] == "firsttouch" ? "local" : parts[0];
  CpuBinding& binding = s.plan.binding;
  static constexpr absl::string_view kWords[] = {"none", "local", "bind", "interleave"};
  const auto* const word = std::find(std::begin(kWords), std::end(kWords), how);
  if (word == std::end(kWords)) {
    return WantError(v, kMemoryWords);
  }
  binding.memory = static_cast<MemoryBinding>(word - std::begin(kWords));
  const bool may_name =
      binding.memory == MemoryBinding::kBind || binding.memory == MemoryBinding::kInterleave;
  if (parts.size() == 2 && !(may_name && IsNodeList(parts[1]))) {
    return WantError(v, kMemoryWords);
  }
  binding.memory_nodes = parts.size() == 2 ? std::string(parts[1]) : "";
  return absl::OkStatus();
}

absl::Status SetCoresPerWorker(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.plan.binding.cores_per_worker, ParseNumber(v, 1, kCpusMax));
  return absl::OkStatus();
}

absl::Status SetGpusPerWorker(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(s.plan.binding.gpus_per_worker, ParseNumber(v, 1, kGpusPerNodeMax));
  return absl::OkStatus();
}

absl::Status SetGpuMode(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(const size_t word, ParseWord(v, {"all", "one", "uuid"}));
  s.plan.binding.gpu_mode = static_cast<GpuMode>(word);
  return absl::OkStatus();
}

absl::Status SetReportBindings(const OptionValue& v, JobSpec& s) {
  s.plan.binding.report = !v.undone;
  return absl::OkStatus();
}

absl::Status SetNumaBinding(const OptionValue& v, JobSpec& s) {
  ASSIGN_OR_RETURN(const size_t word,
                   ParseWord(v, {"node", "socket", "exclusive", "core-complex"}));
  constexpr BindTo kBindTo[] = {BindTo::kNuma, BindTo::kPackage, BindTo::kAuto, BindTo::kL3Cache};
  s.plan.binding.bind_to = kBindTo[word];
  return absl::OkStatus();
}

bool MapByObject(absl::string_view word, CpuBinding& binding) {
  static constexpr std::pair<absl::string_view, MapBy> kWords[] = {
      {"core", MapBy::kCore}, {"hwthread", MapBy::kCore},   {"l3cache", MapBy::kL3Cache},
      {"numa", MapBy::kNuma}, {"package", MapBy::kPackage}, {"socket", MapBy::kPackage},
      {"gpu", MapBy::kGpu},
  };
  for (const auto& [name, map_by] : kWords) {
    if (name == word) {
      binding.map_by = map_by;
      return true;
    }
  }
  return false;
}

absl::StatusOr<bool> TakeMapModifier(const OptionValue& v, absl::string_view word,
                                     CpuBinding& binding) {
  if (absl::ConsumePrefix(&word, "pe=")) {
    ASSIGN_OR_RETURN(binding.cores_per_worker, ParseNumber({v.name, word}, 1, kCpusMax));
    return true;
  }
  binding.overload = binding.overload || IsOverload(word);
  return IsOverload(word) || SaysNothing(word);
}

}  // namespace muster
