// By which processes that descend from a worker are known once it has ended.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/base/env_names.h"

namespace muster {

struct WorkerTrace {
  pid_t group = -1;                // that it led
  std::vector<std::string> marks;  // in its environment: its job, and its place on this node
  absl::Time started;
};

// `own`: entries of the worker's environment.
inline std::vector<std::string> MarksOf(const std::vector<char*>& own) {
  std::vector<std::string> marks;
  for (const char* const name : {kEnvJobId, kEnvLocalRank}) {
    for (const absl::string_view variable : own) {
      if (absl::StartsWith(variable, absl::StrCat(name, "="))) {
        marks.emplace_back(variable);
      }
    }
  }
  return marks;
}

}  // namespace muster
