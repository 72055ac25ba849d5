#include "launcher/batch_shell.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

namespace muster {
namespace {

// As the kernel writes it.
ProcessStatus Parsed(const std::string& ignored, const std::string& caught) {
  return ParseProcessStatus(
      "Name:\tslurm_script\nUmask:\t0022\nPid:\t159\nPPid:\t153\nUid:\t7\t7\nSigQ:\t2/"
      "9\nNSsid:\t4711\t12\n"
      "SigBlk:\t0000000000004000\nSigIgn:\t" +
      ignored + "\nSigCgt:\t" + caught + "\nCapInh:\t0000000000000000\n");
}

TEST(ProcessStatus, NameParentAndWhetherItMindsSigterm) {
  const ProcessStatus status = Parsed("0000000000000000", "0000000000010002");
  EXPECT_EQ(status.name, "slurm_script");
  EXPECT_EQ(status.parent, 153);
  EXPECT_EQ(status.session, 12);
  EXPECT_FALSE(status.minds_term);
  EXPECT_EQ(status.pid, 159);
  EXPECT_EQ(status.rights, "Uid:7\t7\n");
  EXPECT_TRUE(Parsed("0000000000000000", "0000000000014002").minds_term);
  EXPECT_TRUE(Parsed("0000000000004000", "0000000000000000").minds_term);
  EXPECT_TRUE(ParseProcessStatus("").name.empty());
  EXPECT_EQ(ParseProcessStatus("PPid:\tx\n").parent, 0);
}

struct Case {
  const char* what;
  std::vector<ProcessStatus> ancestors;
  bool want;
};

class BatchShell : public testing::TestWithParam<Case> {};

TEST_P(BatchShell, EndsUnheard) {
  const std::optional<ProcessStatus> shell = ShellOfSlurm(GetParam().ancestors);
  EXPECT_EQ(shell.has_value() && !shell->minds_term, GetParam().want) << GetParam().what;
}

ProcessStatus Shell() { return {"slurm_script", 2, 7, false}; }
ProcessStatus WithTrap() { return {"slurm_script", 2, 7, true}; }
ProcessStatus Stepd() { return {"slurmstepd", 1, 3, true}; }
ProcessStatus Init() { return {"init", 0, 1, true}; }

INSTANTIATE_TEST_SUITE_P(
    Ancestors, BatchShell,
    testing::Values(Case{"a child of the shell", {Shell(), Stepd(), Init()}, true},
                    Case{"with a trap", {WithTrap(), Stepd(), Init()}, false},
                    Case{"exec launch", {Stepd(), Init()}, false},
                    Case{"make minds, the script does not",
                         {{"make", 3, 7, true}, Shell(), Stepd(), Init()},
                         true},
                    Case{"make does not mind, the script does",
                         {{"make", 3, 7, false}, WithTrap(), Stepd(), Init()},
                         false},
                    Case{"no Slurm", {Shell(), Init()}, false},
                    Case{"nothing to read", {}, false}));

TEST(BatchShell, OfASessionEndsUnheard) {
  const ProcessStatus make = {"make", 3, 7, true};
  EXPECT_TRUE(ShellOfSessionEndsUnheard({Shell(), Stepd(), Init()}, 7));
  EXPECT_TRUE(ShellOfSessionEndsUnheard({make, Shell(), Stepd()}, 7));
  EXPECT_TRUE(ShellOfSessionEndsUnheard({Shell()}, 7));  // what is above may not be read
  EXPECT_FALSE(ShellOfSessionEndsUnheard({WithTrap(), Stepd(), Init()}, 7));
  EXPECT_FALSE(ShellOfSessionEndsUnheard({Stepd(), Init()}, 7));  // exec launch
  EXPECT_FALSE(ShellOfSessionEndsUnheard({}, 7));
}

TEST(Ancestors, OursEndAtTheFirstProcess) {
  const std::vector<ProcessStatus> ancestors = Ancestors();
  ASSERT_FALSE(ancestors.empty());
  EXPECT_FALSE(ancestors.front().name.empty());
}

TEST(ShellOfSlurm, IsWhatSlurmHasStarted) {
  EXPECT_EQ(ShellOfSlurm({{"make", 3, 7, true}, Shell(), Stepd(), Init()})->name, "slurm_script");
  EXPECT_FALSE(ShellOfSlurm({Stepd(), Init()}).has_value());
  EXPECT_FALSE(ShellOfSlurm({Shell(), Init()}).has_value());
}

TEST(OnlyShellsBetween, IsFalseForWhatFollowsItsChildren) {
  ProcessStatus shell = Shell();
  shell.pid = 5;
  ProcessStatus subshell = Shell();
  subshell.pid = 9;
  EXPECT_TRUE(OnlyShellsBetween({shell, Stepd()}, shell));
  EXPECT_TRUE(OnlyShellsBetween({subshell, shell, Stepd()}, shell));
  EXPECT_FALSE(OnlyShellsBetween({{"perf", 5, 7, true, 8}, shell, Stepd()}, shell));
  EXPECT_FALSE(OnlyShellsBetween({subshell, {"perf", 5, 7, true, 8}, shell, Stepd()}, shell));
}

// As if the shell were like us; a parent may be in another namespace.
ProcessStatus Own() {
  std::ifstream in("/proc/self/status");
  return ParseProcessStatus(std::string(std::istreambuf_iterator<char>(in), {}));
}

TEST(StepSeesTheSame, UnlessRightsOrFilesAreOurOwn) {
  ProcessStatus shell = Own();
  EXPECT_TRUE(StepSeesTheSame(shell, {"-n", "2", "train.py"}));
  EXPECT_FALSE(StepSeesTheSame(shell, {"cat", "/dev/fd/63"}));
  shell.rights += "Groups:\t1\n";
  EXPECT_FALSE(StepSeesTheSame(shell, {"train.py"}));
  shell = Own();
  shell.pid = 0;  // its namespaces cannot be read
  EXPECT_FALSE(StepSeesTheSame(shell, {"train.py"}));
}

}  // namespace
}  // namespace muster
