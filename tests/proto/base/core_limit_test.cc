#include "proto/base/core_limit.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

rlimit Own() {
  rlimit own{};
  getrlimit(RLIMIT_CORE, &own);
  return own;
}

TEST(CoreLimit, IsOneForUsAndForOthersWhatItWas) {
  const rlimit before = Own();
  EXPECT_EQ(CoreLimitOfOthers().rlim_cur, before.rlim_cur);
  for (int times = 0; times < 2; ++times) {
    WriteNoCores();
    EXPECT_EQ(Own().rlim_cur, before.rlim_max == 0 ? 0u : 1u);
    EXPECT_EQ(Own().rlim_max, before.rlim_max);
    EXPECT_EQ(CoreLimitOfOthers().rlim_cur, before.rlim_cur);
    EXPECT_EQ(CoreLimitOfOthers().rlim_max, before.rlim_max);
  }
  setrlimit(RLIMIT_CORE, &before);
}

}  // namespace
}  // namespace muster
