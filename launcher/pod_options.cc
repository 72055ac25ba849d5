#include "launcher/pod_options.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "launcher/placement.h"
#include "proto/base/status_macros.h"

namespace muster {

absl::Status TakePod(JobSpec& spec, const FileReader& read_file, const Environment& environment) {
  if (spec.nodes_max == 1 || NamesHosts(spec) || spec.Has(OptionId::kStandalone) ||
      spec.Has(OptionId::kNodeRank) || spec.serve) {
    return absl::OkStatus();
  }
  // Without the file the pod's name in full is not known.
  ASSIGN_OR_RETURN(spec.pod, PlaceOfPod(environment, read_file(kEtcHosts).value_or("")));
  if (!spec.pod.has_value()) {
    return absl::OkStatus();
  }
  RendezvousSpec& r = spec.rendezvous;
  spec.node_rank = spec.pod->index;
  if (r.id.empty()) {
    r.id = spec.pod->job;
  }
  if (!r.file.empty() || !spec.master_addr.empty()) {
    return absl::OkStatus();
  }
  if (r.host.empty() && spec.pod->first.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "this pod has no name by which others reach it: give the template of Job ", spec.pod->job,
        " a `subdomain`, and make a headless Service of that name (deploy/kubernetes has both), ",
        "or say --rdzv-endpoint HOST:PORT"));
  }
  if (r.host.empty()) {
    r.host = spec.pod->first;
    r.port = kRendezvousPort;
    spec.notes.push_back(absl::StrCat("pod ", spec.pod->index, " of Job ", spec.pod->job,
                                      ": its nodes meet at ", r.host));
  }
  const std::string first = absl::StrCat(spec.pod->job, "-0");
  if (!r.is_host.has_value() && (r.host == first || absl::StartsWith(r.host, first + "."))) {
    r.is_host = spec.pod->index == 0;  // its name may not be known yet, even to itself
  }
  return absl::OkStatus();
}

}  // namespace muster
