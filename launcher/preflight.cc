#include "launcher/preflight.h"

#include "absl/strings/str_cat.h"
#include "launcher/options.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr size_t kLinesMax = 8;

// What says where the job runs, and how its nodes are reached.
constexpr OptionId kOfNodes[] = {
    OptionId::kHosts, OptionId::kHostfile,  OptionId::kExclude, OptionId::kNnodes,
    OptionId::kIface, OptionId::kPortRange, OptionId::kSsh,     OptionId::kSshArgs,
};

}  // namespace

bool PreflightWanted(const JobSpec& spec) {
  return spec.way == StartWay::kHosts && spec.nodes.size() > 1 && !spec.no_preflight;
}

std::string DoctorLine(const JobSpec& spec) {
  std::string out = absl::StrCat(ShellQuote(spec.launch_path), " doctor");
  for (const OptionId id : kOfNodes) {
    if (!spec.Has(id)) {
      continue;
    }
    for (const std::string& value : ValuesOf(spec, id)) {
      absl::StrAppend(&out, " ", OptionName(id), id == OptionId::kSshArgs ? "=" : " ",
                      ShellQuote(value));
    }
  }
  return out;
}

std::vector<std::string> PreflightLines(
    const JobSpec& spec,
    const std::vector<std::pair<std::string, std::vector<std::string>>>& doubts) {
  std::vector<std::string> out;
  size_t left_out = 0;
  for (const auto& [node, of_node] : doubts) {
    for (const std::string& doubt : of_node) {
      if (out.size() < kLinesMax) {
        out.push_back(absl::StrCat(node, ": ", doubt));
      } else {
        ++left_out;
      }
    }
  }
  if (left_out > 0) {
    out.push_back(absl::StrCat(left_out, " more of the kind; all of them: ", DoctorLine(spec)));
  }
  return out;
}

}  // namespace muster
