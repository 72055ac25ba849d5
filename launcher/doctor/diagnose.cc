#include "launcher/doctor/diagnose.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "launcher/doctor/checks.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// Of what the nodes said.
constexpr std::array kChecks = {
    CheckNames,   CheckAddresses, CheckPorts,  CheckConnections, CheckLargePackets, CheckSpeed,
    CheckProxies, CheckClocks,    CheckLimits, CheckListenQueue, CheckSharedMemory, CheckDisks,
    CheckCgroups, CheckCpus,      CheckGpus,   CheckVersions,    CheckProgram,
};

constexpr size_t kNodesNamedMax = 8;

}  // namespace

std::vector<DoctorRow> Diagnose(const Examination& examined) {
  Rows rows;
  CheckStart(examined, rows);
  const bool anybody = std::any_of(examined.nodes.begin(), examined.nodes.end(),
                                   [](const auto& node) { return node.facts.has_value(); });
  if (anybody) {
    for (const auto& check : kChecks) {
      check(examined, rows);
    }
  }
  return rows;
}

absl::string_view HealthName(Health health) {
  constexpr absl::string_view kNames[] = {"ok", "warn", "bad"};
  return kNames[static_cast<size_t>(health)];
}

void AddValue(const std::string& value, const std::string& node, Values& values) {
  if (value.empty()) {
    return;
  }
  const auto it = std::find_if(values.begin(), values.end(),
                               [&](const auto& known) { return known.first == value; });
  if (it == values.end()) {
    values.push_back({value, {node}});
  } else {
    it->second.push_back(node);
  }
}

std::string ValuesText(const Values& values) {
  return absl::StrJoin(values, "; ", [](std::string* out, const auto& value) {
    const std::vector<std::string>& nodes = value.second;
    const std::vector<std::string> named(
        nodes.begin(),
        nodes.begin() + static_cast<ptrdiff_t>(std::min(nodes.size(), kNodesNamedMax)));
    absl::StrAppend(out, value.first, " on ", absl::StrJoin(named, ", "),
                    nodes.size() > named.size()
                        ? absl::StrCat(" and ", nodes.size() - named.size(), " more")
                        : "");
  });
}

}  // namespace muster
