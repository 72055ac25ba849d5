#include "launcher/sweep/sweep_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

SweepResult Result(const std::string& count, const std::string& bind_to = "") {
  SweepResult out;
  out.run.count = count;
  out.run.bind_to = bind_to;
  out.run.said =
      absl::StrCat("-n ", count, bind_to.empty() ? "" : absl::StrCat(" --bind-to ", bind_to));
  return out;
}

SweepResult Steps(const std::string& count, const std::string& bind_to, double steps,
                  double waited) {
  SweepResult out = Result(count, bind_to);
  out.steps = steps;
  out.waited = waited;
  return out;
}

TEST(SweepTable, NamesTheBestAndByHowMuch) {
  EXPECT_EQ(SweepTable({Steps("8", "core", 100, 0.031), Steps("16", "core", 150, 0.08),
                        Steps("16", "none", 120, 0.4)}),
            " workers  bind-to          steps/s        waited\n"
            "       8  core                 100           3 %\n"
            "      16  core                 150           8 %\n"
            "      16  none                 120          40 %\n"
            "best: -n 16 --bind-to core, 25 % faster than -n 16 --bind-to none, 50 % faster than "
            "-n 8 --bind-to core\n");
}

TEST(SweepTable, OfOneMeasureForAll) {
  SweepResult printed = Result("1");
  printed.rate = 3;
  printed.steps = 10;
  SweepResult counted = Result("2");
  counted.steps = 1000;
  const std::vector<SweepResult> results = {printed, counted};
  EXPECT_THAT(SweepTable(results), HasSubstr("       2  -                      -             -\n"));
  EXPECT_THAT(SweepTable(results), HasSubstr("best: -n 1\n"));
}

TEST(SweepTable, LessTimeIsBetter) {
  SweepResult slow = Result("1");
  slow.took = absl::Seconds(3);
  SweepResult fast = Result("2");
  fast.took = absl::Seconds(2);
  EXPECT_THAT(SweepTable({slow, fast}), HasSubstr("best: -n 2, 50 % faster than -n 1\n"));
  EXPECT_THAT(SweepTable({slow, fast}), HasSubstr("  3.0 s  "));
}

TEST(SweepTable, WhatIsAsFastIsNotCalledFaster) {
  EXPECT_THAT(SweepTable({Steps("1", "", 1000, 0), Steps("2", "", 999, 0)}),
              HasSubstr("best: -n 1, as fast as -n 2\n"));
}

TEST(SweepTable, ARunThatFailedIsNotTheBest) {
  SweepResult failed = Steps("4", "", 1000, 0);
  failed.failed = "failed: launch ended with status 3";
  const std::vector<SweepResult> results = {failed, Steps("2", "", 10, 0)};
  EXPECT_THAT(SweepTable(results), HasSubstr("0 %  failed: launch ended with status 3\n"));
  EXPECT_THAT(SweepTable(results), HasSubstr("best: -n 2\n"));
  EXPECT_TRUE(HasBest(results));
  EXPECT_FALSE(HasBest({failed}));
  EXPECT_THAT(SweepTable({failed}), HasSubstr("nothing to compare: no run has gone well\n"));
}

TEST(SweepTable, SaysWhatToDoWhereNothingCanBeCompared) {
  EXPECT_THAT(SweepTable({Result("1"), Result("2")}),
              HasSubstr("has no rate in its output that --rate-regex REGEX finds"));
  EXPECT_FALSE(HasBest({Result("1"), Result("2")}));
}

TEST(SweepJson, HoldsTheSameFactsWithStableNames) {
  const nlohmann::json json =
      nlohmann::json::parse(SweepJson({Steps("8", "core", 100, 0.5), Steps("4", "core", 80, 0)}));
  EXPECT_EQ(json["format"], "muster-sweep-1");
  EXPECT_EQ(json["measure"], "steps/s");
  EXPECT_EQ(json["runs"][0], nlohmann::json::parse(R"({"options": "-n 8 --bind-to core",
      "workers": "8", "bind_to": "core", "failed": "", "steps_per_s": 100.0,
      "waited_share": 0.5})"));
  EXPECT_EQ(json["best"], "-n 8 --bind-to core");
  EXPECT_DOUBLE_EQ(json["faster_than_next_percent"].get<double>(), 25);
  EXPECT_FALSE(nlohmann::json::parse(SweepJson({Result("1")})).contains("best"));
}

TEST(TakeReport, TakesStepsAndTheNodeThatWaitedMost) {
  SweepResult out;
  EXPECT_TRUE(TakeReport(R"({"uses": [{"ran_s": 2.0, "waited_share": 0.25, "steps_per_s": 7.5},
                                      {"ran_s": 2.0, "waited_share": 0.5}]})",
                         out));
  EXPECT_EQ(out.steps, 7.5);
  EXPECT_EQ(out.waited, 0.5);
}

TEST(TakeReport, OfAKernelThatSaysNothingTakesNothing) {
  SweepResult out;
  EXPECT_TRUE(TakeReport(R"({"uses": [{"ran_s": 0.0, "waited_share": 0.0}]})", out));
  EXPECT_EQ(out.waited, std::nullopt);
  for (const char* text : {"", "{}", "[]", R"({"uses": 3})", "no JSON"}) {
    EXPECT_FALSE(TakeReport(text, out)) << text;
  }
}

}  // namespace
}  // namespace muster
