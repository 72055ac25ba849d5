#include "agent/core/allowed_cpus.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;

CpuSet Set(const char* text) { return ParseCpuList(text).value_or(CpuSet()); }

struct Case {
  const char* name;
  const char* mask;
  const char* cpuset;  // "" = not known
  uint32_t slurm_cpus;
  const char* cpu_list;
  const char* want;
  const char* notice;  // a part of it; "" = none
};

class AllowedTest : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    Bounds, AllowedTest,
    testing::Values(Case{"All", "0-15", "", 0, "", "0-15", ""},
                    Case{"Cpuset", "0-15", "4-7", 0, "", "4-7", ""},
                    Case{"NothingInCommonIsNothingKnown", "0-3", "8-9", 0, "", "0-3", ""},
                    Case{"List", "0-15", "4-11", 0, "0-5,9", "4-5,9", ""},
                    Case{"OneCpu", "3", "", 0, "", "3", "CPU 3 alone, and there are 16"},
                    Case{"OneCpuOfCpuset", "3", "2-5", 0, "", "3", "there are 4"},
                    Case{"OneCpuIsAllThereIs", "3", "3", 0, "", "3", ""},
                    Case{"OneCpuThatIsAskedFor", "3", "", 0, "3", "3", ""},
                    Case{"SlurmStepOfOne", "3", "2-5", 4, "", "2-5", "the job has CPUs 2-5"},
                    Case{"SlurmStepWithoutCpuset", "3", "", 4, "", "3", "srun"},
                    Case{"SlurmJobOfOne", "3", "0-15", 1, "", "3", ""},
                    Case{"SlurmWithoutCgroups", "3", "0-15", 4, "", "3", "there are 16"},
                    Case{"SlurmStepOfTwo", "3-4", "2-5", 4, "", "3-4", ""},
                    Case{"ListOfWidened", "3", "2-5", 4, "5", "5", "2-5"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_P(AllowedTest, IsWhatAllBoundsLeave_A1) {
  const Case& c = GetParam();
  CpuBounds bounds = {Set(c.mask), ParseCpuList(c.cpuset), Set("0-15"), c.slurm_cpus, c.cpu_list,
                      false};
  const absl::StatusOr<CpusForWorkers> got = AllowedOf(bounds);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->cpus.Text(), c.want);
  EXPECT_THAT(got->notice, HasSubstr(c.notice));
  EXPECT_EQ(got->notice.empty(), *c.notice == '\0') << got->notice;
}

TEST(AllowedTest, TheNoticeHasTheWordsOfTheSchedulerThatWeAreIn) {
  const auto notice = [](uint32_t slurm_cpus, bool in_pbs) {
    return AllowedOf({Set("3"), std::nullopt, Set("0-15"), slurm_cpus, "", in_pbs})->notice;
  };
  EXPECT_THAT(notice(4, false), HasSubstr("(taskset, srun without --cpus-per-task, KMP_AFFINITY"));
  EXPECT_THAT(notice(0, true),
              HasSubstr("(taskset, a hook of PBS: qsub -l select=1:ncpus=N asks for N CPUs, KMP_"));
  EXPECT_THAT(notice(0, false), HasSubstr("(taskset, KMP_AFFINITY of a program"));
}

TEST(AllowedTest, SlurmSaysHowManyTheJobHas) {
  EXPECT_EQ(SlurmCpus("16(x2),32,8", nullptr), 32U);
  EXPECT_EQ(SlurmCpus("1(x3)", "1"), 1U);
  EXPECT_EQ(SlurmCpus("2(x2),1", "1"), 1U);  // the node of the one: its others are another job's
  EXPECT_EQ(SlurmCpus("2(x2),1", "64"), 2U);
  EXPECT_EQ(SlurmCpus("2(x2),1", "0"), 2U);
  EXPECT_EQ(SlurmCpus("2(x2),1", "x"), 2U);
  EXPECT_EQ(SlurmCpus(nullptr, "4"), 0U);
  for (const char* nothing : {static_cast<const char*>(nullptr), "", "x(2)", ","}) {
    EXPECT_EQ(SlurmCpus(nothing, nullptr), 0U);
  }
}

TEST(AllowedTest, AListThatNamesNoneOfThemIsRefused) {
  for (const char* list : {"8-9", "x"}) {
    EXPECT_THAT(
        std::string(
            AllowedOf({Set("0-3"), std::nullopt, Set("0-15"), 0, list, false}).status().message()),
        AllOf(HasSubstr("--cpu-list"), HasSubstr(list), HasSubstr("may use CPUs 0-3")));
  }
}

}  // namespace
}  // namespace muster
