// Where --plan has the workers of a node run.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "launcher/described_topology.h"
#include "launcher/job_spec.h"
#include "launcher/plan.h"

namespace muster {

// How many workers are meant on nodes like the one described where no number is given
// (--nproc-per-node auto, cpu or gpu, --map-by ppr:N:OBJECT), into the spec. What --cpu-list leaves
// out is left out of `described`. Errors: FailedPrecondition (gpu, and there is none).
absl::Status CountDescribed(DescribedTopology& described, JobSpec& spec);

// Adds it to the plan: for the nodes that are this machine, or for all where one is described.
// Nodes with as many workers are told of once. Errors: a binding that cannot be had.
absl::Status AddPlaces(const JobSpec& spec, std::optional<DescribedTopology> described,
                       LaunchPlan& plan);

}  // namespace muster
