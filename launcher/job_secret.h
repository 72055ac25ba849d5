// The secret of a job whose agents launch starts. Blocking; before the loop runs.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "launcher/job_spec.h"
#include "launcher/options.h"

namespace muster {

struct JobSecret {
  std::string secret;  // "" = --insecure
  std::string key;     // where an agent finds it that cannot be handed it (TicketWords); "" = none
  std::string file;    // that has it for as long as agents are awaited; "" = none
};

// Under PBS it follows from the job's cookie; where there is none it lies in a file, mode 0600, in
// the submit directory or the home directory.
absl::StatusOr<JobSecret> MakeJobSecret(const JobSpec& spec, const Environment& environment);

// "" or gone already: nothing.
void RemoveSecretFile(const std::string& file);

}  // namespace muster
