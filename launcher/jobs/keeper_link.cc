#include "launcher/jobs/keeper_link.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/passed_signals.h"

namespace muster {

bool SendPacket(int fd, Packet kind, absl::string_view text) {
  const std::string bytes =
      absl::StrCat(std::string(1, static_cast<char>(kind)), text.substr(0, kPacketBytesMax));
  ssize_t n = 0;
  do {
    n = send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return n >= 0;
}

std::optional<KeeperPacket> ReceivePacket(int fd, bool& closed) {
  std::array<char, kPacketBytesMax + 1> bytes;
  ssize_t n = 0;
  do {
    n = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  closed = n == 0 || (n < 0 && errno != EAGAIN);
  if (n <= 0) {
    return std::nullopt;
  }
  return KeeperPacket{static_cast<Packet>(bytes[0]),
                      std::string(bytes.data() + 1, static_cast<size_t>(n) - 1)};
}

std::string StopText(const StopOrder& order) {
  return absl::StrCat(order.signo, " ", order.now ? 1 : 0, " ", order.grace_ms);
}

std::optional<StopOrder> ParseStop(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  StopOrder out;
  int now = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &out.signo) ||
      !absl::SimpleAtoi(words[1], &now) || !absl::SimpleAtoi(words[2], &out.grace_ms)) {
    return std::nullopt;
  }
  out.now = now != 0;
  return AlwaysStops(out.signo) && out.grace_ms >= -1 ? std::optional(out) : std::nullopt;
}

std::string DrillText(const DrillWords& drill) {
  return absl::StrCat(absl::ToInt64Milliseconds(drill.length), "\n",
                      absl::StrJoin(drill.words, "\n"));
}

std::optional<DrillWords> ParseDrillText(absl::string_view text) {
  DrillWords out;
  out.words = absl::StrSplit(text, '\n');
  int64_t ms = 0;
  if (!absl::SimpleAtoi(out.words[0], &ms) || ms <= 0) {
    return std::nullopt;
  }
  out.length = absl::Milliseconds(ms);
  out.words.erase(out.words.begin());
  return out;
}

std::string AnswerText(const OrderAnswer& answer) {
  return NumberedText({answer.ok ? uint64_t{1} : 0, answer.text});
}

std::optional<OrderAnswer> ParseAnswer(absl::string_view text) {
  std::optional<Numbered> parts = ParseNumbered(text);
  return parts.has_value() && parts->number <= 1
             ? std::optional(OrderAnswer{parts->number == 1, std::move(parts->text)})
             : std::nullopt;
}

std::string NumberedText(const Numbered& numbered) {
  return absl::StrCat(numbered.number, " ", numbered.text);
}

std::optional<Numbered> ParseNumbered(absl::string_view text) {
  const size_t blank = text.find(' ');
  Numbered out;
  if (blank == absl::string_view::npos || !absl::SimpleAtoi(text.substr(0, blank), &out.number)) {
    return std::nullopt;
  }
  out.text = std::string(text.substr(blank + 1));
  return out;
}

}  // namespace muster
