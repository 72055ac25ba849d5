#include "launcher/batch_shell.h"

#include <gtest/gtest.h>

#include <csignal>

namespace muster {
namespace {

// As the kernel writes it.
ProcessStatus Parsed(const std::string& ignored, const std::string& caught) {
  return ParseProcessStatus(
      "Name:\tslurm_script\nUmask:\t0022\nPid:\t159\nPPid:\t153\nSigQ:\t2/9\nNSsid:\t4711\t12\n"
      "SigBlk:\t0000000000004000\nSigIgn:\t" +
      ignored + "\nSigCgt:\t" + caught + "\nCapInh:\t0000000000000000\n");
}

TEST(ProcessStatus, NameParentAndWhetherItMindsSigterm) {
  const ProcessStatus status = Parsed("0000000000000000", "0000000000010002");
  EXPECT_EQ(status.name, "slurm_script");
  EXPECT_EQ(status.parent, 153);
  EXPECT_EQ(status.session, 12);
  EXPECT_FALSE(status.minds_term);
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
  EXPECT_EQ(ShellEndsUnheard(GetParam().ancestors), GetParam().want) << GetParam().what;
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

}  // namespace
}  // namespace muster
