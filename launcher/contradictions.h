// Options that make no sense together. Pure.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "launcher/job_spec.h"
#include "launcher/options.h"

namespace muster {

// InvalidArgument where the user typed two that contradict, with both named, or one without the
// one that it belongs to.
absl::Status CheckPairs(const JobSpec& spec);

// Whether two options never make sense together.
bool Contradict(OptionId a, OptionId b);

// Options beside which one that comes from a weaker source is not meant: a variable left over in
// the environment, or a line of the job file.
std::vector<OptionId> Displacing(OptionId id);

}  // namespace muster
