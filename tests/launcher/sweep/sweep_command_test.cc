#include "launcher/sweep/sweep_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "absl/strings/str_join.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<SweepCommand> Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "sweep");
  return ParseSweepCommand(words, {}, NoFile);
}

std::vector<std::string> Lines(const std::vector<std::string>& words) {
  const absl::StatusOr<SweepCommand> command = Parse(words);
  EXPECT_TRUE(command.ok()) << command.status();
  std::vector<std::string> out;
  for (const SweepRun& run : command.ok() ? command->runs : std::vector<SweepRun>()) {
    out.push_back(absl::StrJoin(run.words, " "));
  }
  return out;
}

std::string Error(const std::vector<std::string>& words) {
  const absl::StatusOr<SweepCommand> command = Parse(words);
  EXPECT_EQ(command.status().code(), absl::StatusCode::kInvalidArgument)
      << absl::StrJoin(words, " ");
  return std::string(command.status().message());
}

TEST(SweepCommand, RunsEachCombinationInTheOrderOfTheLists) {
  EXPECT_THAT(Lines({"--nproc-per-node", "8,16", "--map-by", "numa", "--bind-to=core,none", "-x",
                     "A=1,2", "p", "-n", "3,4"}),
              ElementsAre("--map-by numa -x A=1,2 --nproc-per-node 8 --bind-to core p -n 3,4",
                          "--map-by numa -x A=1,2 --nproc-per-node 8 --bind-to none p -n 3,4",
                          "--map-by numa -x A=1,2 --nproc-per-node 16 --bind-to core p -n 3,4",
                          "--map-by numa -x A=1,2 --nproc-per-node 16 --bind-to none p -n 3,4"));
}

TEST(SweepCommand, VariesOneOfThemAlone) {
  EXPECT_THAT(Lines({"-n", "2,4", "--", "p"}), ElementsAre("-n 2 -- p", "-n 4 -- p"));
  const absl::StatusOr<SweepCommand> command =
      Parse({"--nproc-per-node", "4", "-bind-to", "core,none", "p"});
  ASSERT_TRUE(command.ok()) << command.status();
  ASSERT_EQ(command->runs.size(), 2u);
  EXPECT_EQ(command->runs[1].said, "--nproc-per-node 4 -bind-to none");
  EXPECT_EQ(command->runs[1].count, "4");
  EXPECT_EQ(command->runs[1].bind_to, "none");
}

TEST(SweepCommand, HasOptionsOfItsOwn) {
  const absl::StatusOr<SweepCommand> plain = Parse({"-n", "1,2", "p"});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->each, absl::Seconds(15));
  EXPECT_EQ(plain->rate_regex, "");
  EXPECT_FALSE(plain->json);
  const absl::StatusOr<SweepCommand> said = Parse({"--json", "--sweep-seconds=60", "-n", "1,2",
                                                   "--rate-regex", "([0-9]+) it/s", "p", "--json"});
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(said->each, absl::Seconds(60));
  EXPECT_EQ(said->rate_regex, "([0-9]+) it/s");
  EXPECT_TRUE(said->json);
  EXPECT_EQ(absl::StrJoin(said->runs[1].words, " "), "-n 2 p --json");
  const absl::StatusOr<SweepCommand> help = Parse({"--help"});
  ASSERT_TRUE(help.ok()) << help.status();
  EXPECT_TRUE(help->help);
}

TEST(SweepCommand, SaysWhatIsWrongAndWhatIsWanted) {
  EXPECT_THAT(Error({"p"}),
              HasSubstr("want 2..64 combinations to compare, got 1: say what to vary"));
  EXPECT_THAT(Error({"-n", "4", "p"}),
              HasSubstr("want 2..64 combinations to compare, got 1 (-n 4): say what to vary"));
  EXPECT_THAT(Error({"-n", "x", "p"}), HasSubstr("-n: want 1.."));
  EXPECT_THAT(Error({"-n", "x", "p"}), HasSubstr(", got 'x'"));
  EXPECT_THAT(Error({"--bind-to", "cores", "p"}), HasSubstr("--bind-to: want auto, none"));
  std::vector<int> many(65);
  std::iota(many.begin(), many.end(), 1);
  EXPECT_THAT(Error({"-n", absl::StrJoin(many, ","), "p"}),
              AllOf(HasSubstr("want 2..64 combinations to compare, got 65 (-n 1,2,"),
                    HasSubstr(",65): leave values out")));
  for (const char* list : {"8,,16", "", ",8", "8,8"}) {
    EXPECT_THAT(Error({"--nproc-per-node", list, "p"}),
                HasSubstr("--nproc-per-node: want a list of different values"))
        << list;
  }
  EXPECT_THAT(Error({"--nproc-per-node", "8,x", "p"}),
              HasSubstr("--nproc-per-node: want 1..4096, auto, cpu or gpu, got 'x'"));
  EXPECT_THAT(Error({"-n", "1,2", "--bind-to", "core,cores", "p"}), HasSubstr("got 'cores'"));
  EXPECT_THAT(Error({"-n", "1,2", "--nproc-per-node", "1,2", "p"}),
              HasSubstr("-n and --nproc-per-node: say what to vary once"));
  EXPECT_THAT(Error({"-n", "1,2", "--sweep-seconds", "0", "p"}),
              HasSubstr("--sweep-seconds: want 1..86400, got '0'"));
  EXPECT_THAT(Error({"-n", "1,2", "--rate-regex", "it/s", "p"}), HasSubstr("it has no group"));
  EXPECT_THAT(Error({"--sweep-seconds"}), HasSubstr("--sweep-seconds: a value is missing"));
  EXPECT_THAT(Error({"-n", "1,2", "--detach", "p"}), HasSubstr("--detach has no place here"));
  EXPECT_THAT(Error({"-n", "1,2", "--report", "f", "p"}), HasSubstr("--report f has no place"));
  EXPECT_THAT(Error({"-n", "1,2"}), HasSubstr("program"));
}

}  // namespace
}  // namespace muster
