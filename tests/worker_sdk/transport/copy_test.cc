#include "worker_sdk/transport/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace muster {
namespace {

class Copy : public testing::TestWithParam<decltype(&CopyBytes)> {};

TEST_P(Copy, EveryByteAndNoOther) {
  std::vector<uint8_t> source(5000);
  for (size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<uint8_t>(i * 7 + i / 256 + 1);
  }
  constexpr size_t kBytes[] = {0,    1,    63,   64,   65,   1000, 1023,
                               1024, 1025, 1087, 1088, 1089, 4096, 4500};
  constexpr size_t kOffsets[] = {0, 1, 13, 32};
  for (const size_t bytes : kBytes) {
    for (const size_t from : kOffsets) {
      for (const size_t to : kOffsets) {
        std::vector<uint8_t> want(source.size(), 0);
        std::copy_n(source.begin() + static_cast<ptrdiff_t>(from), bytes,
                    want.begin() + static_cast<ptrdiff_t>(to));
        std::vector<uint8_t> got(source.size(), 0);
        GetParam()(got.data() + to, source.data() + from, bytes);
        ASSERT_EQ(got, want) << bytes << " from " << from << " to " << to;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AsHereAndByLoop, Copy, testing::Values(&CopyBytes, &CopyByLoop));

TEST(IsZen3, KnowsProcessorsByTheirSignatures) {
  EXPECT_TRUE(IsZen3("AuthenticAMD", 0x00A00F11));   // EPYC 7003
  EXPECT_TRUE(IsZen3("AuthenticAMD", 0x00A20F10));   // Ryzen 5000
  EXPECT_TRUE(IsZen3("AuthenticAMD", 0x00A50F00));   // its mobile kin
  EXPECT_FALSE(IsZen3("AuthenticAMD", 0x00830F10));  // EPYC 7002: Zen 2
  EXPECT_FALSE(IsZen3("AuthenticAMD", 0x00A10F11));  // EPYC 9004: Zen 4
  EXPECT_FALSE(IsZen3("AuthenticAMD", 0x00A60F12));  // Ryzen 7000: Zen 4
  EXPECT_FALSE(IsZen3("AuthenticAMD", 0x00B00F21));  // EPYC 9005: Zen 5
  EXPECT_FALSE(IsZen3("GenuineIntel", 0x00A00F11));
  EXPECT_FALSE(IsZen3("", 0));
}

}  // namespace
}  // namespace muster
