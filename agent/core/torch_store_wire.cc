#include "agent/core/torch_store_wire.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr size_t kListEntryBytes = sizeof(std::string);  // what an empty key or value costs

// Fields: k key, v value, i i64, n u32, K count and keys, P count and (key, value) pairs.
struct OpInfo {
  const char* name;
  const char* fields;
};
constexpr std::array<OpInfo, 18> kOps = {{{"SET", "kv"},
                                          {"COMPARE_SET", "kvv"},
                                          {"GET", "k"},
                                          {"ADD", "ki"},
                                          {"CHECK", "K"},
                                          {"WAIT", "K"},
                                          {"GETNUMKEYS", ""},
                                          {"DELETE_KEY", "k"},
                                          {"APPEND", "kv"},
                                          {"MULTI_GET", "K"},
                                          {"MULTI_SET", "P"},
                                          {"CANCEL_WAIT", ""},
                                          {"PING", "n"},
                                          {"QUEUE_PUSH", "kv"},
                                          {"QUEUE_POP", "k"},
                                          {"QUEUE_LEN", "k"},
                                          {"LIST_KEYS", ""},
                                          {"BARRIER", "ki"}}};

std::optional<StoreOp> OpOfCode(StoreDialect dialect, uint8_t code) {
  if (dialect == StoreDialect::kNew) {
    if (code >= 1 && code <= kOps.size()) {
      return static_cast<StoreOp>(code - 1);
    }
    return std::nullopt;
  }
  if (code <= 6) {
    return static_cast<StoreOp>(code);
  }
  if (code == 8) {  // 7 is WATCH_KEY, which torch's Python never sends
    return StoreOp::kDeleteKey;
  }
  return std::nullopt;
}

constexpr absl::string_view kWayRound =
    "; if this is your training program, its torch is not one this build knows: start it with "
    "--store=worker";

}  // namespace

StoreParser::Outcome StoreParser::Feed(absl::string_view& bytes) {
  if (step_ == Step::kFirst && first_.empty() && !bytes.empty() && BeginsHttp(bytes.front())) {
    dialect_ = StoreDialect::kHttp;
  }
  if (dialect_ == StoreDialect::kHttp) {
    return FeedHttp(bytes);
  }
  if (step_ == Step::kFirst) {
    if (!Sniff(bytes)) {
      return step_ == Step::kFailed ? Outcome::kError : Outcome::kMore;
    }
    if (dialect_ == StoreDialect::kOld) {  // what was looked at is the start of its first request
      const std::string first = std::exchange(first_, "");
      absl::string_view replay = first;
      const Outcome outcome = Take(replay);
      if (outcome != Outcome::kMore) {
        // A request of at most 5 bytes: GETNUMKEYS, which is one byte, or an error. Sniff stops at
        // the first byte that decides, so nothing of `replay` is left over.
        return outcome;
      }
    }
  }
  return Take(bytes);
}

// GET, PUT and DELETE are torch's commands of the same meaning, of keys that torch's have not.
StoreParser::Outcome StoreParser::FeedHttp(absl::string_view& bytes) {
  const HttpRequestParser::Outcome outcome =
      step_ == Step::kFailed ? HttpRequestParser::Outcome::kError : http_.Feed(bytes);
  held_bytes_ = http_.held_bytes();
  if (outcome == HttpRequestParser::Outcome::kMore) {
    return Outcome::kMore;
  }
  if (outcome == HttpRequestParser::Outcome::kError) {
    if (step_ != Step::kFailed) {
      Fail(http_.error());
    }
    return Outcome::kError;
  }
  HttpRequest request = std::exchange(http_.request(), HttpRequest{});
  held_bytes_ = 0;
  request_ = StoreRequest{
      .op = StoreOp::kGet, .keys = {absl::StrCat("http:", request.path)}, .values = {}};
  if (request.method == HttpMethod::kPut) {
    request_.op = StoreOp::kSet;
    request_.values.push_back(std::move(request.body));
  } else if (request.method == HttpMethod::kDelete) {
    request_.op = StoreOp::kDeleteKey;
  }
  return Outcome::kRequest;
}

// Decides the dialect. True: it is known.
bool StoreParser::Sniff(absl::string_view& bytes) {
  static constexpr char kNewStart[5] = {0, '\xCE', '\xF7', '\x85', '\x3C'};
  while (!bytes.empty()) {
    first_.push_back(bytes.front());
    bytes.remove_prefix(1);
    const size_t n = first_.size();
    if (first_[0] == kNewStart[1]) {  // the magic without a VALIDATE in front
      if (first_.compare(0, n, kNewStart + 1, std::min<size_t>(n, 4)) != 0) {
        Fail(absl::StrCat("code ", static_cast<uint8_t>(first_[0]), " is unknown", kWayRound));
        return false;
      }
      if (n == 4) {
        Fail(absl::StrCat(
            "a magic number before every command is the dialect of an unreleased torch of 2023",
            kWayRound));
        return false;
      }
      continue;
    }
    if (first_[n - 1] != kNewStart[n - 1]) {
      dialect_ = StoreDialect::kOld;
      step_ = Step::kCode;
      return true;
    }
    if (n == sizeof(kNewStart)) {
      dialect_ = StoreDialect::kNew;
      step_ = Step::kCode;
      first_.clear();
      return true;
    }
  }
  return false;
}

