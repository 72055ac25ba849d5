// Reads what the workers of a round write, cuts it into whole lines, keeps the last lines of stderr
// for the report, writes log files, and hands the rest to the OutputLink; what the link does not
// take now waits in memory and then in the spool. Loop thread only.
//
// Invariants:
//  P1 each stream's lines reach the link in order, none is missing but for those that
//     --output-overflow=drop counts (only when the spool is Full) and after Discard;
//  P2 the loop never waits for a disk: the spool has a DiskThread, and the log files, which lie in
//     one folder, have another;
//  P3 a worker is held up while its log file has kLogFileBytesMax waiting, and all that are shown
//     while the spool is Behind, or Full with --output-overflow=block; else nobody waits for longer
//     than kOutputPause at a time;
//  P4 log files that are not written when the second round after theirs begins are given up, so
//     that a disk that hangs costs the memory of two rounds and of kDiskWorksMax first writes;
//  P5 the link is told of whatever a disk has cost.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "agent/core/line_assembler.h"
#include "agent/core/line_filter.h"
#include "agent/core/log_paths.h"
#include "agent/io/disk_thread.h"
#include "agent/io/links.h"
#include "agent/io/log_file.h"
#include "agent/io/spool.h"
#include "proto/base/messages.h"
#include "proto/base/unique_fd.h"
#include "proto/base/work_plan.h"
#include "proto/wire/uv_handles.h"

namespace muster {

// How long what a progress bar writes waits for more of it, beside other workers' output.
struct BarDelays {
  absl::Duration terminal = absl::Seconds(1);
  absl::Duration pipe = absl::Seconds(10);
};

class OutputPump {
 public:
  // Shared with what uses them, and with a test that makes them slow.
  struct Disks {
    std::shared_ptr<DiskThread> spool;
    std::shared_ptr<DiskThread> logs;
  };
  // `link` outlives the pump. What is null in `disks` is made.
  OutputPump(uv_loop_t* loop, const OutputOptions& options, const std::string& job_id,
             std::string host, OutputLink* link, Disks disks = {}, BarDelays bars = {});
  ~OutputPump();

  struct WorkerEnds {
    UniqueFd out;
    UniqueFd err;
  };
  // The round before is closed. Afterwards one Open a worker.
  void BeginRound(const Assignment& assignment);
  // The round goes on as another one, in which these workers are started anew, with one Open each.
  // As CloseRound for what they had.
  void KeepRound(const Assignment& assignment, const std::vector<LocalRank>& starts);
  absl::StatusOr<WorkerEnds> Open(uint32_t local_rank);
  // The same for a worker that writes to a terminal, whose other side `terminal` is: what it writes
  // is handed on as it comes, not in lines. `workers` is a copy of the worker's side, kept until
  // Drain: nobody else may have that open for a moment, which is not the end.
  absl::Status OpenTerminal(uint32_t local_rank, UniqueFd terminal, UniqueFd workers);
  // Reads what is already in the pipes of a worker that has ended; its last lines of stderr.
  std::string Drain(uint32_t local_rank);
  // What a worker that has ended left in its error file, where the layout of the log files has a
  // place for it.
  void KeepError(LocalRank local, absl::string_view text);
  // Whose output is open: of workers that have ended, and are drained, somebody else has it.
  std::vector<uint32_t> open_ranks() const;
  // No writer can be left: takes what is in the pipes and closes them, also where a stray
  // descriptor holder keeps one open. Afterwards round_closed().
  void CloseRound();
  bool round_closed() const { return open_streams_ == 0; }
  std::function<void()> on_round_closed;  // once, by itself: every stream has come to its end

  void OnWritable();  // of the link
  // Nobody reads any more: from now on output is thrown away.
  void Discard();
  // From the workers of all rounds, shown or not.
  uint64_t bytes_read() const { return bytes_read_; }
  // Everything was handed to the link and to the log files.
  bool Empty() const;
  // What is left waits for a disk, not (only) for a reader.
  bool WaitsForDisk();
  std::function<void()> on_empty;
  std::function<void()> on_progress;  // something that waited was taken, or is in its log file

 private:
  struct Stream {
    uint32_t local_rank = 0;
    uint8_t number = 1;  // 1 stdout, 2 stderr
    UniqueFd fd;
    UniqueFd workers_side;  // of a terminal, while the worker lives
    std::unique_ptr<UvPoll> poll;
    LineAssembler lines;
    std::string tail;
    std::shared_ptr<LogFile> log;
    std::optional<LineFilter> filter;
    std::shared_ptr<LogFile> filtered;  // of all workers
    bool shown = true;
    bool raw = false;  // a terminal
    bool paused = false;
    size_t since_pause = 0;  // bytes that went to the spool
    bool grown = false;      // its pipe was made larger
    absl::Time show_held_at = absl::InfiniteFuture();
  };

  enum class Read : uint8_t { kMore, kNothing, kEnd };
  Read ReadSome(Stream& stream, size_t bytes_max);
  void Take(Stream& stream, absl::string_view bytes);
  void Emit(Stream& stream, LineAssembler::Piece piece);
  void FinishStream(Stream& stream);
  void CloseStream(Stream& stream);
  std::string FileOf(const std::string& named_file, LocalRank local, uint8_t number) const;
  absl::StatusOr<std::shared_ptr<LogFile>> MakeLog(std::string path, OldLines old);
  absl::Status OpenLogs(Stream& stream, bool to_file, bool teed);
  static void AppendChosen(Stream& stream, const std::string& lines);
  static bool LogsAreBehind(const Stream& stream);
  absl::Status OpenStream(uint32_t local_rank, uint8_t number, bool raw, UniqueFd fd);
  void OnReadable(Stream& stream);
  bool SpoolHoldsUp() const;
  void Throttle(Stream& stream);
  void ResumePaused(bool all);
  void ShowHeldLater(Stream& stream);
  void ShowHeld();
  void Pump();
  bool LogsIdle() const;
  void CheckEmpty();
  // Tells the agent's log and whoever shows the output.
  void Lose(const std::string& why);
  void Progressed() const {
    if (on_progress) {
      on_progress();
    }
  }

  uv_loop_t* const loop_;
  const OutputOptions options_;
  const LogPlace place_;
  const std::string host_;
  OutputLink* const link_;
  const BarDelays bars_;
  const std::set<uint32_t> show_;
  const std::set<uint32_t> show_local_;
  Assignment assignment_;
  std::vector<std::unique_ptr<Stream>> streams_;  // of the round: 2 a worker
  using Logs = std::vector<std::shared_ptr<LogFile>>;
  Logs logs_;                             // of the round
  Logs old_logs_;                         // of the round before, that are not written yet
  std::shared_ptr<LogFile> filtered_[2];  // of the round: stdout, stderr
  size_t open_streams_ = 0;
  const std::shared_ptr<DiskThread> log_disk_;
  OutputSpool spool_;
  uint64_t bytes_read_ = 0;
  uint64_t dropped_lines_ = 0;
  bool discard_ = false;
  bool pumping_ = false;
  UvTimer pause_timer_;
  UvTimer held_timer_;
  absl::Time show_held_at_ = absl::InfiniteFuture();  // held_timer_'s
  const std::unique_ptr<char[]> scratch_;             // of kReadBytes
};

}  // namespace muster
