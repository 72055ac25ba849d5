// Open MPI's rank files: where each rank runs. Pure functions over text; thread-safe.
//
// A line is 'rank N=HOST' with or without 'slot=LIST' behind it; blanks may stand around '=', what
// follows '#' is a comment. HOST is a name of the host list, or +nK for its K-th from 0. LIST names
// sockets and cores, to which nobody is bound here: it is only checked to be a list.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

struct RankPlace {
  std::string host;               // "" where it is relative
  std::optional<uint32_t> index;  // +nK
  bool slots = false;             // given
  size_t line = 0;                // from 1
  bool operator==(const RankPlace&) const = default;
};

// By rank, from 0 without a gap. `name` is the file's path: InvalidArgument begins with
// "ranks.txt:3: ".
absl::StatusOr<std::vector<RankPlace>> ParseRankFile(absl::string_view text,
                                                     absl::string_view name);

}  // namespace muster
