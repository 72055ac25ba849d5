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
  const std::string path = absl::StrCat(folder_, "/", kName, absl::StrFormat("%020u", end_));
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    error_ = errno;
    return false;
  }
  fd_ = std::move(fd);
  piece_bytes_ = 0;
  pieces_.push_back(path);
  while (pieces_.size() > 2) {
    DropOld();
  }
  return true;
}

void JobLogWriter::DropOld() {
  unlink(pieces_.front().c_str());
  pieces_.erase(pieces_.begin());
}

void JobLogWriter::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    const uint64_t room = piece_bytes_max_ - std::min(piece_bytes_, piece_bytes_max_);
    if (bytes.size() <= room) {
      return Write(bytes);
    }
    const std::optional<size_t> cut = LineEnd(bytes, static_cast<size_t>(room));
    if (!cut.has_value()) {
      return Write(bytes);
    }
    Write(bytes.substr(0, *cut));
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

void JobLogWriter::Write(absl::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
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
