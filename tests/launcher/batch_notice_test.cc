#include "launcher/batch_notice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kTrap[] = "'trap : TERM'";
constexpr char kPassesOn[] = "trap \"kill -TERM $P; wait $P\" TERM";

BatchPlace Slurm(bool in_step, bool shell_minds, bool in_background = false) {
  return {true, shell_minds, in_step, in_background};
}

TEST(BatchNotice, AStepSavesAndOnlyTheReportIsLost) {
  EXPECT_THAT(BatchNotice(Slurm(true, false)),
              AllOf(HasSubstr("launch with it before it can report"),
                    HasSubstr("'exec launch ...'"), HasSubstr(kTrap)));
  EXPECT_EQ(BatchNotice(Slurm(true, true)), "");
  EXPECT_EQ(BatchNotice(Slurm(true, true, true)), "");
}

// The shell waits for launch, which hears of nothing: a trap alone makes it worse.
TEST(BatchNotice, WithoutAStepATrapDoesNotHelp) {
  EXPECT_THAT(BatchNotice(Slurm(false, false)),
              AllOf(HasSubstr("before its workers can save"), HasSubstr("'exec launch"),
                    Not(HasSubstr("trap"))));
  EXPECT_THAT(BatchNotice(Slurm(false, true)),
              AllOf(HasSubstr("no time to save, also with a trap"), HasSubstr("'exec launch"),
                    Not(HasSubstr(kTrap))));
}

TEST(BatchNotice, WhatRunsBesideTheScriptCannotReplaceIt) {
  for (const bool in_step : {false, true}) {
    EXPECT_THAT(BatchNotice(Slurm(in_step, false, true)),
                AllOf(HasSubstr(kPassesOn), Not(HasSubstr("exec")), Not(HasSubstr(kTrap))));
    EXPECT_EQ(BatchNotice(Slurm(in_step, true, true)), "");
  }
  EXPECT_THAT(BatchNotice({false, false, false, true}),
              AllOf(StartsWith("when PBS stops"), HasSubstr(kPassesOn), Not(HasSubstr("exec"))));
  EXPECT_THAT(BatchNotice({false, false, false, false}), HasSubstr("'exec launch ...'"));
}

TEST(ListWith, HasEachKeyOnceAndTheLastOnes) {
  EXPECT_EQ(ListWith("", "a 1"), "a 1\n");
  EXPECT_EQ(ListWith("a 1\n", "a 2"), "a 1\na 2\n");
  EXPECT_EQ(ListWith("a 1\na 2\n", "a 1"), "");
  EXPECT_EQ(ListWith("a 12\n", "a 1"), "a 12\na 1\n");
  std::string list;
  for (int job = 0; job < 100; ++job) {
    list = ListWith(list, absl::StrCat(job));
  }
  EXPECT_THAT(list, AllOf(StartsWith("36\n37\n"), HasSubstr("\n99\n")));
}

}  // namespace
}  // namespace muster
