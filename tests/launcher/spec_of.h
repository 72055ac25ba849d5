// A command line, parsed and resolved, with one text for every host file.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "launcher/options.h"
#include "launcher/resolve.h"

namespace muster {

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
