// Between the keeper of a detached job and its launcher: one socket of packets, of which each is a
// letter and a text. Bounded: a packet that finds no room is dropped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

enum class Packet : char {
  kText = 'T',     // launcher -> keeper -> typed line: a line for the person who waits there
  kListens = 'L',  // launcher -> keeper: it takes kStop from now on; before, signals end it; the
                   // text says where the job's master is, if not in it
  kStarted = 'S',  // likewise: "WORLD NODES", all workers have been started
  kEnded = 'E',    // keeper -> typed line: "CODE", the job has ended before that
  kStop = 'X',     // typed line, `launch stop` -> keeper -> launcher: "SIGNO NOW GRACE_MS"
  kFollow = 'F',   // `launch attach` -> keeper: tell me of output
  kOutput = 'O',   // keeper -> `launch attach`: there is more in the log
  kFull = 'N',     // likewise: too many follow already
  kOk = 'K',       // keeper -> `launch stop`: it is under way
  kDrill = 'D',    // `launch chaos` -> keeper -> launcher: DrillText; numbered by the keeper
  kKill = 'M',     // `launch chaos` -> keeper: kill the launcher; answered by kAnswer
  kRestart = 'R',  // `launch restart` -> keeper -> launcher; numbered likewise
  kAnswer = 'A',   // launcher -> keeper -> `launch chaos`, `restart`: "OK text"; numbered likewise
};

inline constexpr size_t kPacketBytesMax = 32u << 10;  // longer texts are cut

struct KeeperPacket {
  Packet kind = Packet::kText;
  std::string text;
};

// False: it could not be sent now. Never blocks.
bool SendPacket(int fd, Packet kind, absl::string_view text = "");
// None: nothing is there now, or (`closed`) never will be.
std::optional<KeeperPacket> ReceivePacket(int fd, bool& closed);

struct StopOrder {
  int signo = 0;
  bool now = false;
  int64_t grace_ms = -1;  // -1 = the job's own
};
std::string StopText(const StopOrder& order);
std::optional<StopOrder> ParseStop(absl::string_view text);

// What a drill is to do: the length, and its words.
struct DrillWords {
  absl::Duration length;
  std::vector<std::string> words;
};
std::string DrillText(const DrillWords& drill);
std::optional<DrillWords> ParseDrillText(absl::string_view text);

// Whether it could be done, and a sentence for the person.
struct OrderAnswer {
  bool ok = false;
  std::string text;
};
std::string AnswerText(const OrderAnswer& answer);
std::optional<OrderAnswer> ParseAnswer(absl::string_view text);

// "7 text" between keeper and launcher: whose it is.
struct Numbered {
  uint64_t number = 0;
  std::string text;
};
std::string NumberedText(const Numbered& numbered);
std::optional<Numbered> ParseNumbered(absl::string_view text);

}  // namespace muster
