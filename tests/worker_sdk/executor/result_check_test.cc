#include "worker_sdk/executor/result_check.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace muster {
namespace {

uint32_t Sum(const std::string& text) {
  return Crc32c(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

// The examples of RFC 3720, B.4, and the usual one.
TEST(Crc32cTest, KnownSums) {
  EXPECT_EQ(Sum("123456789"), 0xE3069283U);
  EXPECT_EQ(Sum(""), 0U);
  EXPECT_EQ(Sum(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(Sum(std::string(32, '\xFF')), 0x62A8AB43U);
  std::string ascending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  EXPECT_EQ(Sum(ascending), 0x46DD794EU);
}

TEST(Crc32cTest, EveryBitCounts) {
  const std::string text = "every length up to several words, and every bit";
  for (size_t bytes = 1; bytes <= text.size(); ++bytes) {
    for (size_t bit = 0; bit < 8 * bytes; ++bit) {
      std::string other = text.substr(0, bytes);
      other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << (bit % 8)));
      ASSERT_NE(Sum(other), Sum(text.substr(0, bytes))) << bytes << " bytes, bit " << bit;
    }
  }
}

TEST(CompareSumsTest, WhoDiffersIsNamed) {
  const auto say = [](const std::vector<uint32_t>& sums) {
    return CompareSums(sums, "barrier (call 3)").ToString();
  };
  const std::string begin =
      "INTERNAL: the result of barrier (call 3) is not the same on all ranks: ";
  EXPECT_EQ(say({7}), "OK");
  EXPECT_EQ(say({7, 7, 7}), "OK");
  EXPECT_EQ(say({7, 7, 255}), begin +
                                  "rank 2 has crc 0x000000ff; that of the others is "
                                  "0x00000007 (MUSTER_CHECK)");
  EXPECT_EQ(say({1, 7, 7, 2, 7}), begin +
                                      "rank 0 has crc 0x00000001, rank 3 has crc 0x00000002; "
                                      "that of the others is 0x00000007 (MUSTER_CHECK)");
  EXPECT_EQ(say({7, 8}),
            begin + "rank 0 has crc 0x00000007, rank 1 has crc 0x00000008 (MUSTER_CHECK)");
  EXPECT_EQ(say({7, 8, 8, 7}),
            begin +
                "rank 0 has crc 0x00000007, rank 1 has crc 0x00000008, rank 2 has crc "
                "0x00000008, rank 3 has crc 0x00000007 (MUSTER_CHECK)");
}

TEST(CompareSumsTest, AMessageIsBounded) {
  std::vector<uint32_t> sums(40, 1);
  std::fill(sums.begin(), sums.begin() + 15, 2);
  const std::string text = CompareSums(sums, "x").message();
  EXPECT_NE(text.find("rank 7 has crc 0x00000002, and 7 more differ; that of"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("rank 8 "), std::string::npos) << text;
}

}  // namespace
}  // namespace muster
