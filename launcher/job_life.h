// What --journal keeps of a Slurm job, for the time when Slurm starts it again: all its processes
// are others then, and some of its nodes may be. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// A job's life is what lies between two starts by Slurm.
struct JobLife {
  std::string round;                 // the last one that has started: "1.2"
  std::vector<std::string> hosts;    // of that, by node rank
  std::vector<std::string> history;  // a line for each earlier round, also of lives before
  bool operator==(const JobLife&) const = default;
};

inline constexpr size_t kLifeBytesMax = size_t{16} << 20;  // of the largest job, with room

// JSON, and what it says. InvalidArgument: it is none of ours.
std::string LifeText(const JobLife& life);
absl::StatusOr<JobLife> ParseLifeText(absl::string_view text);

// In the order of their places: a host that was there `before` has its old one, if there are as
// many now; the others fill the gaps in their order.
std::vector<std::string> KeepPlaces(std::vector<std::string> hosts,
                                    const std::vector<std::string>& before);

// The history of the life that follows, which is start number `restarts` of Slurm's after the
// first.
std::vector<std::string> HistoryAfter(JobLife life, uint32_t restarts);

}  // namespace muster
