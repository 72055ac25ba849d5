#include "proto/ship/lines.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

// wire
constexpr absl::string_view kWaitWord = "wait";
constexpr absl::string_view kTakeWord = "take";
constexpr absl::string_view kFetchWord = "fetch ";
constexpr absl::string_view kGoOnWord = "go on";
constexpr absl::string_view kWorkingWord = "working";
constexpr absl::string_view kHaveWord = "have ";
constexpr absl::string_view kMissedWord = "missed ";
constexpr absl::string_view kFailedWord = "failed ";
constexpr absl::string_view kGoesOnWord = "goes on";
constexpr size_t kAddressBytesMax = 256;

bool TakePlace(absl::string_view text, std::string& address, uint16_t& port) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  uint32_t number = 0;
  if (words.size() != 2 || words[0].empty() || words[0].size() > kAddressBytesMax ||
      !absl::SimpleAtoi(words[1], &number) || number == 0 || number > 65535) {
    return false;
  }
  address = std::string(words[0]);
  port = static_cast<uint16_t>(number);
  return true;
}

std::string OneLine(absl::string_view word, absl::string_view reason) {
  return absl::StrCat(
      word, absl::StrReplaceAll(reason.substr(0, kShipLineBytesMax / 2), {{"\n", " "}}), "\n");
}

absl::Status Unknown(absl::string_view line) {
  return absl::InvalidArgumentError(
      absl::StrCat("unknown words about what is shipped: '", line.substr(0, 80), "'"));
}

}  // namespace

std::string ShipLine(const ShipOrder& order) {
  switch (order.kind) {
    case ShipOrder::Kind::kTake:
      return absl::StrCat(kTakeWord, "\n");
    case ShipOrder::Kind::kFetch:
      return absl::StrCat(kFetchWord, order.address, " ", order.port, "\n");
    case ShipOrder::Kind::kGoOn:
      return absl::StrCat(kGoOnWord, "\n");
    case ShipOrder::Kind::kWait:
      break;
  }
  return absl::StrCat(kWaitWord, "\n");
}

std::string ShipLine(const ShipNews& news) {
  switch (news.kind) {
    case ShipNews::Kind::kHave:
      return absl::StrCat(kHaveWord, news.address, " ", news.port, "\n");
    case ShipNews::Kind::kMissed:
      return OneLine(kMissedWord, news.reason);
    case ShipNews::Kind::kFailed:
      return OneLine(kFailedWord, news.reason);
    case ShipNews::Kind::kGoesOn:
      return absl::StrCat(kGoesOnWord, "\n");
    case ShipNews::Kind::kWorking:
      break;
  }
  return absl::StrCat(kWorkingWord, "\n");
}

absl::StatusOr<ShipOrder> ParseShipOrder(absl::string_view line) {
  absl::string_view rest = line;
  ShipOrder order;
  if (line == kTakeWord) {
    order.kind = ShipOrder::Kind::kTake;
  } else if (line == kGoOnWord) {
    order.kind = ShipOrder::Kind::kGoOn;
  } else if (absl::ConsumePrefix(&rest, kFetchWord) && TakePlace(rest, order.address, order.port)) {
    order.kind = ShipOrder::Kind::kFetch;
  } else if (line != kWaitWord) {
    return Unknown(line);
  }
  return order;
}

absl::StatusOr<ShipNews> ParseShipNews(absl::string_view line) {
  absl::string_view rest = line;
  ShipNews news;
  if (absl::ConsumePrefix(&rest, kHaveWord) && TakePlace(rest, news.address, news.port)) {
    news.kind = ShipNews::Kind::kHave;
  } else if (absl::ConsumePrefix(&rest, kMissedWord)) {
    news.kind = ShipNews::Kind::kMissed;
    news.reason = std::string(rest);
  } else if (absl::ConsumePrefix(&rest, kFailedWord)) {
    news.kind = ShipNews::Kind::kFailed;
    news.reason = std::string(rest);
  } else if (line == kGoesOnWord) {
    news.kind = ShipNews::Kind::kGoesOn;
  } else if (line != kWorkingWord) {
    return Unknown(line);
  }
  return news;
}

}  // namespace muster
