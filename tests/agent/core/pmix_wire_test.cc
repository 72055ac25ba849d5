#include "agent/core/pmix_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "proto/base/rng.h"
#include "tests/agent/core/pmix_sample.h"

namespace muster {
namespace {

using testing::HasSubstr;

std::vector<PmixMessage> OneOfEach() {
  return {PmixServe{SampleWorld()},
          PmixFenced{true, std::string("a\0b", 3)},
          PmixFenced{false, ""},
          PmixReady{{{"A=1", "B="}, {}}},
          PmixFailed{"no"},
          PmixInit{LocalRank{7}},
          PmixFinalized{LocalRank{0}},
          PmixAborted{LocalRank{1}, -3, "why"},
          PmixFence{std::string(70000, 'x')},
          PmixNotServed{"spawn"},
          PmixFound{9, true, "card"},
          PmixShow{LocalRank{1}},
          PmixWant{7},
          PmixShown{LocalRank{0}, false, ""}};
}

std::string Encoded(const PmixMessage& message) {
  absl::StatusOr<std::string> bytes = EncodePmix(message);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return *std::move(bytes);
}

// What is read of these bytes, which are no message.
std::string Refusal(absl::string_view bytes) {
  PmixReader reader;
  reader.Put(bytes);
  return std::string(reader.Next().status().message());
}

std::string Number(uint32_t value) {
  std::string out(sizeof(value), '\0');
  std::memcpy(out.data(), &value, sizeof(value));
  return out;
}

TEST(PmixWireTest, M1AllMessagesInPiecesOfAnySize) {
  std::string all;
  for (const PmixMessage& message : OneOfEach()) {
    all += Encoded(message);
  }
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{4096}, all.size()}) {
    PmixReader reader;
    std::vector<PmixMessage> got;
    for (size_t at = 0; at < all.size(); at += piece) {
      reader.Put(absl::string_view(all).substr(at, piece));
      for (;;) {
        absl::StatusOr<std::optional<PmixMessage>> next = reader.Next();
        ASSERT_TRUE(next.ok()) << next.status();
        if (!next->has_value()) {
          break;
        }
        got.push_back(**std::move(next));
      }
    }
    EXPECT_EQ(got, OneOfEach());
  }
}

TEST(PmixWireTest, M2WhatIsNoMessageIsRefused) {
  EXPECT_THAT(Refusal(Number(3)), HasSubstr("want 4.."));
  EXPECT_THAT(Refusal(Number(kPmixMessageBytesMax + 1)), HasSubstr("a message of 67108929 bytes"));
  EXPECT_THAT(Refusal(Number(4) + Number(99)), HasSubstr("kind 99"));
  EXPECT_THAT(Refusal(Number(8) + Number(2) + Number(0xffffffff)), HasSubstr("kind 2")) << "count";
  EXPECT_THAT(Refusal(Number(8) + Number(3) + Number(9)), HasSubstr("kind 3")) << "short text";
  EXPECT_THAT(Refusal(Number(12) + Number(5) + Number(1) + Number(1)), HasSubstr("kind 5"))
      << "more than its fields";
  EXPECT_THAT(Refusal(Number(12) + Number(1) + Number(2) + Number(0)), HasSubstr("kind 1"))
      << "a bool";
}

TEST(PmixWireTest, M2OfAWorldEveryRankHasOnePlace) {
  const auto refusal = [](const PmixWorld& world) { return Refusal(Encoded(PmixServe{world})); };
  EXPECT_EQ(refusal(SampleWorld()), "");
  PmixWorld world = SampleWorld();
  world.node = 2;
  EXPECT_THAT(refusal(world), HasSubstr("one place each"));
  world = SampleWorld();
  world.ranks[0] = {2};
  EXPECT_THAT(refusal(world), HasSubstr("one place each")) << "twice";
  world = SampleWorld();
  world.ranks[0] = {3};
  EXPECT_THAT(refusal(world), HasSubstr("one place each")) << "beyond the world";
  world = SampleWorld();
  world.ranks[0].clear();
  EXPECT_THAT(refusal(world), HasSubstr("one place each")) << "nowhere";
  world = SampleWorld();
  world.hosts.pop_back();
  EXPECT_THAT(refusal(world), HasSubstr("one place each")) << "a node without a name";
}

TEST(PmixWireTest, M2AnyByteMayBeAnother) {
  SplitMix64 random(5);
  for (const PmixMessage& message : OneOfEach()) {
    const std::string good = Encoded(message);
    for (int i = 0; i < 2000; ++i) {
      std::string bytes = good.substr(0, 300);
      bytes[random.Next() % bytes.size()] = static_cast<char>(random.Next());
      PmixReader reader;
      reader.Put(bytes);
      while (true) {
        const absl::StatusOr<std::optional<PmixMessage>> next = reader.Next();
        if (!next.ok() || !next->has_value()) {
          break;
        }
      }
    }
  }
}

TEST(PmixWireTest, AMessageThatIsTooLongIsNotSent) {
  const auto encoded = EncodePmix(PmixFence{std::string(kPmixMessageBytesMax, 'x')});
  EXPECT_THAT(encoded.status().message(), HasSubstr("the limit is 67108928"));
}

}  // namespace
}  // namespace muster
