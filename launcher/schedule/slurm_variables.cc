#include "launcher/schedule/slurm_variables.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "launcher/schedule/hostlist.h"
#include "proto/base/limits.h"
#include "proto/base/text.h"

namespace muster {

absl::Status NotSlurms(const SlurmVariable& variable, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(variable.first, "=", variable.second, ": ", why, kWithoutSlurm));
}

absl::StatusOr<std::vector<uint32_t>> NumberEach(const SlurmVariable& variable, size_t hosts) {
  absl::StatusOr<std::vector<uint32_t>> numbers = ExpandRunLengths(variable.second);
  if (!numbers.ok()) {
    return NotSlurms(variable, numbers.status().message());
  }
  if (numbers->size() != hosts) {
    return NotSlurms(variable, absl::StrCat("speaks of ", Plural(numbers->size(), "node", "nodes"),
                                            ", the node list of ", hosts));
  }
  const auto bad = std::find_if(numbers->begin(), numbers->end(), [](uint32_t number) {
    return number == 0 || number > kWorkersPerNodeMax;
  });
  if (bad != numbers->end()) {
    return NotSlurms(variable, absl::StrCat("want 1..", kWorkersPerNodeMax, " a node, got ", *bad));
  }
  return numbers;
}

}  // namespace muster
