#include "launcher/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Preflight, OnlySeveralMachinesAndUnlessSwitchedOff) {
  EXPECT_TRUE(PreflightWanted(SpecOf("--hosts a,b p")));
  EXPECT_TRUE(PreflightWanted(SpecOf("--hosts a,b --no-preflight --preflight p")));
  EXPECT_TRUE(PreflightWanted(SpecOf("--nnodes 2 --rdzv-endpoint a p")));
  EXPECT_TRUE(PreflightWanted(SpecOf("--nnodes 1:2 p")));
  for (const char* line :
       {"--hosts a,b --no-preflight p", "--hosts a p", "p", "--standalone --nnodes 2 p",
        "--nnodes 1 --rdzv-endpoint a p", "--nnodes 2 --rdzv-endpoint a --no-preflight p"}) {
    EXPECT_FALSE(PreflightWanted(SpecOf(line))) << line;
  }
}

TEST(Preflight, TheLineToType) {
  EXPECT_EQ(DoctorLine(SpecOf("--hosts a:4,b:4 -n 8 --iface ib0 --ssh-args=-v p x")),
            "launch doctor --hosts a:4,b:4 --iface ib0 --ssh-args=-v");
  EXPECT_EQ(DoctorLine(SpecOf("-H a,b -H c,d --exclude d --nnodes 2 p")),
            "launch doctor --hosts a,b --hosts c,d --exclude d --nnodes 2");
  EXPECT_THAT(DoctorWords(Ok({"--hosts", "a,b", "--ssh-args", "-p 22 -v", "p"})),
              ElementsAre("launch", "doctor", "--hosts", "a,b", "--ssh-args=-p 22 -v"));
  JobSpec spec = SpecOf("-f f p", "a\nb\n");
  spec.launch_path = "/opt/my launch";
  EXPECT_EQ(DoctorLine(spec), "'/opt/my launch' doctor --hostfile f");
}

TEST(Preflight, ALineForEachDoubtAndOneForTheRest) {
  const JobSpec spec = SpecOf("--hosts a,b p");
  EXPECT_TRUE(PreflightLines(spec, {{"a", {}}, {"b", {}}}).empty());
  EXPECT_THAT(PreflightLines(spec, {{"a", {"x", "y"}}, {"b", {"z"}}}),
              ElementsAre("a: x", "a: y", "b: z"));
  const std::vector<std::string> lines =
      PreflightLines(spec, {{"a", std::vector<std::string>(7, "x")}, {"b", {"y", "z", "z"}}});
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_EQ(lines[7], "b: y");
  EXPECT_THAT(lines[8], HasSubstr("2 more of the kind; all of them: launch doctor --hosts a,b"));
}

}  // namespace
}  // namespace muster
