#include "rendezvous/core/fence_board.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/base/rng.h"

namespace muster {
namespace {

FencePiece Up(uint32_t number, std::string bytes, uint32_t round = 1) {
  FencePiece out;
  out.round = {1, round};
  out.number = number;
  out.size = bytes.size();
  out.bytes = std::move(bytes);
  return out;
}

// B1, B2
TEST(FenceBoardTest, AllHearWhatAllHaveSaidInTheOrderOfNodes) {
  FenceBoard board;
  EXPECT_TRUE(board.Take(Up(1, "c"), 2, 3).empty());
  EXPECT_TRUE(board.Take(Up(1, "c"), 2, 3).empty()) << "said again";
  EXPECT_TRUE(board.Take(Up(1, ""), 1, 3).empty());
  const auto answers = board.Take(Up(1, "a"), 0, 3);
  ASSERT_EQ(answers.size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(answers[i].place, i);
    EXPECT_EQ(answers[i].piece.bytes, "ac");
    EXPECT_EQ(answers[i].piece.size, 2u);
  }
  const auto again = board.Take(Up(1, "c"), 2, 3);
  ASSERT_EQ(again.size(), 1u) << "its answer was lost";
  EXPECT_EQ(again[0].piece.bytes, "ac");
}

TEST(FenceBoardTest, TellsTheRestOnDemand) {
  FenceBoard board;
  const std::string text(kFencePieceBytes - 1, 'x');
  board.Take(Up(1, text), 0, 2);
  const auto first = board.Take(Up(1, "yyy"), 1, 2);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].piece.bytes, text + "y");
  FencePiece ask = Up(1, "");
  ask.asks = true;
  ask.offset = kFencePieceBytes;
  const auto rest = board.Take(ask, 1, 2);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].piece.bytes, "yy");
  EXPECT_EQ(rest[0].piece.offset, kFencePieceBytes);
  ask.number = 2;
  EXPECT_TRUE(board.Take(ask, 1, 2).empty()) << "there is none yet";
}

TEST(FenceBoardTest, ANewRoundBeginsAnew) {
  FenceBoard board;
  board.Take(Up(1, "old"), 0, 2);
  EXPECT_TRUE(board.Take(Up(1, "b", 2), 1, 2).empty());
  EXPECT_EQ(board.Take(Up(1, "a", 2), 0, 2)[0].piece.bytes, "ab");
}

// B3
TEST(FenceBoardTest, TooMuchIsRefusedForAll) {
  FenceBoard board(10);
  board.Take(Up(1, "123456"), 0, 3);
  const auto answers = board.Take(Up(1, "78901"), 1, 3);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[2].piece.refused,
            "what the nodes tell each other in one barrier has more than 10 bytes");
  EXPECT_EQ(answers[2].piece.size, 0u);
  EXPECT_EQ(board.Take(Up(1, "x"), 2, 3)[0].piece.refused, answers[2].piece.refused);
}

TEST(FenceBoardTest, KeepsAFewFencesOnly) {
  FenceBoard board;
  for (uint32_t number = 1; number <= kFencesKept; ++number) {
    board.Take(Up(number, "a"), 0, 2);
  }
  board.Take(Up(kFencesKept + 1, "a"), 0, 2);
  EXPECT_TRUE(board.Take(Up(kFencesKept + 1, "b"), 1, 2).empty()) << "node 0's was not kept";
}

// One node has left fence 4 and is in fence 5, the other has not heard of fence 4; a master that
// knows nothing of them takes over.
TEST(FenceBoardTest, AMasterThatTakesOverLearnsWhatItNeeds) {
  FenceBoard board;
  EXPECT_TRUE(board.Take(Up(4, "a4"), 0, 2).empty());
  EXPECT_TRUE(board.Take(Up(5, "a5"), 0, 2).empty());
  EXPECT_TRUE(board.Take(Up(3, "b3"), 1, 2).empty());
  const auto fourth = board.Take(Up(4, "b4"), 1, 2);
  ASSERT_EQ(fourth.size(), 2u);
  EXPECT_EQ(fourth[1].piece.bytes, "a4b4");
  const auto fifth = board.Take(Up(5, "b5"), 1, 2);
  ASSERT_EQ(fifth.size(), 2u);
  EXPECT_EQ(fifth[0].piece.bytes, "a5b5");
  EXPECT_TRUE(board.Take(Up(3, "b3"), 1, 2).empty()) << "it is over";
}

// B3
TEST(FenceBoardTest, AnswersShareTheirBytes) {
  FenceBoard board;
  board.Take(Up(1, std::string(kFencePieceBytes, 'a')), 0, 2);
  const auto answers = board.Take(Up(1, "b"), 1, 2);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].piece.bytes.size(), kFencePieceBytes);
  EXPECT_EQ(answers[0].piece.bytes.Chunks().begin()->data(),
            answers[1].piece.bytes.Chunks().begin()->data());
}

constexpr char kWhy[] = "node c was lost: no beat for 15s";

// B4
TEST(FenceBoardTest, WhoWaitsForALostNodeIsTold) {
  FenceBoard board;
  board.Take(Up(1, "a"), 0, 3);
  const auto answers = board.Lose({1, 1}, 2, kWhy);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0].piece.number, 1u);
  EXPECT_EQ(answers[0].piece.refused, kWhy);
  EXPECT_TRUE(board.Lose({1, 1}, 2, kWhy).empty()) << "said again";
  EXPECT_EQ(board.Take(Up(1, "b"), 1, 3)[0].piece.refused, kWhy) << "it comes later";
  const auto next = board.Take(Up(2, "a"), 0, 3);
  ASSERT_EQ(next.size(), 1u) << "of the next fence";
  EXPECT_EQ(next[0].place, 0u);
  EXPECT_EQ(next[0].piece.number, 2u);
  EXPECT_EQ(next[0].piece.refused, kWhy);
  EXPECT_TRUE(board.Take(Up(1, "a", 2), 0, 3).empty()) << "of the next round";
}

TEST(FenceBoardTest, WhatALostNodeHasSaidIsHeard) {  // B2
  FenceBoard board;
  board.Take(Up(1, "c"), 2, 3);
  EXPECT_TRUE(board.Lose({1, 1}, 2, kWhy).empty());
  board.Take(Up(1, "a"), 0, 3);
  EXPECT_EQ(board.Take(Up(1, "b"), 1, 3)[1].piece.bytes, "abc");
  EXPECT_EQ(board.Take(Up(2, "a"), 0, 3)[0].piece.refused, kWhy);
}

// A master that takes over knows of the loss from its journal, before any node speaks.
TEST(FenceBoardTest, ALossIsKnownBeforeTheFences) {
  FenceBoard board;
  EXPECT_TRUE(board.Lose({1, 1}, 1, kWhy).empty());
  EXPECT_EQ(board.Take(Up(4, "a"), 0, 2)[0].piece.refused, kWhy);
  EXPECT_EQ(board.Take(Up(5, "a"), 0, 2)[0].piece.refused, kWhy);
  FencePiece ask = Up(5, "");
  ask.asks = true;
  EXPECT_TRUE(board.Take(ask, 0, 2).empty());
}

}  // namespace
}  // namespace muster
