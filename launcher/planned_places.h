// Where --plan has the workers of a node run.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "launcher/described_topology.h"
#include "launcher/job_spec.h"
#include "launcher/plan.h"

namespace muster {

// How many workers --map-by ppr:N:OBJECT means on nodes like the one described, into the spec of
// which nothing else says it. What --cpu-list leaves out is left out of `described`.
void CountDescribed(DescribedTopology& described, JobSpec& spec);

// Adds it to the plan: for the nodes that are this machine, or for all where one is described.
// Nodes with as many workers are told of once. Errors: a binding that cannot be had.
absl::Status AddPlaces(const JobSpec& spec, std::optional<DescribedTopology> described,
                       LaunchPlan& plan);

}  // namespace muster
