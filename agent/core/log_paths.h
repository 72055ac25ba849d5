// Where the files of --log-dir lie. Pure.
//
//   muster    DIR/JOB/round-N/rank-R.out, .err; filtered lines in node-G.filtered.out, .err
//   torchrun  DIR/ID_RANDOM/attempt_N/LOCAL_RANK/stdout.log, stderr.log, error.json; filtered lines
//             in DIR/ID_RANDOM/attempt_N/filtered_stdout.log, filtered_stderr.log. Its local
//             ranks are those of one node, which is why each has a folder.
#pragma once

#include <cstdint>
#include <string>

#include "proto/base/messages.h"
#include "proto/base/work_plan.h"

namespace muster {

// `run` is the folder of this node's job: its id, and in torchrun's layout something random behind.
struct LogPlace {
  std::string log_dir;
  LogLayout layout = LogLayout::kMuster;
  std::string run;
};

// A folder name for it, in whatever folder: "a/b" is a_b, ".." is _..
std::string FolderOfJob(const std::string& job_id);
// 0 in the first round: what workers of a later one write must not go over it, whether they were
// started again or nodes came or went.
uint32_t AttemptOf(const Assignment& assignment);
// `stream`: 1 stdout, 2 stderr.
std::string LogPath(const LogPlace& place, const Assignment& assignment, LocalRank local,
                    uint8_t stream);
// One for all workers of the node.
std::string FilteredLogPath(const LogPlace& place, const Assignment& assignment, uint8_t stream);
// "" = the layout keeps no copy of torch's error file.
std::string ErrorLogPath(const LogPlace& place, const Assignment& assignment, LocalRank local);

}  // namespace muster
