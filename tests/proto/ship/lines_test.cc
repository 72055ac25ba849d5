#include "proto/ship/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/strip.h"
#include "proto/ship/sha256.h"

namespace muster {
namespace {

TEST(ShipLines, OrdersSurvive) {
  for (const ShipOrder& order :
       {ShipOrder{ShipOrder::Kind::kWait, "", 0}, ShipOrder{ShipOrder::Kind::kTake, "", 0},
        ShipOrder{ShipOrder::Kind::kFetch, "fe80::1%eth0", 65535},
        ShipOrder{ShipOrder::Kind::kGoOn, "", 0}}) {
    const std::string line = ShipLine(order);
    const absl::StatusOr<ShipOrder> got = ParseShipOrder(absl::StripSuffix(line, "\n"));
    ASSERT_TRUE(got.ok()) << line;
    EXPECT_EQ(*got, order);
    EXPECT_FALSE(ParseShipNews(absl::StripSuffix(line, "\n")).ok());
  }
}

TEST(ShipLines, NewsSurvive) {
  for (const ShipNews& news : {ShipNews{ShipNews::Kind::kWorking, "", 0, ""},
                               ShipNews{ShipNews::Kind::kHave, "10.0.0.1", 4000, ""},
                               ShipNews{ShipNews::Kind::kMissed, "", 0, "a b: refused"},
                               ShipNews{ShipNews::Kind::kFailed, "", 0, "no room"},
                               ShipNews{ShipNews::Kind::kGoesOn, "", 0, ""}}) {
    const std::string line = ShipLine(news);
    const absl::StatusOr<ShipNews> got = ParseShipNews(absl::StripSuffix(line, "\n"));
    ASSERT_TRUE(got.ok()) << line;
    EXPECT_EQ(*got, news);
  }
}

TEST(ShipLines, AReasonIsOneLineThatFits) {
  const std::string line =
      ShipLine(ShipNews{ShipNews::Kind::kFailed, "", 0, "a\nb" + std::string(1 << 20, 'x')});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(line.rfind("failed a bxx", 0), 0u);
  EXPECT_LE(line.size(), kShipLineBytesMax);
}

TEST(ShipLines, OthersAreRefused) {
  for (const char* line : {"", "x", "take 5", "fetch", "fetch a", "fetch a 0", "fetch a 65536",
                           "fetch a b 1", "fetch  1", "go", "wait "}) {
    EXPECT_FALSE(ParseShipOrder(line).ok()) << line;
  }
  for (const char* line : {"", "have", "have a", "have a x", "failed", "working on"}) {
    EXPECT_FALSE(ParseShipNews(line).ok()) << line;
  }
}

// FIPS 180-4's samples.
TEST(Sha256, OfPieces) {
  Sha256 abc;
  abc.Add("a");
  abc.Add("bc");
  EXPECT_EQ(absl::BytesToHexString(abc.Digest()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(absl::BytesToHexString(Sha256().Digest()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace muster
