// What the parsers of Slurm's variables share. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

using SlurmVariables = std::map<std::string, std::string>;
using SlurmVariable = SlurmVariables::value_type;

// The way out of every error here.
inline constexpr char kWithoutSlurm[] =
    "; --hosts or --standalone says where to run without Slurm's words";

// InvalidArgument: names the variable, its value, `why` and the way out.
absl::Status NotSlurms(const SlurmVariable& variable, absl::string_view why);

// A number for each of `hosts` hosts, of a run-length list ("2(x3),1"). Errors: NotSlurms.
absl::StatusOr<std::vector<uint32_t>> NumberEach(const SlurmVariable& variable, size_t hosts);

}  // namespace muster
