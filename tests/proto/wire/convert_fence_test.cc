#include "proto/wire/convert_fence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "proto/base/limits.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

v1::Fence Wire() {
  FencePiece piece;
  piece.node = {3};
  piece.incarnation = {7};
  piece.round = {2, 5};
  piece.number = 9;
  piece.size = 12;
  piece.offset = 4;
  piece.bytes = std::string("a\0\xff", 3);
  piece.asks = true;
  piece.refused = "too much";
  v1::Fence wire;
  SetFence(piece, &wire);
  return wire;
}

std::string Refusal(const v1::Fence& wire) { return std::string(FenceOf(wire).status().message()); }

TEST(ConvertFence, ComesBackAsItWent) {
  const auto piece = FenceOf(Wire());
  ASSERT_TRUE(piece.ok()) << piece.status();
  EXPECT_EQ(piece->node, NodeId{3});
  EXPECT_EQ(piece->incarnation, Incarnation{7});
  EXPECT_EQ(piece->round, (RoundId{2, 5}));
  EXPECT_EQ(piece->number, 9u);
  EXPECT_EQ(piece->size, 12u);
  EXPECT_EQ(piece->offset, 4u);
  EXPECT_EQ(piece->bytes, std::string("a\0\xff", 3));
  EXPECT_TRUE(piece->asks);
  EXPECT_EQ(piece->refused, "too much");
}

TEST(ConvertFence, WhatCannotBeIsRefused) {
  v1::Fence wire = Wire();
  wire.set_number(0);
  EXPECT_THAT(Refusal(wire), HasSubstr("fence.number"));
  wire = Wire();
  wire.set_offset(13);
  EXPECT_THAT(Refusal(wire), HasSubstr("fence.offset: want 0..12, got 13"));
  wire = Wire();
  wire.set_size(kFenceBytesMax + 1);
  EXPECT_THAT(Refusal(wire), HasSubstr("fence.size"));
  wire = Wire();
  wire.set_bytes(std::string(kFencePieceBytes + 1, 'x'));
  EXPECT_THAT(Refusal(wire), HasSubstr("fence.bytes"));
}

}  // namespace
}  // namespace muster
