// What options do that mpirun and mpiexec users type out of habit. Pure; thread-safe.
#pragma once

#include "absl/status/status.h"
#include "launcher/job_spec.h"
#include "launcher/options.h"

namespace muster {

// -genv NAME VALUE, -genvlist A,B,C: other spellings of -x.
absl::Status AddForwardPair(const OptionValue& v, JobSpec& s);
absl::Status AddForwardList(const OptionValue& v, JobSpec& s);

}  // namespace muster
