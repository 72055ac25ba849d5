#include "launcher/schedule/pod.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/env_names.h"
#include "proto/base/limits.h"

namespace muster {
namespace {

constexpr char kIndex[] = "JOB_COMPLETION_INDEX";
constexpr char kHostname[] = "HOSTNAME";

std::string Value(const std::map<std::string, std::string>& environment, const char* name) {
  const auto at = environment.find(name);
  return at == environment.end() ? "" : at->second;
}

// What stands behind `host` in its name in full, ".train.default.svc.cluster.local"; "" = unknown.
absl::string_view DomainOf(absl::string_view host, absl::string_view etc_hosts) {
  for (absl::string_view line : absl::StrSplit(etc_hosts, '\n')) {
    line = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    for (size_t i = 1; i < words.size(); ++i) {  // the first is the address
      absl::string_view rest = words[i];
      if (absl::ConsumePrefix(&rest, host) && rest.size() > 1 && rest.front() == '.') {
        return rest;
      }
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<std::optional<PodPlace>> PlaceOfPod(
    const std::map<std::string, std::string>& environment, absl::string_view etc_hosts) {
  const std::string index = Value(environment, kIndex);
  if (index.empty() || environment.count(kEnvJobId) != 0) {
    return std::nullopt;
  }
  PodPlace place;
  if (!absl::SimpleAtoi(index, &place.index) || place.index >= kNodesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(kIndex, "=", index, ": want 0..", kNodesMax - 1,
                     "; unset it, or say --node-rank, where no Job of Kubernetes has set it"));
  }
  const std::string host = Value(environment, kHostname);
  absl::string_view job = host;
  if (!absl::ConsumeSuffix(&job, absl::StrCat("-", place.index)) || job.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        kHostname, "=", host, ": want JOB-", index, " in the pod of ", kIndex, "=", index,
        "; say --rdzv-endpoint and --node-rank where a pod is named otherwise"));
  }
  place.job = std::string(job);
  if (const absl::string_view domain = DomainOf(host, etc_hosts); !domain.empty()) {
    place.first = absl::StrCat(job, "-0", domain);
  }
  return std::optional<PodPlace>(std::move(place));
}

}  // namespace muster
