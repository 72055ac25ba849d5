#include "launcher/ship_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ShipPlace, AsTypedOrByItsLastName) {
  struct Case {
    const char* typed;
    const char* place;
  };
  for (const Case& c : std::initializer_list<Case>{{"train.py", "train.py"},
                                                   {"./train.py", "train.py"},
                                                   {"data/", "data"},
                                                   {"a//b/../c", "a/c"},
                                                   {"/home/me/proj", "proj"},
                                                   {"/home/me/proj/", "proj"},
                                                   {"../lib", "lib"},
                                                   {".", ""},
                                                   {"./", ""},
                                                   {"a/..", ""}}) {
    EXPECT_EQ(ShipPlace(c.typed), c.place) << c.typed;
  }
}

absl::StatusOr<JobSpec> Shipping(const Args& args) { return Resolve(args); }

TEST(SettleShip, WordsThatHoldOnlyHereNameThePlace) {
  const auto spec = Shipping({"--hosts", "a", "--ship", "/home/me/p", "--ship", "../q", "--ship",
                              "data", "/home/me/p/run", "/home/me/p2", "../q", "data/x", "/etc"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->plan.argv, ElementsAre("p/run", "/home/me/p2", "q", "data/x", "/etc"));
  EXPECT_THAT(spec->ship, ElementsAre("/home/me/p", "../q", "data"));
}

TEST(SettleShip, EveryProgramOfAJob) {
  const auto spec = Shipping({"--hosts", "a:2", "--ship", "/x/p", "--ship", "b", "-n", "1", "/x/p",
                              ":", "-n", "1", "./b", "/x/p"});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->plan.argv, ElementsAre("p"));
  EXPECT_THAT(spec->plan.further.at(0).argv, ElementsAre("./b", "p"));
}

TEST(SettleShip, OneMachineIsAStandaloneNode) {
  EXPECT_EQ(Shipping({"--ship", "x", "./x"})->way, StartWay::kStandalone);
  EXPECT_EQ(Shipping({"./x"})->way, StartWay::kLocal);
}

TEST(SettleShip, AProgramThatDoesNotComeAlong) {
  for (const Args& program : {Args{"sum.py"}, Args{"./sum"}, Args{"python3", "-u", "d/sum.py"}}) {
    Args args = {"--hosts", "a", "--ship", "data.txt"};
    args.insert(args.end(), program.begin(), program.end());
    EXPECT_THAT(std::string(Shipping(args).status().message()),
                HasSubstr(program.back() + " is not among what is shipped"));
    args[2] = "--ship=.";
    args[3] = "--no-prefix";
    EXPECT_TRUE(Shipping(args).ok()) << Shipping(args).status();
  }
  for (const Args& elsewhere :
       {Args{"/usr/bin/sum.py"}, Args{"sum"}, Args{"-m", "sum", "own.py"},
        Args{"python3", "-m", "sum", "own.py"}, Args{"--wdir", "/data", "sum.py"},
        Args{"data.txt/sum.py"}, Args{"bash", "sum.py"}}) {
    Args args = {"--hosts", "a", "--ship", "data.txt"};
    args.insert(args.end(), elsewhere.begin(), elsewhere.end());
    EXPECT_TRUE(Shipping(args).ok()) << Shipping(args).status();
  }
}

TEST(SettleShip, WhereLaunchStartsNoNodesItShipsNothing) {
  for (const Args& more : {Args{}, Args{"--rdzv-endpoint", "a:29400"}}) {
    Args args = {"--nnodes", "2", "--ship", "x"};
    args.insert(args.end(), more.begin(), more.end());
    args.emplace_back("./x");
    EXPECT_THAT(std::string(Shipping(args).status().message()),
                HasSubstr("--ship x: launch ships files to nodes that it starts itself"));
  }
  EXPECT_THAT(std::string(Shipping({"--hosts", "a", "--ship", "..", "x"}).status().message()),
              HasSubstr("--ship ..: want a file, or a folder that has a name"));
}

}  // namespace
}  // namespace muster
