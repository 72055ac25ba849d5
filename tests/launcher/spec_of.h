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

// Parsed and resolved, with one text for every host file.
inline JobSpec SpecOf(absl::string_view line, const std::string& host_file = "") {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  auto command = ParseCommandLine(words, {});
  EXPECT_TRUE(command.ok()) << command.status();
  const absl::Status resolved = ResolveHosts(
      command->spec, [&](const std::string&) -> absl::StatusOr<std::string> { return host_file; });
  EXPECT_TRUE(resolved.ok()) << resolved;
  return std::move(command->spec);
}

}  // namespace muster
