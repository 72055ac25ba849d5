// What launch and an agent say to each other on the agent's channel, between its bootstrap and
// gRPC, where files are shipped (--ship): lines. Behind kTake the archive's bytes follow. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

inline constexpr size_t kShipLineBytesMax = 8u << 10;  // a reason is cut to fit
// Each side says something at least this often, so that the other one knows that it is there.
inline constexpr absl::Duration kShipSayEvery = absl::Seconds(2);
inline constexpr absl::Duration kShipSilenceMax = absl::Seconds(30);

struct ShipOrder {  // launch -> agent
  enum class Kind : uint8_t { kWait, kTake, kFetch, kGoOn };
  Kind kind = Kind::kWait;
  std::string address;  // kFetch: an agent that has it
  uint16_t port = 0;
  bool operator==(const ShipOrder&) const = default;
};

struct ShipNews {  // agent -> launch
  enum class Kind : uint8_t {
    kWorking,
    kHave,    // unpacked; others may fetch it at `address` and `port`
    kMissed,  // it could not be fetched there, for `reason`: another way, please
    kFailed,  // for good: this agent ends
    kGoesOn   // the answer to kGoOn, and its last word: what follows is gRPC
  };
  Kind kind = Kind::kWorking;
  std::string address;
  uint16_t port = 0;
  std::string reason;
  bool operator==(const ShipNews&) const = default;
};

// With the newline.
std::string ShipLine(const ShipOrder& order);
std::string ShipLine(const ShipNews& news);

// Without it. InvalidArgument: not such a line.
absl::StatusOr<ShipOrder> ParseShipOrder(absl::string_view line);
absl::StatusOr<ShipNews> ParseShipNews(absl::string_view line);

}  // namespace muster
