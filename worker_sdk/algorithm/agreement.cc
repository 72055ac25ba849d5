#include "worker_sdk/algorithm/agreement.h"

#include <algorithm>
#include <string>

#include "worker_sdk/algorithm/schedule.h"

namespace muster {
namespace {

// Above a rank in a vote: the smallest has the lowest rank.
constexpr int64_t kAboveRank = int64_t{1} << 32;

// Settings as a number: what they say, and the version above it.
constexpr int64_t kAboveSettings = 4;

std::string Describe(int64_t settings) {
  return std::string("MUSTER_WIRE=") + ((settings & 1) != 0 ? "bf16" : "full") +
         " MUSTER_CHECK=" + ((settings & 2) != 0 ? "crc" : "off");
}

constexpr int64_t kNoVote = INT64_MAX;

}  // namespace

uint32_t CarriersFor(const Layout& layout, int64_t cpus) {
  constexpr int64_t kCarriersMax = 8;
  return std::min(layout.SmallestNode(),
                  static_cast<uint32_t>(std::clamp(cpus / 2, int64_t{1}, kCarriersMax)));
}

uint32_t AheadFor(int64_t microseconds, uint64_t slot_bytes) {
  // More than 2 Gbit/s with a long delay is more than the kernel's socket buffers hold.
  constexpr int64_t kBytesPerMicrosecond = 250;
  constexpr int64_t kMicrosecondsMax = 1'000'000;
  const int64_t bytes =
      std::clamp(microseconds, int64_t{0}, kMicrosecondsMax) * kBytesPerMicrosecond;
  return static_cast<uint32_t>(
      std::min<uint64_t>(static_cast<uint64_t>(bytes) / slot_bytes + 1, kAheadMax));
}

SettingsVote VoteOf(const Settings& settings, uint32_t rank) {
  const int64_t number = (settings.wire == Wire::kFull ? 0 : 1) + (settings.check ? 2 : 0) +
                         settings.schedules * kAboveSettings;
  return {number * kAboveRank + rank, -number * kAboveRank + rank};
}

Status CheckVotes(const SettingsVote& smallest) {
  const int64_t low = smallest.least / kAboveRank;
  const int64_t most_rank = (smallest.most % kAboveRank + kAboveRank) % kAboveRank;
  const int64_t high = (most_rank - smallest.most) / kAboveRank;
  if (low == high) {
    return {};
  }
  const std::string low_rank = "rank " + std::to_string(smallest.least % kAboveRank);
  const std::string high_rank = "rank " + std::to_string(most_rank);
  if (low / kAboveSettings != high / kAboveSettings) {
    return {StatusCode::kFailedPrecondition,
            "ranks have different libmusters: schedules are of version " +
                std::to_string(low / kAboveSettings) + " on " + low_rank + ", of version " +
                std::to_string(high / kAboveSettings) + " on " + high_rank +
                ": install the same one on all nodes"};
  }
  return {StatusCode::kFailedPrecondition,
          "ranks disagree on how to work together: " + low_rank + " has " + Describe(low) + ", " +
              high_rank + " has " + Describe(high) + ": give all the same (launch -x NAME=VALUE)"};
}

// A rank without state has nothing to say, but which calls it has made: numbers only grow.
StandingVote VoteOf(const Standing& standing, uint32_t rank) {
  const auto started = -static_cast<int64_t>(standing.started);
  if (!standing.has_state) {
    return {kNoVote, started, kNoVote, kNoVote, kNoVote};
  }
  return {static_cast<int64_t>(standing.completed), started, standing.committed,
          -standing.committed, int64_t{rank}};
}

Agreed AgreedOf(const StandingVote& smallest) {
  const auto [completed, started, committed, committed_last, holder] = smallest;
  Agreed out;
  out.started = static_cast<uint64_t>(-started);
  if (holder == kNoVote) {
    out.completed = out.started;
    out.holder = Agreed::kNone;
    return out;
  }
  out.completed = static_cast<uint64_t>(completed);
  out.committed = committed;
  out.committed_last = -committed_last;
  out.holder = static_cast<int>(holder);
  return out;
}

}  // namespace muster
