#include "launcher/jobs/job_log.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "proto/base/limits.h"

namespace muster {
namespace {

constexpr absl::string_view kName = "output.";
constexpr absl::string_view kTimesName = "times.";
// Of a piece for a mark, while its marks are a second apart: 9 hours by default.
constexpr uint64_t kBytesPerMark = 1024;
constexpr size_t kReadBytes = 256u << 10;
constexpr int kTriesMax = 3;  // pieces may go between the look and the reading

std::string ReadAt(const std::string& path, uint64_t at, size_t bytes) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string out(bytes, '\0');
  const ssize_t n =
      fd.valid() ? pread(fd.get(), out.data(), out.size(), static_cast<off_t>(at)) : -1;
  out.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return out;
}

std::string PathOf(const std::string& folder, absl::string_view name, uint64_t start) {
  return absl::StrCat(folder, "/", name, absl::StrFormat("%020u", start));
}

// None: there are no times, or not of all.
std::optional<std::vector<TimeMark>> ReadTimes(const std::string& folder, uint64_t start) {
  const std::string path = PathOf(folder, kTimesName, start);
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return std::nullopt;
  }
  return ParseTimeMarks(ReadAt(path, 0, static_cast<size_t>(info.st_size)));
}

}  // namespace

absl::Status JobLogWriter::Open() {
  return NextPiece() ? absl::OkStatus()
                     : absl::FailedPreconditionError(absl::StrCat("output of the job in ", folder_,
                                                                  ": ", std::strerror(error_)));
}

bool JobLogWriter::NextPiece() {
  if (fd_.valid() && piece_bytes_ == 0) {
    return true;  // the disk is full; another would have this one's name
  }
  const auto create = [this](absl::string_view name) {
    return UniqueFd(open(PathOf(folder_, name, end_).c_str(),
                         O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  };
  UniqueFd times = create(kTimesName);  // first: a reader takes output without them for undated
  UniqueFd fd = create(kName);
  if (!fd.valid()) {
    error_ = errno;
    unlink(PathOf(folder_, kTimesName, end_).c_str());
    return false;
  }
  fd_ = std::move(fd);
  times_ = std::move(times);
  marker_ = TimeMarker(MarksPerSpan());
  piece_bytes_ = 0;
  pieces_.push_back(end_);
  while (pieces_.size() > 2) {
    DropOld();
  }
  return true;
}

void JobLogWriter::DropOld() {
  for (const absl::string_view name : {kName, kTimesName}) {
    unlink(PathOf(folder_, name, pieces_.front()).c_str());
  }
  pieces_.erase(pieces_.begin());
}

void JobLogWriter::Append(absl::string_view bytes, absl::Time now) {
  while (!bytes.empty()) {
    const uint64_t room = piece_bytes_max_ - std::min(piece_bytes_, piece_bytes_max_);
    if (bytes.size() <= room) {
      return Write(bytes, now);
    }
    const std::optional<size_t> cut = LineEnd(bytes, static_cast<size_t>(room));
    if (!cut.has_value()) {
      return Write(bytes, now);
    }
    Write(bytes.substr(0, *cut), now);
    bytes.remove_prefix(*cut);
    if (!NextPiece()) {
      lost_ += bytes.size();
      return;
    }
  }
}

// A piece begins with a line, unless that is endless.
std::optional<size_t> JobLogWriter::LineEnd(absl::string_view bytes, size_t room) const {
  size_t newline = bytes.substr(0, room).rfind('\n');
  if (newline == absl::string_view::npos && !line_open_ && piece_bytes_ > 0) {
    return 0;
  }
  if (newline == absl::string_view::npos) {
    newline = bytes.find('\n');
  }
  if (newline == absl::string_view::npos) {
    const bool endless = piece_bytes_ >= piece_bytes_max_ + kLineBytesMax;
    return endless ? std::optional<size_t>(0) : std::nullopt;
  }
  return newline + 1;
}

uint64_t JobLogWriter::MarksPerSpan() const {
  return std::max<uint64_t>(piece_bytes_max_ / kBytesPerMark, 1);
}

void JobLogWriter::MarkTime(absl::Time now) {
  const std::optional<TimeMark> mark = times_.valid() ? marker_.Next(now, end_) : std::nullopt;
  if (!mark.has_value()) {
    return;
  }
  const std::string line = TimeMarkLine(*mark);
  if (write(times_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    // Times with a gap would be wrong ones.
    times_.Reset();
    unlink(PathOf(folder_, kTimesName, pieces_.back()).c_str());
  }
}

void JobLogWriter::Write(absl::string_view bytes, absl::Time now) {
  if (bytes.empty()) {
    return;
  }
  MarkTime(now);
  if (!SayLost()) {
    lost_ += bytes.size();
    return;
  }
  size_t n = WriteSome(bytes);
  if (n < bytes.size() && pieces_.size() > 1) {
    DropOld();
    n += WriteSome(bytes.substr(n));
  }
  lost_ += bytes.size() - n;
  line_open_ = n > 0 ? bytes[n - 1] != '\n' : line_open_;
}

bool JobLogWriter::SayLost() {
  if (lost_ == 0) {
    return true;
  }
  const std::string note =
      absl::StrCat(line_open_ ? "\n" : "", "muster: ", lost_,
                   " bytes of the output are missing here: ", std::strerror(error_), "\n");
  const size_t n = WriteSome(note);
  if (n == note.size()) {
    lost_ = 0;
    line_open_ = false;
    return true;
  }
  if (ftruncate(fd_.get(), static_cast<off_t>(piece_bytes_ - n)) == 0) {
    piece_bytes_ -= n;
    end_ -= n;
  }
  return false;
}

void JobLogWriter::Close() {
  if (!SayLost() && pieces_.size() > 1) {
    DropOld();
    SayLost();
  }
  fd_.Reset();
  times_.Reset();
}

size_t JobLogWriter::WriteSome(absl::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t n = write(fd_.get(), bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      error_ = n < 0 ? errno : ENOSPC;
      break;
    }
    at += static_cast<size_t>(n);
  }
  piece_bytes_ += at;
  end_ += at;
  return at;
}

std::vector<JobLogReader::Piece> JobLogReader::Pieces() const {
  std::vector<Piece> out;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder_.c_str()), closedir);
  while (dir != nullptr) {
    const dirent* entry = readdir(dir.get());
    if (entry == nullptr) {
      break;
    }
    absl::string_view name = entry->d_name;
    Piece piece;
    struct stat info {};
    piece.path = absl::StrCat(folder_, "/", name);
    if (absl::ConsumePrefix(&name, kName) && absl::SimpleAtoi(name, &piece.start) &&
        stat(piece.path.c_str(), &info) == 0) {
      piece.bytes = static_cast<uint64_t>(info.st_size);
      out.push_back(std::move(piece));
    }
  }
  std::sort(out.begin(), out.end(),
            [](const Piece& a, const Piece& b) { return a.start < b.start; });
  return out;
}

