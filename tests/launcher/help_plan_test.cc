#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "launcher/answer.h"
#include "launcher/help.h"
#include "launcher/options.h"
#include "launcher/plan.h"
#include "launcher/resolve.h"
#include "proto/base/build_info.h"
#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Colour, OnATerminalThatKnowsItUnlessTheUserWantsNone) {
  EXPECT_TRUE(WantsColour(true, "", "xterm-256color"));
  EXPECT_FALSE(WantsColour(false, "", "xterm-256color"));
  EXPECT_FALSE(WantsColour(true, "1", "xterm-256color"));
  EXPECT_FALSE(WantsColour(true, "", "dumb"));
  EXPECT_FALSE(WantsColour(true, "", ""));
}

TEST(Help, FitsItsWidthAndNamesEveryOption) {
  for (const bool all : {false, true}) {
    const std::string text = HelpText(all);
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      EXPECT_LE(line.size(), static_cast<size_t>(kHelpWidth)) << line;
      EXPECT_FALSE(absl::EndsWith(line, " ")) << "'" << line << "'";
    }
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    for (const OptionRow& row : OptionTable()) {
      if (!all && !row.common) {
        continue;
      }
      EXPECT_THAT(text, HasSubstr(std::string(OptionName(row.id))));
      for (absl::string_view name : absl::StrSplit(row.environment, ' ', absl::SkipEmpty())) {
        EXPECT_TRUE(!all || absl::StrContains(text, name)) << name;
      }
    }
  }
}

TEST(Help, TheShortOneFitsAScreenOrTwo) {
  const std::vector<absl::string_view> lines = absl::StrSplit(HelpText(false), '\n');
  EXPECT_LE(lines.size(), 66u);
  EXPECT_THAT(HelpText(false), Not(HasSubstr("--rdzv-backend")));
}

// Every example is a command line that launch accepts.
TEST(Help, ExamplesAreTrue) {
  int examples = 0;
  for (absl::string_view line : absl::StrSplit(HelpText(false), '\n')) {
    std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.size() < 2 || words[0] != "launch" || words[1] == "[OPTIONS]") {
      continue;
    }
    ++examples;
    words.erase(words.begin());
    auto command = ParseCommandLine(words, {});
    ASSERT_TRUE(command.ok()) << line << ": " << command.status();
    EXPECT_TRUE(ResolveHosts(command->spec,
                             [](const std::string&) { return absl::NotFoundError("no file"); })
                    .ok())
        << line;
    EXPECT_TRUE(command->spec.notes.empty()) << command->spec.notes[0];
  }
  EXPECT_EQ(examples, 6);
}

TEST(Help, ColourOnlyWhenAsked) {
  EXPECT_THAT(HelpText(false, true), HasSubstr("\x1b[1mExamples\x1b[0m\n"));
}

TEST(Help, VersionIsTheBuildsName) {
  EXPECT_EQ(VersionText(), absl::StrCat("launch ", BuildName(), "\n"));
}

LaunchPlan Plan(absl::string_view line) { return PlanOf(SpecOf(line)); }

TEST(Plan, TextShowsRanksHostsAndCommands) {
  LaunchPlan plan = Plan("-n 6 --hosts a:4,b:4,c:1 -x K=a=b train.py --lr 0.1");
  plan.nodes[1].command = {"ssh", "b", "muster-agent --stdio", std::string(101, 'x')};
  plan.environment = {"PATH=/secret", "LANG=C"};
  EXPECT_EQ(
      PlanText(plan),
      "job      6 workers on 2 nodes\n"
      "program  python3 -u train.py --lr 0.1\n"
      "set      K=a=b\n"
      "sent     PATH LANG\n"
      "  node  host  workers  ranks  start\n"
      "  0     a     4        0-3    ssh\n"
      "  1     b     2        4-5    ssh: ssh b 'muster-agent --stdio' [script of 101 bytes]\n"
      "note     the first 2 of 3 hosts are used (-n 6)\n");
}

TEST(Plan, ShowsWhatIsPutInFrontOfTheProgram) {
  const LaunchPlan plan = PlanOf(SpecOf("-n 2 --wrap 0:valgrind --prologue ulimit p"));
  EXPECT_THAT(PlanText(plan), HasSubstr("\nwrap     0:valgrind\nprologue ulimit\n"));
  const auto json = nlohmann::json::parse(PlanJson(plan));
  EXPECT_EQ(json["wraps"][0], "0:valgrind");
  EXPECT_EQ(json["prologue"], "ulimit");
  EXPECT_FALSE(json.contains("ship"));
}

TEST(Plan, WhatIsShipped) {
  JobSpec spec = SpecOf("--hosts a --ship train.py --ship data ./train.py");
  spec.ship_entries = 4;
  spec.ship_bytes = 1;
  EXPECT_THAT(PlanText(PlanOf(spec)),
              HasSubstr("\nship     train.py data: 4 files and folders, 1 byte, to each node\n"));
  const nlohmann::json json = nlohmann::json::parse(PlanJson(PlanOf(spec)));
  EXPECT_EQ(json["ship"]["paths"], (std::vector<std::string>{"train.py", "data"}));
  EXPECT_EQ(json["ship"]["entries"], 4);
  EXPECT_EQ(json["ship"]["bytes"], 1);
}

