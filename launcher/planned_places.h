// Where --plan has the workers of a node run.
#pragma once

#include "absl/status/status.h"
#include "launcher/job_spec.h"
#include "launcher/plan.h"

namespace muster {

// Adds it to the plan: for the nodes that are this machine, or for all where HWLOC_XMLFILE or
// HWLOC_SYNTHETIC describes one. Nodes with as many workers are told of once. Errors: a binding
// that cannot be had, or a description that cannot be read.
absl::Status AddPlaces(const JobSpec& spec, LaunchPlan& plan);

}  // namespace muster
