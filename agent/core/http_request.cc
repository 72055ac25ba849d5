#include "agent/core/http_request.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr char kHeadEnd[] = "\r\n\r\n";
constexpr size_t kHeadEndBytes = sizeof(kHeadEnd) - 1;

struct Method {
  absl::string_view word;
  HttpMethod method;
};
constexpr Method kMethods[] = {
    {"GET", HttpMethod::kGet}, {"PUT", HttpMethod::kPut}, {"DELETE", HttpMethod::kDelete}};

bool IsScopeAndKey(absl::string_view path) {
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  return parts.size() == 3 && parts[0].empty() && !parts[1].empty() && !parts[2].empty();
}

}  // namespace

bool BeginsHttp(char byte) {
  return std::any_of(std::begin(kMethods), std::end(kMethods),
                     [byte](const Method& one) { return one.word.front() == byte; });
}

HttpRequestParser::Outcome HttpRequestParser::Feed(absl::string_view& bytes) {
  while (step_ == Step::kHead && !bytes.empty()) {
    const size_t before = head_.size();
    // No more than the head may have, so that a long body is not copied twice.
    const size_t taken = std::min(bytes.size(), kHttpHeadBytesMax - before);
    head_.append(bytes.data(), taken);
    const size_t end = head_.find(kHeadEnd, before < kHeadEndBytes ? 0 : before - kHeadEndBytes);
    if (end == std::string::npos) {
      bytes.remove_prefix(taken);
      if (head_.size() == kHttpHeadBytesMax) {
        Fail(
            absl::StrCat("an HTTP request with a head of more than ", kHttpHeadBytesMax, " bytes"));
      }
      continue;
    }
    bytes.remove_prefix(end + kHeadEndBytes - before);
    head_.resize(end);
    OnHead();
  }
  if (step_ == Step::kBody) {
    const size_t taken = std::min(body_left_, bytes.size());
    request_.body.append(bytes.data(), taken);
    bytes.remove_prefix(taken);
    body_left_ -= taken;
    if (body_left_ == 0) {
      step_ = Step::kOver;
      return Outcome::kRequest;
    }
  } else if (step_ == Step::kOver && !bytes.empty()) {  // H3
    Fail("more bytes behind an HTTP request than its Content-Length says");
  }
  return step_ == Step::kFailed ? Outcome::kError : Outcome::kMore;
}

bool HttpRequestParser::OnHead() {
  const std::string head = std::exchange(head_, "");
  bool first = true;
  for (const absl::string_view line : absl::StrSplit(head, "\r\n")) {
    if (!(first ? OnRequestLine(line) : OnHeader(line))) {
      return false;
    }
    first = false;
  }
  if (request_.method == HttpMethod::kPut && !has_length_) {
    return Fail("an HTTP PUT without Content-Length");
  }
  step_ = Step::kBody;
  return true;
}

bool HttpRequestParser::OnRequestLine(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  const auto* const method =
      std::find_if(std::begin(kMethods), std::end(kMethods),
                   [&](const Method& one) { return one.word == words.front(); });
  if (words.size() != 3 || method == std::end(kMethods) || !absl::StartsWith(words[2], "HTTP/1.")) {
    return Fail(absl::StrCat(ShowSent(line), " is no GET, PUT or DELETE of HTTP/1.1"));
  }
  if (!IsScopeAndKey(words[1])) {
    return Fail(absl::StrCat("an HTTP ", words[0], " of ", ShowSent(words[1]),
                             ", which is not /SCOPE/KEY"));
  }
  request_.method = method->method;
  request_.path = std::string(words[1]);
  return true;
}

bool HttpRequestParser::OnHeader(absl::string_view line) {
  const std::pair<absl::string_view, absl::string_view> field =
      absl::StrSplit(line, absl::MaxSplits(':', 1));
  const absl::string_view value = absl::StripAsciiWhitespace(field.second);
  if (absl::EqualsIgnoreCase(field.first, "Transfer-Encoding")) {
    return Fail(absl::StrCat("an HTTP body in ", ShowSent(value), ", without Content-Length"));
  }
  if (!absl::EqualsIgnoreCase(field.first, "Content-Length")) {
    return true;
  }
  uint64_t length = 0;
  const bool digits = std::all_of(value.begin(), value.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(value, &length) || (has_length_ && length != body_left_)) {
    return Fail(absl::StrCat("an HTTP Content-Length of ", ShowSent(value)));
  }
  if (length > body_bytes_max_) {
    return Fail(absl::StrCat("an HTTP body of ", length, " bytes, the limit is ", body_bytes_max_));
  }
  has_length_ = true;
  body_left_ = static_cast<size_t>(length);
  return true;
}

bool HttpRequestParser::Fail(std::string error) {
  error_ = std::move(error);
  step_ = Step::kFailed;
  head_.clear();
  request_ = HttpRequest{};
  return false;
}

}  // namespace muster
