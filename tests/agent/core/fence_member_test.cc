#include "agent/core/fence_member.h"

#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr RoundId kRound = {1, 7};

FencePiece Down(uint32_t number, std::string bytes, uint64_t size, uint64_t offset = 0) {
  FencePiece out;
  out.round = kRound;
  out.number = number;
  out.bytes = std::move(bytes);
  out.size = size;
  out.offset = offset;
  return out;
}

class FenceMemberTest : public testing::Test {
 protected:
  FenceMemberTest() { member_.BeginRound(kRound); }
  FenceMember member_;
};

TEST_F(FenceMemberTest, SaysItsTextInPieces) {
  const std::string text(2 * kFencePieceBytes + 1, 'x');
  const auto pieces = member_.Enter(text);
  ASSERT_EQ(pieces.size(), 3u);
  std::string said;
  for (const FencePiece& piece : pieces) {
    EXPECT_EQ(piece.round, kRound);
    EXPECT_EQ(piece.number, 1u);
    EXPECT_EQ(piece.size, text.size());
    EXPECT_EQ(piece.offset, said.size());
    said += std::string(piece.bytes);
  }
  EXPECT_EQ(said, text);
}

TEST_F(FenceMemberTest, AnEmptyTextIsSaidToo) { EXPECT_EQ(member_.Enter("").size(), 1u); }

TEST_F(FenceMemberTest, AsksForTheRestPieceByPiece) {
  member_.Enter("a");
  const auto first = member_.Take(Down(1, "ab", 5));
  ASSERT_TRUE(first.ask.has_value());
  EXPECT_TRUE(first.ask->asks);
  EXPECT_EQ(first.ask->offset, 2u);
  EXPECT_FALSE(first.result.has_value());
  EXPECT_FALSE(member_.Take(Down(1, "ab", 5)).ask.has_value()) << "it came twice";
  const auto last = member_.Take(Down(1, "cde", 5, 2));
  ASSERT_TRUE(last.result.has_value());
  EXPECT_EQ(**last.result, "abcde");
}

// F1
TEST_F(FenceMemberTest, LeavesAFenceOnce) {
  member_.Enter("a");
  EXPECT_TRUE(member_.Take(Down(1, "a", 1)).result.has_value());
  EXPECT_FALSE(member_.Take(Down(1, "a", 1)).result.has_value());
  member_.Enter("b");
  EXPECT_FALSE(member_.Take(Down(1, "a", 1)).result.has_value()) << "of the one before";
  FencePiece other = Down(2, "b", 1);
  other.round.n = 8;
  EXPECT_FALSE(member_.Take(other).result.has_value()) << "of another round";
  FencePiece refusal = Down(2, "", 0);
  refusal.refused = "too much";
  const auto taken = member_.Take(refusal);
  ASSERT_TRUE(taken.result.has_value());
  EXPECT_EQ(taken.result->status().message(), "too much");
}

// F2
TEST_F(FenceMemberTest, SaysItsLastTwoTextsAgain) {
  EXPECT_TRUE(member_.Again().empty());
  member_.Enter("a");
  member_.Take(Down(1, "a", 1));
  member_.Enter("b");
  member_.Take(Down(2, "b", 2));  // and the connection breaks
  const auto again = member_.Again();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].number, 1u);
  EXPECT_EQ(again[0].bytes, "a");
  EXPECT_EQ(again[1].number, 2u);
  EXPECT_EQ(again[1].bytes, "b");
  EXPECT_EQ(**member_.Take(Down(2, "bc", 2)).result, "bc") << "from its beginning";
}

TEST_F(FenceMemberTest, ANewRoundBeginsAnew) {
  member_.Enter("a");
  member_.BeginRound({1, 8});
  EXPECT_TRUE(member_.Again().empty());
  EXPECT_EQ(member_.Enter("b")[0].number, 1u);
}

}  // namespace
}  // namespace muster
