#include "agent/core/log_paths.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace muster {
namespace {

constexpr uint8_t kStdout = 1;

std::string RoundFolder(const LogPlace& place, const Assignment& assignment) {
  return place.layout == LogLayout::kTorchrun
             ? absl::StrCat(place.log_dir, "/", place.run, "/attempt_", AttemptOf(assignment))
             : absl::StrCat(place.log_dir, "/", place.run, "/round-", assignment.round.n);
}

}  // namespace

std::string FolderOfJob(const std::string& job_id) {
  std::string out = absl::StrReplaceAll(job_id, {{"/", "_"}});
  return out == "." || out == ".." ? absl::StrCat("_", out) : out;
}

uint32_t AttemptOf(const Assignment& assignment) { return std::max(assignment.round.n, 1u) - 1; }

std::string LogPath(const LogPlace& place, const Assignment& assignment, LocalRank local,
                    uint8_t stream) {
  const std::string folder = RoundFolder(place, assignment);
  return place.layout == LogLayout::kTorchrun
             ? absl::StrCat(folder, "/", local.value,
                            stream == kStdout ? "/stdout.log" : "/stderr.log")
             : absl::StrCat(folder, "/rank-", assignment.RankOf(local).value,
                            stream == kStdout ? ".out" : ".err");
}

std::string FilteredLogPath(const LogPlace& place, const Assignment& assignment, uint8_t stream) {
  const std::string folder = RoundFolder(place, assignment);
  return place.layout == LogLayout::kTorchrun
             ? absl::StrCat(folder,
                            stream == kStdout ? "/filtered_stdout.log" : "/filtered_stderr.log")
             : absl::StrCat(folder, "/node-", assignment.node_rank.value,
                            stream == kStdout ? ".filtered.out" : ".filtered.err");
}

std::string ErrorLogPath(const LogPlace& place, const Assignment& assignment, LocalRank local) {
  return place.layout == LogLayout::kTorchrun
             ? absl::StrCat(RoundFolder(place, assignment), "/", local.value, "/error.json")
             : "";
}

}  // namespace muster
