// The output of a detached job: files output.START in its folder, where START is the place of their
// first byte in the whole output. Of them the newest two are kept, each of half the limit, so that
// what is dropped is the oldest. Beside each lies times.START (job_times.h), unless the disk had no
// room for it. Blocks on the file system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "launcher/jobs/job_times.h"
#include "proto/base/unique_fd.h"

namespace muster {

class JobLogWriter {
 public:
  JobLogWriter(std::string folder, uint64_t bytes_max)
      : folder_(std::move(folder)), piece_bytes_max_(bytes_max / 2), marker_(MarksPerSpan()) {}

  absl::Status Open();
  // What does not fit on the disk is dropped, and counted in a line once there is room again; the
  // older half goes first. `now`: when they came.
  void Append(absl::string_view bytes, absl::Time now);
  // At the end: says what was dropped since the last line that did.
  void Close();

 private:
  uint64_t MarksPerSpan() const;
  bool NextPiece();
  // Where to cut what goes beyond `room`; none = nowhere yet.
  std::optional<size_t> LineEnd(absl::string_view bytes, size_t room) const;
  void DropOld();
  // One mark for what comes next, where one is due.
  void MarkTime(absl::Time now);
  void Write(absl::string_view bytes, absl::Time now);
  // False: something was dropped, and there is no room to say so.
  bool SayLost();
  // How many bytes have gone to the file.
  size_t WriteSome(absl::string_view bytes);

  const std::string folder_;
  const uint64_t piece_bytes_max_;
  UniqueFd fd_;
  UniqueFd times_;  // of the open piece; invalid = there was no room for it
  TimeMarker marker_;
  std::vector<uint64_t> pieces_;  // their places, oldest first; the last is open
  uint64_t end_ = 0;              // of the output, without what was lost
  uint64_t piece_bytes_ = 0;
  uint64_t lost_ = 0;
  bool line_open_ = false;  // the last byte written ends no line
  int error_ = 0;
};

class JobLogReader {
 public:
  explicit JobLogReader(std::string folder) : folder_(std::move(folder)) {}

  void ToEnd();
  // To the beginning of the last `lines` lines; of the whole where there are fewer.
  void ToLastLines(uint64_t lines);
  // Past the lines that were printed before `since`, to the second; never back. False: it stands at
  // output of unknown time, of which some may be older.
  bool SkipBefore(absl::Time since);
  // What comes next, "" at the end. Several threads or processes may read while one writes.
  std::string Next();
  // The last `bytes` of that come once more.
  void Back(uint64_t bytes) { at_ -= bytes; }
  // Bytes that were dropped before they could be read, since the last call.
  uint64_t TakeSkipped() { return std::exchange(skipped_, 0); }

 private:
  struct Piece {
    uint64_t start = 0;
    uint64_t bytes = 0;
    std::string path;
  };
  std::vector<Piece> Pieces() const;
  // Of the line in which `place` is; `place` itself where that line is very long.
  static uint64_t LineStart(const Piece& piece, uint64_t place);

  const std::string folder_;
  uint64_t at_ = 0;
  uint64_t skipped_ = 0;
};

}  // namespace muster