StoreParser::Outcome StoreParser::Take(absl::string_view& bytes) {
  while (!bytes.empty()) {
    switch (step_) {
      case Step::kFirst:
      case Step::kFailed:
        return Outcome::kError;
      case Step::kCode: {
        const uint8_t code = static_cast<uint8_t>(bytes.front());
        bytes.remove_prefix(1);
        if (!Begin(code)) {
          return Outcome::kError;
        }
        break;
      }
      case Step::kWord: {
        while (word_have_ < word_width_ && !bytes.empty()) {
          word_value_ |= uint64_t{static_cast<uint8_t>(bytes.front())} << (8 * word_have_++);
          bytes.remove_prefix(1);
        }
        if (word_have_ == word_width_ && !OnWord(word_value_)) {
          return Outcome::kError;
        }
        break;
      }
      case Step::kText: {
        const size_t n = static_cast<size_t>(std::min<uint64_t>(text_left_, bytes.size()));
        std::string& text = text_is_key_ ? request_.keys.back() : request_.values.back();
        text.append(bytes.data(), n);
        bytes.remove_prefix(n);
        text_left_ -= n;
        held_bytes_ += n;
        if (text_left_ == 0) {
          OnText();
        }
        break;
      }
    }
    if (step_ == Step::kCode) {
      held_bytes_ = 0;
      return Outcome::kRequest;
    }
  }
  return step_ == Step::kFailed ? Outcome::kError : Outcome::kMore;
}

bool StoreParser::Begin(uint8_t code) {
  const std::optional<StoreOp> op = OpOfCode(dialect_, code);
  if (!op.has_value()) {
    return Fail(absl::StrCat("code ", code, " is unknown", kWayRound));
  }
  request_ = StoreRequest{.op = *op, .keys = {}, .values = {}};
  field_ = kOps[static_cast<size_t>(*op)].fields;
  counted_ = false;
  items_left_ = 0;
  NextField();
  return true;
}

bool StoreParser::NextField() {
  switch (*field_) {
    case 'k':
      Expect(Word::kKeyLength, 8);
      return true;
    case 'v':
      Expect(Word::kValueLength, 8);
      return true;
    case 'i':
      Expect(Word::kNumber, 8);
      return true;
    case 'n':
      Expect(Word::kNumber, 4);
      return true;
    case 'K':
    case 'P':
      if (!counted_) {
        Expect(Word::kCount, 8);
        return true;
      }
      if (*field_ == 'P' && request_.values.size() < request_.keys.size()) {
        Expect(Word::kValueLength, 8);
        return true;
      }
      if (items_left_ > 0) {
        --items_left_;
        Expect(Word::kKeyLength, 8);
        return true;
      }
      break;
    default:
      break;
  }
  step_ = Step::kCode;
  return false;
}

bool StoreParser::OnWord(uint64_t value) {
  switch (word_) {
    case Word::kKeyLength:
    case Word::kValueLength: {
      text_is_key_ = word_ == Word::kKeyLength;
      const uint64_t limit = text_is_key_ ? limits_.key_bytes_max : limits_.value_bytes_max;
      if (value > limit) {
        return Fail(absl::StrCat(StoreOpName(request_.op), " with a ",
                                 text_is_key_ ? "key" : "value", " of ", value,
                                 " bytes, the limit is ", limit, kWayRound));
      }
      (text_is_key_ ? request_.keys : request_.values).emplace_back();
      held_bytes_ += kListEntryBytes;
      text_left_ = value;
      step_ = Step::kText;
      if (value == 0) {
        OnText();
      }
      return true;
    }
    case Word::kCount:
      if (value > limits_.keys_per_request_max) {
        return Fail(absl::StrCat(StoreOpName(request_.op), " of ", value, " keys, the limit is ",
                                 limits_.keys_per_request_max, kWayRound));
      }
      counted_ = true;
      items_left_ = value;
      NextField();
      return true;
    case Word::kNumber:
      request_.number = static_cast<int64_t>(value);
      ++field_;
      NextField();
      return true;
  }
  return false;
}

void StoreParser::OnText() {
  if (*field_ == 'k' || *field_ == 'v') {
    ++field_;
  }
  NextField();
}

void StoreParser::Expect(Word word, size_t width) {
  step_ = Step::kWord;
  word_ = word;
  word_width_ = width;
  word_have_ = 0;
  word_value_ = 0;
}

bool StoreParser::Fail(std::string error) {
  error_ = std::move(error);
  step_ = Step::kFailed;
  request_ = StoreRequest{};
  held_bytes_ = 0;
  return false;
}

void AppendU64(std::string& out, uint64_t value) {
  for (int i = 0; i < 8; ++i) {
    out.push_back(static_cast<char>(value >> (8 * i)));
  }
}

void AppendU32(std::string& out, uint32_t value) {
  for (int i = 0; i < 4; ++i) {
    out.push_back(static_cast<char>(value >> (8 * i)));
  }
}

const char* StoreOpName(StoreOp op) { return kOps[static_cast<size_t>(op)].name; }

}  // namespace muster
