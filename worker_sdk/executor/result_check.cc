#include "worker_sdk/executor/result_check.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace muster {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kNamed = 8;  // ranks that a message lists

using Table = std::array<std::array<uint32_t, 256>, kLanes>;

// table[lane][byte]: what `byte` does to the sum, `lane` bytes later.
constexpr Table MakeTable() {
  constexpr uint32_t kPolynomial = 0x82F63B78;
  Table table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) {
      sum = (sum >> 1) ^ ((sum & 1) != 0 ? kPolynomial : 0);
    }
    table[0][byte] = sum;
  }
  for (size_t lane = 1; lane < kLanes; ++lane) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = table[lane - 1][byte];
      table[lane][byte] = (before >> 8) ^ table[0][before & 0xFF];
    }
  }
  return table;
}
constexpr Table kTable = MakeTable();

std::string Hex(uint32_t sum) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%08x", sum);
  return text;
}

// What more than half of them are; false: there is none.
bool Majority(const std::vector<uint32_t>& sums, uint32_t& out) {
  std::vector<uint32_t> sorted = sums;
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  out = *middle;
  return static_cast<size_t>(std::count(sums.begin(), sums.end(), out)) > sums.size() / 2;
}

}  // namespace

// Eight bytes at a time: Kounavis and Berry, "Novel table lookup-based algorithms for
// high-performance CRC generation" (2008).
uint32_t Crc32c(const uint8_t* data, size_t bytes) {
  uint32_t sum = 0xFFFFFFFF;
  for (; bytes >= kLanes; bytes -= kLanes, data += kLanes) {
    uint64_t word = 0;
    std::memcpy(&word, data, sizeof(word));
    word ^= sum;
    sum = 0;
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sum ^= kTable[kLanes - 1 - lane][(word >> (8 * lane)) & 0xFF];
    }
  }
  for (; bytes > 0; --bytes, ++data) {
    sum = (sum >> 8) ^ kTable[0][(sum ^ *data) & 0xFF];
  }
  return ~sum;
}

Status CompareSums(const std::vector<uint32_t>& sums, const std::string& call) {
  if (std::all_of(sums.begin(), sums.end(), [&](uint32_t sum) { return sum == sums[0]; })) {
    return {};
  }
  uint32_t right = 0;
  const bool known = Majority(sums, right);
  std::string ranks;
  size_t others = 0;
  for (size_t rank = 0; rank < sums.size(); ++rank) {
    if (known && sums[rank] == right) {
      continue;
    }
    if (++others <= kNamed) {
      ranks += (ranks.empty() ? "rank " : ", rank ") + std::to_string(rank) + " has crc " +
               Hex(sums[rank]);
    }
  }
  if (others > kNamed) {
    ranks += ", and " + std::to_string(others - kNamed) + " more differ";
  }
  return {StatusCode::kInternal,
          "the result of " + call + " is not the same on all ranks: " + ranks +
              (known ? "; that of the others is " + Hex(right) : "") + " (MUSTER_CHECK)"};
}

}  // namespace muster
