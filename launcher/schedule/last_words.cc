#include "launcher/schedule/last_words.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace muster {
namespace {

constexpr size_t kLinesMax = 8;
constexpr size_t kLineBytesKept = 4096;
// At once, so that a flood does not hold the loop.
constexpr int kReadsMax = 16;

}  // namespace

LastWords::LastWords(uv_loop_t* loop, UniqueFd fd, OnLine on_line)
    : fd_(std::move(fd)),
      on_line_(std::move(on_line)),
      poll_(std::make_unique<UvPoll>(loop, fd_.get(), [this](int) { Read(); })) {
  poll_->Start(UV_READABLE);
}

void LastWords::Finish() {
  for (int i = 0; i < kReadsMax && Read(); ++i) {
  }
  Close();
}

std::string LastWords::Text() const {
  return lines_.empty() ? "" : absl::StrCat(": ", absl::StrJoin(lines_, " | "));
}

bool LastWords::Read() {
  if (!fd_.valid()) {
    return false;
  }
  char bytes[4096];
  const ssize_t n = read(fd_.get(), bytes, sizeof(bytes));
  if (n == 0) {
    Close();
  }
  for (const char c : absl::string_view(bytes, n > 0 ? static_cast<size_t>(n) : 0)) {
    if (c == '\n' || line_.size() >= kLineBytesKept) {
      Add(std::exchange(line_, ""));
    }
    if (c != '\n' && c != '\r') {
      line_.push_back(c);
    }
  }
  return n > 0;
}

void LastWords::Close() {
  poll_.reset();
  fd_.Reset();
  Add(std::exchange(line_, ""));
}

void LastWords::Add(std::string line) {
  if (absl::StripAsciiWhitespace(line).empty()) {
    return;
  }
  lines_.push_back(std::move(line));
  if (lines_.size() > kLinesMax) {
    lines_.pop_front();
  }
  on_line_(std::string(lines_.back()));
}

}  // namespace muster
