#include "launcher/job_life.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Names = std::vector<std::string>;

TEST(JobLifeTest, ItsTextSaysItAgain) {
  const JobLife life{"1.2", {"node0", "n\xff"}, {"round 1.1: \"x\"\n"}};
  const auto back = ParseLifeText(LifeText({"1.2", {"node0", "node1"}, life.history}));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, (JobLife{"1.2", {"node0", "node1"}, life.history}));
  EXPECT_TRUE(ParseLifeText(LifeText(life)).ok());  // whatever the bytes
}

TEST(JobLifeTest, WhatIsNoneIsRefused) {
  for (const char* text :
       {"", "[]", "{}", R"({"format":"muster-life-2","round":"1.1","hosts":[],"history":[]})",
        R"({"format":"muster-life-1","round":1,"hosts":[],"history":[]})",
        R"({"format":"muster-life-1","round":"1.1","hosts":[1],"history":[]})",
        R"({"format":"muster-life-1","round":"1.1","hosts":[]})"}) {
    EXPECT_EQ(ParseLifeText(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

struct Case {
  Names hosts;
  Names before;
  Names want;
};

TEST(KeepPlacesTest, WhoIsThereAgainHasTheOldOne) {
  const Case cases[] = {{{"a", "b"}, {"a", "b"}, {"a", "b"}},
                        {{"a", "b"}, {"b", "a"}, {"b", "a"}},
                        {{"b", "c"}, {"a", "b"}, {"c", "b"}},
                        {{"c", "d"}, {"a", "b"}, {"c", "d"}},
                        {{"a", "b", "c"}, {"c", "a"}, {"c", "a", "b"}},
                        {{"b"}, {"a", "b"}, {"b"}},
                        {{"a", "b"}, {}, {"a", "b"}},
                        {{}, {"a"}, {}}};
  for (const Case& c : cases) {
    EXPECT_EQ(KeepPlaces(c.hosts, c.before), c.want) << testing::PrintToString(c.hosts);
  }
}

TEST(JobLifeTest, TheNextOneKnowsWhatWasBefore) {
  const JobLife life{"2.3", {"node0", "node1", "x"}, {"round 2.2: a worker failed"}};
  EXPECT_THAT(HistoryAfter(life, 2),
              ElementsAre("round 2.2: a worker failed",
                          "round 2.3 on node[0-1],x: Slurm has started the job again "
                          "(SLURM_RESTART_COUNT=2)"));
  EXPECT_EQ(HistoryAfter({"1.1", {"a"}, Names(40, "line")}, 1).size(), 16u);
}

constexpr char kStartedAgain[] =
    "round 1.2 on node[2,0]: Slurm has started the job again (SLURM_RESTART_COUNT=1)";

// With a file of its life before, whatever its path.
JobSpec InSlurm(absl::string_view line, const Environment& more, const std::string& file = "") {
  Environment environment = {{"SLURM_JOB_ID", "17"},
                             {"SLURM_JOB_NODELIST", "node[1-2]"},
                             {"SLURM_JOB_CPUS_PER_NODE", "2,3"}};
  environment.insert(more.begin(), more.end());
  const std::string before = LifeText({"1.2", {"node2", "node0"}, {"round 1.1: x"}});
  return SpecOf(line, file.empty() ? before : file, environment);
}

// What srun sets for a task that it has started on each of two nodes.
Environment StepTaskOf(const char* node) {
  return {{"SLURM_STEP_ID", "2"},
          {"SLURM_NODEID", node},
          {"SLURM_STEP_NODELIST", "node[1-2]"},
          {"SLURM_STEP_NUM_TASKS", "2"}};
}

std::string Hosts(const JobSpec& spec) {
  std::string out;
  for (const NodeWorkers& node : spec.nodes) {
    absl::StrAppend(&out, node.host.name, "=", node.workers, " ");
  }
  return out;
}

TEST(KeptLifeTest, AStepThatIsStartedAgainKeepsItsRanks) {
  for (const auto& [task, rank] : {std::pair("0", 1U), std::pair("1", 0U)}) {
    Environment again = StepTaskOf(task);
    again["SLURM_RESTART_COUNT"] = "1";
    const JobSpec spec = InSlurm("--journal j p", again);
    EXPECT_EQ(spec.node_rank, rank);
    EXPECT_EQ(spec.rendezvous.is_host, rank == 1U);  // the first task serves, whatever its rank
    EXPECT_EQ(spec.journal, "");
    ASSERT_TRUE(spec.life.has_value());
    EXPECT_EQ(spec.life->file, "j/slurm-17");
    EXPECT_THAT(spec.life->hosts, ElementsAre("node2", "node1"));
    EXPECT_THAT(spec.life->history, ElementsAre("round 1.1: x", kStartedAgain));
  }
}

TEST(KeptLifeTest, AFirstStartReadsNothing) {
  const JobSpec spec = InSlurm("--journal j p", StepTaskOf("1"));
  EXPECT_EQ(spec.node_rank, 1U);
  ASSERT_TRUE(spec.life.has_value());
  EXPECT_THAT(spec.life->history, IsEmpty());
  EXPECT_EQ(Hosts(InSlurm("--journal j p", {})), "node1=2 node2=3 ");
}

TEST(KeptLifeTest, AnAllocationThatIsStartedAgainKeepsItsRanks) {
  const Environment again = {{"SLURM_RESTART_COUNT", "1"}};
  const JobSpec spec = InSlurm("--journal j p", again);
  EXPECT_EQ(Hosts(spec), "node2=3 node1=2 ");
  EXPECT_THAT(spec.notes, Contains(absl::StrCat("the nodes that are there again keep their ranks: ",
                                                kStartedAgain)));
  EXPECT_EQ(Hosts(InSlurm("p", again)), "node1=2 node2=3 ");
}

TEST(KeptLifeTest, WhatCannotBeReadIsSaid) {
  const JobSpec spec = InSlurm("--journal j p", {{"SLURM_RESTART_COUNT", "1"}}, "{");
  EXPECT_EQ(Hosts(spec), "node1=2 node2=3 ");
  EXPECT_THAT(spec.notes, Contains(HasSubstr("the nodes' ranks of before are not known")));
}

TEST(KeptLifeTest, WithHostsOfTheUserThereIsNone) {
  const auto spec =
      Resolve({"--journal", "j", "--hosts", "a,b", "p"}, "", {{"SLURM_JOB_ID", "17"}});
  EXPECT_THAT(std::string(spec.status().message()), HasSubstr("--journal j: want --nnodes"));
}

}  // namespace
}  // namespace muster
