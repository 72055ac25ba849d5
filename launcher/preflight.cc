#include "launcher/preflight.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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
  const bool typed = spec.way == StartWay::kTyped || spec.way == StartWay::kServe;
  const bool several =
      typed ? spec.nodes_max > 1 : spec.way == StartWay::kHosts && spec.nodes.size() > 1;
  return several && !spec.no_preflight;
}

std::vector<std::string> DoctorWords(const JobSpec& spec) {
  std::vector<std::string> out = {spec.launch_path, "doctor"};
  for (const OptionId id : kOfNodes) {
    if (!spec.Has(id)) {
      continue;
    }
    for (const std::string& value : ValuesOf(spec, id)) {
      if (id == OptionId::kSshArgs) {  // which may begin with a dash
        out.push_back(absl::StrCat(OptionName(id), "=", value));
      } else {
        out.insert(out.end(), {std::string(OptionName(id)), value});
      }
    }
  }
  return out;
}

std::string DoctorLine(const JobSpec& spec) {
  return absl::StrJoin(DoctorWords(spec), " ", [](std::string* out, const std::string& word) {
    out->append(ShellQuote(word));
  });
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
