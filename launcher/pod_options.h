// What the pods of an Indexed Job of Kubernetes need not be told: where they meet, and which of
// them they are.
#pragma once

#include "absl/status/status.h"
#include "launcher/job_spec.h"
#include "launcher/options.h"

namespace muster {

// Before the rendezvous is settled. The pod of index 0 serves; each pod's index is its node rank.
// What the user says counts more. InvalidArgument: PlaceOfPod's, and pods without names.
absl::Status TakePod(JobSpec& spec, const FileReader& read_file, const Environment& environment);

}  // namespace muster
