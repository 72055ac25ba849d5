// Where a pod of an Indexed Job of Kubernetes stands among the others. Pure functions;
// thread-safe.
//
// The Job's controller names the pod of index I "JOB-I" and tells it I (JOB_COMPLETION_INDEX); with
// a headless Service that its template names as subdomain, each pod's own name in full is
// JOB-I.SERVICE.NAMESPACE.svc.DOMAIN, which the first line for it in /etc/hosts says
// (https://kubernetes.io/docs/concepts/workloads/controllers/job/, "Completion mode").
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct PodPlace {
  std::string job;     // "train"
  uint32_t index = 0;  // that of its node
  std::string first;   // the pod of index 0: "train-0.train.default.svc.cluster.local"; "" = its
                       // name in full is not known
  bool operator==(const PodPlace&) const = default;
};

// Where `etc_hosts` is read.
inline constexpr char kEtcHosts[] = "/etc/hosts";

// No value: this is no such pod, or a worker in one. InvalidArgument: JOB_COMPLETION_INDEX or
// HOSTNAME are not what Kubernetes writes.
absl::StatusOr<std::optional<PodPlace>> PlaceOfPod(
    const std::map<std::string, std::string>& environment, absl::string_view etc_hosts);

}  // namespace muster