void JobLogReader::ToEnd() {
  const std::vector<Piece> pieces = Pieces();
  at_ = pieces.empty() ? 0 : pieces.back().start + pieces.back().bytes;
}

void JobLogReader::ToLastLines(uint64_t lines) {
  const std::vector<Piece> pieces = Pieces();
  at_ = pieces.empty() ? 0 : pieces.front().start;
  uint64_t newlines = 0;
  bool last_byte = true;  // a newline at the very end begins no line
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    for (uint64_t end = piece->bytes; end > 0;) {
      const uint64_t from = end > kReadBytes ? end - kReadBytes : 0;
      const std::string block = ReadAt(piece->path, from, static_cast<size_t>(end - from));
      for (size_t i = block.size(); i-- > 0; last_byte = false) {
        newlines += block[i] == '\n' && !last_byte ? 1 : 0;
        const bool here = (lines == 0) || (block[i] == '\n' && !last_byte && newlines == lines);
        if (here) {
          at_ = piece->start + from + i + 1;
          return;
        }
      }
      end = from;
    }
  }
}

bool JobLogReader::SkipBefore(absl::Time since) {
  const std::vector<Piece> pieces = Pieces();
  uint64_t from = pieces.empty() ? 0 : pieces.back().start + pieces.back().bytes;
  bool sure = true;
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    const std::optional<std::vector<TimeMark>> marks = ReadTimes(folder_, piece->start);
    if (!marks.has_value() && access(piece->path.c_str(), F_OK) != 0) {
      break;  // it has been dropped meanwhile, as have those before it
    }
    if (!marks.has_value()) {
      from = piece->start;
      sure = false;
      continue;
    }
    const std::optional<TimeMark> mark = MarkSince(*marks, since);
    if (!mark.has_value() && piece->bytes > 0) {
      break;
    }
    if (mark.has_value()) {
      from = LineStart(*piece, std::min(mark->place, piece->start + piece->bytes));
      sure = true;
    }
    if (mark.has_value() && *mark != marks->front()) {
      break;
    }
  }
  if (!pieces.empty() && from > pieces.front().start) {  // else what was dropped may belong to it
    at_ = std::max(at_, from);
  }
  return sure;
}

uint64_t JobLogReader::LineStart(const Piece& piece, uint64_t place) {
  const uint64_t in_piece = place - piece.start;
  const uint64_t from = in_piece > kReadBytes ? in_piece - kReadBytes : 0;
  const size_t newline = ReadAt(piece.path, from, static_cast<size_t>(in_piece - from)).rfind('\n');
  return newline != std::string::npos ? piece.start + from + newline + 1
         : from == 0                  ? piece.start
                                      : place;
}

std::string JobLogReader::Next() {
  for (int i = 0; i < kTriesMax; ++i) {
    const std::vector<Piece> pieces = Pieces();
    if (pieces.empty()) {
      return "";
    }
    if (at_ < pieces.front().start) {
      skipped_ += pieces.front().start - at_;
      at_ = pieces.front().start;
    }
    const auto piece = std::find_if(pieces.begin(), pieces.end(), [this](const Piece& p) {
      return at_ >= p.start && at_ < p.start + p.bytes;
    });
    if (piece == pieces.end()) {
      return "";
    }
    const uint64_t in_piece = at_ - piece->start;
    std::string out =
        ReadAt(piece->path, in_piece,
               static_cast<size_t>(std::min<uint64_t>(kReadBytes, piece->bytes - in_piece)));
    if (!out.empty()) {
      at_ += out.size();
      return out;
    }
  }
  return "";
}

}  // namespace muster
