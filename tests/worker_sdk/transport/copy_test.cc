#include "worker_sdk/transport/copy.h"

#include <gtest/gtest.h>

#include <vector>

namespace muster {
namespace {

TEST(CopyTest, EveryByteAndNoOther) {
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
        CopyBytes(got.data() + to, source.data() + from, bytes);
        ASSERT_EQ(got, want) << bytes << " from " << from << " to " << to;
      }
    }
  }
}

}  // namespace
}  // namespace muster
