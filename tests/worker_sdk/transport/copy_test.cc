#include "worker_sdk/transport/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace muster {
namespace {

class CopyTest : public testing::TestWithParam<decltype(&CopyBytes)> {};

TEST_P(CopyTest, EveryByteAndNoOther) {
  std::vector<uint8_t> source(20'000);
  for (size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<uint8_t>(i * 7 + i / 256 + 1);
  }
  constexpr size_t kBytes[] = {0,    1,    63,   64,   65,   1000, 1023, 1024,
                               1025, 1087, 1088, 1089, 2047, 2048, 4096, 19'000};
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

INSTANTIATE_TEST_SUITE_P(Ways, CopyTest,
                         testing::Values(&CopyBytes, &CopyByLoop, &CopyByWholeLines));

TEST(CopyTest, KnowsProcessorsByTheirSignatures) {
  EXPECT_TRUE(IsZen5("AuthenticAMD", 0x00B00F21));   // EPYC 9005
  EXPECT_TRUE(IsZen5("AuthenticAMD", 0x00B40F40));   // Ryzen 9000
  EXPECT_FALSE(IsZen5("AuthenticAMD", 0x00A00F11));  // EPYC 7003: Zen 3
  EXPECT_FALSE(IsZen5("AuthenticAMD", 0x00A10F11));  // EPYC 9004: Zen 4
  EXPECT_FALSE(IsZen5("GenuineIntel", 0x00B00F21));
  EXPECT_FALSE(IsZen5("", 0));
}

}  // namespace
}  // namespace muster
