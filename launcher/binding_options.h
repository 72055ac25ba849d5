// Where on its node a worker runs: --bind-to, --map-by and their kin, with the words of mpirun,
// mpiexec and torchrun. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "launcher/job_spec.h"
#include "launcher/options.h"

namespace muster {

absl::Status SetBindTo(const OptionValue& v, JobSpec& s);
absl::Status SetCpuList(const OptionValue& v, JobSpec& s);
absl::Status SetMemoryBinding(const OptionValue& v, JobSpec& s);
absl::Status SetCoresPerWorker(const OptionValue& v, JobSpec& s);
absl::Status SetGpusPerWorker(const OptionValue& v, JobSpec& s);
absl::Status SetGpuMode(const OptionValue& v, JobSpec& s);
absl::Status SetReportBindings(const OptionValue& v, JobSpec& s);
// torchrun's --numa-binding.
absl::Status SetNumaBinding(const OptionValue& v, JobSpec& s);

// --map-by: an object within the node, if `word` is one ("numa", "socket", "gpu").
bool MapByObject(absl::string_view word, CpuBinding& binding);
// What may stand behind it, each after a ':': "pe=2", "overload-allowed". False: none of these.
absl::StatusOr<bool> TakeMapModifier(const OptionValue& v, absl::string_view word,
                                     CpuBinding& binding);

}  // namespace muster
