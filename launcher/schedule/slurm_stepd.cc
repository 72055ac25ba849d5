#include "launcher/schedule/slurm_stepd.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster {

StepEnd StepdEnd(absl::string_view line) {
  constexpr absl::string_view kExec = ": error: execve(): ";
  const size_t at = line.find(kExec);
  if (at == absl::string_view::npos || !absl::ConsumePrefix(&line, "slurmstepd")) {
    return {};
  }
  absl::string_view host = line.substr(0, line.find(':'));
  StepEnd out;
  if (absl::ConsumePrefix(&host, "-") && !host.empty()) {
    out.hosts = {std::string(host)};
  }
  const absl::string_view said = line.substr(line.find(kExec) + kExec.size());
  out.how = absl::StrCat("Slurm could not run the agent (", said,
                         "): muster-agent must be at this path on every node");
  return out;
}

}  // namespace muster
