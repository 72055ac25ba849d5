// Whether the ranks that options name will be there. Pure.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "launcher/job_spec.h"

namespace muster {

// Workers of the job; 0 where they are found out later.
uint64_t WorldOf(const JobSpec& spec);

// `said`: the option and its value.
absl::Status NoSuchRank(absl::string_view said, uint32_t rank, uint64_t world);

// One that does not exist would go without its wrapper, its input or its output in silence. Where
// counts are found out later, nothing is said.
absl::Status CheckRanks(const JobSpec& spec);

}  // namespace muster
