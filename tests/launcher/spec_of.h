// Command lines as values.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/options.h"
#include "launcher/resolve.h"

namespace muster {

using Args = std::vector<std::string>;

// Parsed; it has to be right.
inline JobSpec Ok(const Args& args, const Environment& environment = {}) {
  auto command = ParseCommandLine(args, environment);
  EXPECT_TRUE(command.ok()) << command.status();
  return command.ok() ? std::move(command->spec) : JobSpec();
}

// What is said of one that is wrong.
inline std::string Error(const Args& args, const Environment& environment = {}) {
  const auto command = ParseCommandLine(args, environment);
  EXPECT_EQ(command.status().code(), absl::StatusCode::kInvalidArgument)
      << absl::StrJoin(args, " ");
  return std::string(command.status().message());
}

// Parsed and resolved, with one text for every file.
inline absl::StatusOr<JobSpec> Resolve(const Args& args, const std::string& file = "",
                                       const Environment& environment = {}) {
  const FileReader read = [&](const std::string&) -> absl::StatusOr<std::string> { return file; };
  auto command = ParseCommandLine(args, environment, read);
  if (!command.ok()) {
    return command.status();
  }
  const absl::Status resolved = ResolveHosts(command->spec, read, environment);
  return resolved.ok() ? absl::StatusOr<JobSpec>(std::move(command->spec)) : resolved;
}

inline Args Words(absl::string_view line) { return absl::StrSplit(line, ' '); }

// Likewise; it has to be right.
inline JobSpec SpecOf(absl::string_view line, const std::string& file = "",
                      const Environment& environment = {}) {
  auto spec = Resolve(Words(line), file, environment);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *std::move(spec) : JobSpec();
}

// What srun sets for a task that it has started on each of two nodes.
inline Environment SlurmTask(const char* node) {
  return {{"SLURM_JOB_ID", "17"},
          {"SLURM_STEP_ID", "2"},
          {"SLURM_NODEID", node},
          {"SLURM_STEP_NODELIST", "node[1-2]"},
          {"SLURM_STEP_NUM_TASKS", "2"},
          {"SLURM_CPUS_ON_NODE", "6"},
          {"SLURM_JOB_NODELIST", "node[0-3]"}};
}

}  // namespace muster
