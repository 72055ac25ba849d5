#include "agent/core/line_assembler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "proto/base/rng.h"

namespace muster {
namespace {

using Piece = LineAssembler::Piece;

TEST(LineAssembler, HoldsWhatHasNoEnd) {
  LineAssembler lines;
  EXPECT_EQ(lines.Put("ab").bytes, "");
  EXPECT_EQ(lines.held(), "ab");
  const Piece piece = lines.Put("c\nde\nf");
  EXPECT_EQ(piece.bytes, "abc\nde\n");
  EXPECT_TRUE(piece.ends_line);
  EXPECT_FALSE(piece.split);
  EXPECT_EQ(lines.held(), "f");
  const Piece rest = lines.TakeHeld();
  EXPECT_EQ(rest.bytes, "f");
  EXPECT_FALSE(rest.ends_line);
  EXPECT_EQ(lines.TakeHeld().bytes, "");
}

TEST(LineAssembler, NothingInNothingOut) {
  LineAssembler lines;
  const Piece piece = lines.Put("");
  EXPECT_EQ(piece.bytes, "");
  EXPECT_FALSE(piece.ends_line);
  EXPECT_FALSE(piece.split);
}

TEST(LineAssembler, SplitsALineThatIsTooLong) {
  LineAssembler lines;
  EXPECT_EQ(lines.Put(std::string(kLineBytesMax - 1, 'x')).bytes, "");
  const Piece piece = lines.Put("yz");
  EXPECT_EQ(piece.bytes.size(), kLineBytesMax + 1);
  EXPECT_TRUE(piece.split);
  EXPECT_FALSE(piece.ends_line);
  EXPECT_EQ(lines.held(), "");
  const Piece end = lines.Put("end\n");
  EXPECT_EQ(end.bytes, "end\n");
  EXPECT_TRUE(end.ends_line);
}

// Any bytes in any pieces: L1, L2 and L3.
TEST(LineAssembler, KeepsItsInvariantsForAnyCut) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SplitMix64 rng(seed);
    // From all newlines to hardly any; now and then long enough for a split.
    const uint64_t newline_in = 1 + rng.Below(seed % 40 == 0 ? 1u << 24 : 60);
    std::string input(rng.Below(seed % 40 == 0 ? 3 * kLineBytesMax : 4000), '\0');
    for (char& byte : input) {
      byte = rng.Below(newline_in) == 0 ? '\n' : static_cast<char>(rng.Below(256));
    }
    const size_t step_max = 1 + rng.Below(seed % 40 == 0 ? 300000 : 500);
    LineAssembler lines;
    std::string joined;
    for (size_t at = 0; at < input.size();) {
      const size_t size = std::min<size_t>(rng.Below(step_max + 1), input.size() - at);
      const Piece piece = lines.Put(absl::string_view(input).substr(at, size));
      at += size;
      joined += piece.bytes;
      ASSERT_EQ(piece.ends_line, !piece.bytes.empty() && piece.bytes.back() == '\n');
      ASSERT_EQ(piece.split, !piece.bytes.empty() && !piece.ends_line);
      if (piece.split) {  // L2: a part that goes on stands alone
        ASSERT_EQ(piece.bytes.find('\n'), std::string::npos);
        ASSERT_GE(piece.bytes.size(), kLineBytesMax);
      }
      ASSERT_LT(lines.held().size(), kLineBytesMax);  // L3
      ASSERT_EQ(lines.held().find('\n'), absl::string_view::npos);
      ASSERT_EQ(joined + std::string(lines.held()), input.substr(0, at));  // L1
    }
    joined += lines.TakeHeld().bytes;
    ASSERT_EQ(joined, input) << "seed " << seed;
  }
}

}  // namespace
}  // namespace muster
