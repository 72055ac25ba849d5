// The log files of a round's workers.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/core/worker_argv.h"
#include "agent/io/output_pump.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"

namespace muster {

absl::Status OutputPump::OpenLogs(Stream& stream, bool to_file, bool teed) {
  const LocalRank local{stream.local_rank};
  const bool all = !options_.log_dir.empty() && !options_.redirects.Any() && !options_.tee.Any();
  if (to_file || teed || all) {
    const std::string& named = stream.number == 1 ? options_.out_file : options_.err_file;
    // A file that the user has named is replaced, as MPI's launchers do it.
    ASSIGN_OR_RETURN(stream.log, MakeLog(FileOf(named, local, stream.number),
                                         named.empty() ? OldLines::kKept : OldLines::kReplaced));
    if (named.empty() && place_.layout == LogLayout::kTorchrun) {
      stream.log->Append("");  // there it is made for one that stays silent, too
    }
  }
  const std::vector<std::string>& words =
      stream.number == 1 ? options_.out_filters : options_.err_filters;
  if (words.empty() || options_.log_dir.empty() || stream.raw || (options_.tee.Any() && !teed)) {
    return absl::OkStatus();
  }
  std::shared_ptr<LogFile>& filtered = filtered_[stream.number - 1];
  if (filtered == nullptr) {
    ASSIGN_OR_RETURN(filtered,
                     MakeLog(FilteredLogPath(place_, assignment_, stream.number), OldLines::kKept));
  }
  stream.filtered = filtered;
  stream.filter.emplace(words,
                        absl::StrCat("[", assignment_.RankOf(local).value, "@", host_, "] "));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<LogFile>> OutputPump::MakeLog(std::string path, OldLines old) {
  RETURN_IF_ERROR(log_disk_->Start());
  std::shared_ptr<LogFile> log = LogFile::Make(log_disk_, std::move(path), old);
  log->on_idle = [this] { CheckEmpty(); };
  log->on_written = [this] { Progressed(); };
  log->on_lost = [this](const std::string& why) { link_->Lost(why); };
  logs_.push_back(log);
  return log;
}

void OutputPump::KeepError(LocalRank local, absl::string_view text) {
  const std::string path = ErrorLogPath(place_, assignment_, local);
  if (text.empty() || options_.log_dir.empty() || path.empty()) {
    return;
  }
  if (const auto log = MakeLog(path, OldLines::kReplaced); log.ok()) {
    (*log)->Append(text);
  } else {
    Lose(absl::StrCat(path, ": ", log.status().message()));
  }
}

void OutputPump::Lose(const std::string& why) {
  LogWarning(why);
  link_->Lost(why);
}

std::string OutputPump::FileOf(const std::string& named_file, LocalRank local,
                               uint8_t number) const {
  if (named_file.empty()) {
    return LogPath(place_, assignment_, local, number);
  }
  const uint32_t rank = assignment_.RankOf(local).value;
  const uint32_t attempt = AttemptOf(assignment_);
  const WorkerNames names = {rank, local.value, assignment_.node_rank.value, host_,
                             assignment_.world_size};
  return absl::StrCat(FillNames(named_file, names), attempt == 0 ? "" : absl::StrCat(".", attempt));
}

void OutputPump::AppendChosen(Stream& stream, const std::string& lines) {
  if (!lines.empty()) {
    stream.filtered->Append(lines);
  }
}

bool OutputPump::LogsAreBehind(const Stream& stream) {
  return (stream.log != nullptr && stream.log->waiting_bytes() > kLogFileBytesMax) ||
         (stream.filtered != nullptr && stream.filtered->waiting_bytes() > kLogFileBytesMax);
}

bool OutputPump::LogsIdle() const {
  const auto idle = [](const auto& log) { return log->idle(); };
  return std::all_of(logs_.begin(), logs_.end(), idle) &&
         std::all_of(old_logs_.begin(), old_logs_.end(), idle);
}

}  // namespace muster