TEST(Plan, SaysThatTheOthersGoOn) {
  EXPECT_THAT(PlanText(Plan("--on-failure continue -n 2 p")),
              HasSubstr("\nfailure  when no restart is left, the other workers go on\n"));
  EXPECT_THAT(PlanText(Plan("-n 2 p")), Not(HasSubstr("failure")));
  EXPECT_EQ(nlohmann::json::parse(PlanJson(Plan("--continuous p")))["on_failure"], "continue");
  EXPECT_EQ(nlohmann::json::parse(PlanJson(Plan("p")))["on_failure"], "stop");
}

TEST(Plan, RanksBehindAnUnknownCountAreUnknown) {
  const LaunchPlan plan = Plan("--standalone --nnodes 2 --nproc-per-node auto p");
  EXPECT_EQ(plan.world_size, 0u);
  const std::string text = PlanText(plan);
  EXPECT_THAT(text, HasSubstr("as many workers as the nodes find on 2 nodes"));
  EXPECT_THAT(text, HasSubstr("  1     this machine  ?        ?      local\n"));
}

TEST(Plan, TypedNodesJoin) {
  const LaunchPlan plan = Plan("--nnodes 1:2 --rdzv-endpoint [::1]:2000 --nproc-per-node 2 p");
  EXPECT_EQ(plan.rendezvous, "[::1]:2000");
  EXPECT_EQ(plan.world_size, 4u);
  EXPECT_EQ(plan.nodes[1].starter, "joins");
  EXPECT_THAT(PlanText(plan), HasSubstr("(starts with 1)"));
  EXPECT_EQ(Plan("--nnodes 2 p").nodes[0].starter, "embedded");
}

TEST(Plan, TypedNodesMayRunDifferentNumbers) {
  const LaunchPlan plan = Plan("--nnodes 2 -n 5 --node-rank 1 --master-addr a p");
  EXPECT_EQ(plan.nodes[0].workers, 3u);
  EXPECT_EQ(plan.nodes[1].workers, 2u);
  EXPECT_EQ(plan.nodes[1].starter, "embedded");
  EXPECT_EQ(plan.world_size, 5u);
}

TEST(Plan, ARankHasItsNode) {
  const LaunchPlan plan = Plan("-n 6 --hosts a:4,b:4 p");
  const auto assignment = AssignmentOf(plan, 5);
  ASSERT_TRUE(assignment.ok());
  EXPECT_EQ(assignment->node_rank.value, 1u);
  EXPECT_EQ(assignment->nodes, 2u);
  EXPECT_EQ(assignment->rank_first.value, 4u);
  EXPECT_EQ(assignment->workers, 2u);
  EXPECT_EQ(assignment->world_size, 6u);
  EXPECT_EQ(assignment->layout, (std::vector<std::pair<uint32_t, uint32_t>>{{4, 1}, {2, 1}}));
  EXPECT_EQ(AssignmentOf(plan, 6).status().message(), "want a rank of 0..5, got 6");
}

TEST(Plan, EveryRankOfATypedJobCanBeExplained) {
  const std::string typed = "--nnodes 4 --nproc-per-node 8 --rdzv-endpoint a:2000 ";
  const auto explained = [&typed](absl::string_view options) {
    const JobSpec spec = SpecOf(absl::StrCat(typed, options, " p"));
    return RankToExplain(spec, PlanOf(spec));
  };
  EXPECT_EQ(explained("--explain-env"), 0u);
  EXPECT_EQ(explained("--explain-env=9"), 9u);
  EXPECT_EQ(explained("--node-rank 2 --explain-env"), 16u);
  EXPECT_EQ(explained("--node-rank 2 --explain-env=0"), 0u);
  EXPECT_EQ(AssignmentOf(Plan(typed + "p"), 9)->node_rank.value, 1u);
}

TEST(Plan, JsonHasTheSameAndSurvivesAnyBytes) {
  LaunchPlan plan = Plan("-n 3 --hosts a:2,b:2 p");
  plan.argv = {"p\xff\n"};
  plan.environment = {"TOKEN=secret"};
  const std::string text = PlanJson(plan);
  EXPECT_THAT(text, Not(HasSubstr("secret")));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["world_size"], 3);
  EXPECT_EQ(json["way"], "hosts");
  EXPECT_EQ(json["argv"][0], "p\xef\xbf\xbd\n");
  EXPECT_EQ(json["environment"][0], "TOKEN");
  EXPECT_EQ(json["nodes"][1]["name"], "b");
  EXPECT_EQ(json["nodes"][1]["rank_first"], 2);
  EXPECT_EQ(json["nodes"][1]["workers"], 1);
  const auto unknown =
      nlohmann::json::parse(PlanJson(Plan("--nproc-per-node gpu p")), nullptr, false);
  EXPECT_TRUE(unknown["world_size"].is_null());
  EXPECT_TRUE(unknown["nodes"][0]["workers"].is_null());
}

}  // namespace
}  // namespace muster
