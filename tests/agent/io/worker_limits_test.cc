#include "agent/io/worker_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/base/core_limit.h"
#include "proto/base/limit_names.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr rlimit kFiles = {500, 1000};

const ProcessLimit* Find(const NodeLimits& limits, __rlimit_resource resource) {
  const ProcessLimit* found = nullptr;
  for (const ProcessLimit& limit : limits.limits) {
    found = limit.resource == resource ? &limit : found;  // the last one is set last
  }
  return found;
}

TEST(WorkerLimits, OwnOnesAreReadByName) {
  rlimit core{};
  getrlimit(RLIMIT_CORE, &core);
  const std::vector<WorkerLimit> own = OwnLimits({"core", "nofile"}, kFiles);
  ASSERT_EQ(own.size(), 2u);
  EXPECT_EQ(own[0].name, "core");
  EXPECT_EQ(own[0].soft, core.rlim_cur);
  EXPECT_EQ(own[1].soft, 500u);          // what it was before this process raised it for itself
  EXPECT_EQ(RLIM_INFINITY, UINT64_MAX);  // which is "unlimited" on the wire
}

TEST(WorkerLimits, WithoutAWordOnlyThoseThatWeHaveChangedAreGivenBack) {
  const NodeLimits limits = LimitsOnNode({}, kFiles, "h");
  ASSERT_EQ(limits.limits.size(), 2u);
  EXPECT_EQ(Find(limits, RLIMIT_NOFILE)->value.rlim_cur, 500u);
  EXPECT_EQ(Find(limits, RLIMIT_CORE)->value.rlim_cur, CoreLimitOfOthers().rlim_cur);
  EXPECT_EQ(limits.warning, "");
}

TEST(WorkerLimits, SoftLimitsMoveUpToTheHardOnes) {
  rlimit core{};
  getrlimit(RLIMIT_CORE, &core);
  const NodeLimits limits = LimitsOnNode({{"nofile", 800}, {"core", 0}}, kFiles, "h");
  EXPECT_EQ(Find(limits, RLIMIT_NOFILE)->value.rlim_cur, 800u);
  EXPECT_EQ(Find(limits, RLIMIT_NOFILE)->value.rlim_max, 1000u);
  EXPECT_EQ(Find(limits, RLIMIT_CORE)->value.rlim_cur, 0u);
  EXPECT_EQ(Find(limits, RLIMIT_CORE)->value.rlim_max, core.rlim_max);
  EXPECT_EQ(limits.warning, "");
}

TEST(WorkerLimits, BeyondAHardOneTheyAreCutAndThatIsSaidOnce) {
  const NodeLimits limits = LimitsOnNode({{"nofile", 2000}, {"nofile", UINT64_MAX}}, kFiles, "h");
  EXPECT_EQ(Find(limits, RLIMIT_NOFILE)->value.rlim_cur, 1000u);
  EXPECT_EQ(limits.warning,
            "h: --propagate: nofile is 1000, the hard limit there, not 2000, nofile is 1000, "
            "the hard limit there, not unlimited");
}

}  // namespace
}  // namespace muster
