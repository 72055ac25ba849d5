// `launch --plan --yaml`: the job file that does what this command line, its environment and its
// job file do together. Text and values only; thread-safe.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "launcher/job_spec.h"

namespace muster {

// Of a parsed spec, resolved or not. InvalidArgument: a value is not text that YAML can hold.
absl::StatusOr<std::string> WriteJobFile(const JobSpec& spec);

}  // namespace muster
