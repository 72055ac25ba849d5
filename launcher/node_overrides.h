// What a job file says about single nodes (`nodes:`): checked once the nodes are known, and put
// into the plan of the node that it is about. Values only; thread-safe.
//
// Rules:
//  V1 a node is named by its host, as the list has it or, without a list, as it calls itself, or by
//     its place: in the list, or what --node-rank says; a number that is a host's name is no place;
//  V2 what is said of a node wins over what the file says of all; what is typed wins over both;
//  V3 a node that the job does not have is an error, or a note where its hosts were typed;
//  V4 so is a node that two keys name.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "launcher/job_spec.h"

namespace muster {

// Of the options, what a node may say for itself.
bool MaySayNode(OptionId id);

// V3, V4, and counts of workers of single nodes. Once, when the nodes are placed.
absl::Status SettleNodeOverrides(JobSpec& spec);

// V3 for a job of this machine alone, `host`, and V4 where each node has words of its own: its name
// is not known before.
absl::Status CheckOwnName(JobSpec& spec, absl::string_view host);

// V2 for one node: `host` is its name ("" = not known), `place` its number.
void TakeNodeOverrides(const JobSpec& spec, absl::string_view host, std::optional<uint32_t> place,
                       WorkPlan& plan);

}  // namespace muster
