#include "proto/wire/convert_modex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

using ::testing::HasSubstr;

v1::Modex Wire() {
  ModexNote note;
  note.node = {3};
  note.incarnation = {7};
  note.round = {2, 5};
  note.peer = 4;
  note.rank = 9;
  note.answers = true;
  note.bytes = std::string("a\0\xff", 3);
  note.refused = "too much";
  v1::Modex wire;
  SetModex(note, &wire);
  return wire;
}

std::string Refusal(const v1::Modex& wire) { return std::string(ModexOf(wire).status().message()); }

TEST(ConvertModex, ComesBackAsItWent) {
  const auto note = ModexOf(Wire());
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_EQ(note->node, NodeId{3});
  EXPECT_EQ(note->incarnation, Incarnation{7});
  EXPECT_EQ(note->round, (RoundId{2, 5}));
  EXPECT_EQ(note->peer, 4u);
  EXPECT_EQ(note->rank, 9u);
  EXPECT_TRUE(note->answers);
  EXPECT_EQ(note->bytes, std::string("a\0\xff", 3));
  EXPECT_EQ(note->refused, "too much");
}

TEST(ConvertModex, WhatCannotBeIsRefused) {
  v1::Modex wire = Wire();
  wire.set_bytes(std::string(kModexBytesMax + 1, 'x'));
  EXPECT_THAT(Refusal(wire), HasSubstr("modex.bytes: want 0..65536, got 65537"));
  wire = Wire();
  wire.set_answers(false);
  EXPECT_THAT(Refusal(wire), HasSubstr("modex.bytes: want 0..0, got 3")) << "an ask has none";
}

}  // namespace
}  // namespace muster
