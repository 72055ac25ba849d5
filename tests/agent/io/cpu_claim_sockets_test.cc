#include "agent/io/cpu_claim_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/base/env_names.h"
#include "proto/base/log.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

constexpr uint32_t kFar = 5000;  // beyond what agents of this machine claim beside the test

CpuSet Cpus(uint32_t first, uint32_t count) {
  CpuSet out;
  for (uint32_t i = 0; i < count; ++i) {
    out.Add(kFar + first + i);
  }
  return out;
}

// What `sockets` sees, of ours.
CpuSet Claim(CpuClaimSockets& sockets, const CpuSet& cpus) {
  CpuSet seen;
  sockets.Choose([&](const CpuSet& taken) {
    seen = taken;
    return cpus;
  });
  seen.Intersect(Cpus(0, 100));
  return seen;
}

TEST(CpuClaimSocketsTest, OthersSeeWhatIsClaimedUntilItsEnd) {
  CpuClaimSockets ours;
  CpuClaimSockets looks;
  EXPECT_TRUE(Claim(ours, Cpus(0, 2)).empty());
  {
    CpuClaimSockets others;
    EXPECT_EQ(Claim(others, Cpus(4, 3)).Text(), Cpus(0, 2).Text());
    CpuSet both = Cpus(0, 2);
    both.Unite(Cpus(4, 3));
    EXPECT_EQ(Claim(looks, {}).Text(), both.Text());
  }
  EXPECT_EQ(Claim(looks, {}).Text(), Cpus(0, 2).Text());
  EXPECT_TRUE(Claim(ours, Cpus(1, 1)).empty()) << "what it claimed itself is not taken";
  EXPECT_EQ(Claim(looks, {}).Text(), Cpus(1, 1).Text());
}

TEST(CpuClaimSocketsTest, WhoGetsNoTurnChoosesAllTheSameAndSaysSo) {
  std::vector<std::string> said;
  SetLogSink([&said](LogLevel, absl::string_view text) { said.emplace_back(text); });
  const absl::Cleanup sink = [] { SetLogSink(nullptr); };
  CpuClaimSockets slow;
  CpuClaimSockets other;
  slow.Choose([&](const CpuSet&) {
    EXPECT_TRUE(Claim(other, Cpus(0, 2)).empty());
    return Cpus(0, 2);
  });
  EXPECT_THAT(said, ElementsAre(StartsWith(absl::StrCat("CPUs ", Cpus(0, 2).Text(), " were"))));
}

TEST(CpuClaimSocketsTest, InsideAWorkerNothingIsHeededOrClaimed) {
  CpuClaimSockets outer;
  EXPECT_TRUE(Claim(outer, Cpus(0, 2)).empty());
  setenv(kEnvAgentFd, "100", 1);
  CpuClaimSockets inner;
  EXPECT_TRUE(Claim(inner, Cpus(0, 1)).empty());
  unsetenv(kEnvAgentFd);
  CpuClaimSockets looks;
  EXPECT_EQ(Claim(looks, {}).Text(), Cpus(0, 2).Text());
}

}  // namespace
}  // namespace muster
