#include "launcher/programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "launcher/job_file_writer.h"
#include "launcher/join_line.h"
#include "launcher/plan.h"
#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string Refusal(const Args& args, const std::string& file = "") {
  const auto spec = Resolve(args, file);
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << absl::StrJoin(args, " ");
  return std::string(spec.status().message());
}

TEST(Programs, M2RanksGoFromTheFirstToTheLast) {
  const JobSpec spec = SpecOf("-n 2 --timeout 9 ./a x : -n 3 -x V=1 --wdir /d ./b y : -n 1 c.py");
  EXPECT_EQ(*spec.total, 6u);
  EXPECT_EQ(spec.nodes.front().workers, 6u);
  EXPECT_THAT(spec.plan.argv, ElementsAre("./a", "x"));
  EXPECT_THAT(spec.plan.env_set, IsEmpty());
  EXPECT_EQ(spec.plan.wdir, "");
  ASSERT_EQ(spec.plan.further.size(), 2u);
  const FurtherProgram& b = spec.plan.further[0];
  EXPECT_EQ(b.rank_first, 2u);
  EXPECT_THAT(b.argv, ElementsAre("./b", "y"));
  EXPECT_THAT(b.env_set, ElementsAre("V=1"));
  EXPECT_EQ(b.wdir, "/d");
  EXPECT_EQ(spec.plan.further[1].rank_first, 5u);
  EXPECT_THAT(spec.plan.further[1].argv, ElementsAre("python3", "-u", "c.py"));
  EXPECT_EQ(DescribePrograms(spec), "-n 2 ./a x : -n 3 ./b y : -n 1 c.py");
}

TEST(Programs, M2EachSaysHowManyAndTogetherTheyFitTheNodes) {
  EXPECT_THAT(Refusal(Words("-n 2 ./a : ./b")), HasSubstr("program './b' has no -n"));
  EXPECT_THAT(Refusal(Words("./a : -n 1 ./b")), HasSubstr("program './a' has no -n"));
  EXPECT_THAT(Refusal(Words("-n 2 --hosts h:3 ./a : -n 3 ./b")),
              HasSubstr("-n 2 : -n 3 (5 in all) does not fit: --hosts h:3 has 3 slots"));
  EXPECT_THAT(Refusal(Words("-n 1048576 ./a : -n 1 ./b")),
              HasSubstr("want at most 1048576 workers"));
}

TEST(Programs, M3VariablesOfAllAndOfOne) {
  const JobSpec spec = SpecOf("-genv G 1 -x OWN -genvlist H -env E 2 -n 1 a : -n 1 -x L=3 b", "",
                              {{"H", "h"}, {"OWN", "o"}});
  EXPECT_THAT(spec.plan.env_set, ElementsAre("G=1", "H=h", "OWN=o", "E=2"));
  EXPECT_THAT(spec.plan.further[0].env_set, ElementsAre("G=1", "H=h", "L=3"));
}

TEST(Programs, M3WhatHoldsForTheJobStandsBeforeTheFirst) {
  for (const char* words : {"--timeout 5", "--nnodes 2", "--config f", "--plan"}) {
    EXPECT_THAT(
        Refusal(Words(absl::StrCat("-n 1 a : -n 1 ", words, " b"))),
        AllOf(HasSubstr("program 2: "), HasSubstr(words), HasSubstr("holds for the whole job")));
  }
  EXPECT_THAT(Refusal(Words("-n 1 a : -genv A 1 -n 1 b")),
              HasSubstr("program 2: -genv A 1: holds for the whole job"));
  EXPECT_THAT(Refusal(Words("-n 1 a : -n 1 --help b")), HasSubstr("before the first program"));
  EXPECT_THAT(Refusal(Words("-n 1 a : -n 1 --nprco 2 b")),
              HasSubstr("program 2: unknown option '--nprco'"));
  EXPECT_THAT(SpecOf("--mca x 1 -n 1 a : --mca y 2 -n 1 --use-hwthread-cpus b").notes,
              ElementsAre(HasSubstr("--use-hwthread-cpus has no effect"), HasSubstr("x, y (")));
}

TEST(Programs, M1AColonSeparatesWhereverItStands) {
  EXPECT_EQ(SpecOf("-n 1 -- a -x : -n 1 b").further.size(), 1u);
  for (const char* line : {": -n 1 b", "-n 1 a :", "-n 1 a : : -n 1 b"}) {
    EXPECT_THAT(Refusal(Words(line)), HasSubstr("':' stands between two programs")) << line;
  }
  EXPECT_THAT(SpecOf("--config f", "command: [a, ':', b]").arguments, ElementsAre(":", "b"));
}

TEST(Programs, WithHostsOfTheirOwnEachFillsIts) {
  const JobSpec spec = SpecOf("-n 2 --hosts a:2 x : -n 3 --hosts b:2,c:1 y : -n 1 -host a z");
  EXPECT_EQ(spec.way, StartWay::kHosts);
  ASSERT_EQ(spec.nodes.size(), 3u);
  EXPECT_EQ(spec.nodes[0].host.name, "a");
  EXPECT_THAT(spec.nodes[0].ranks, ElementsAre(0, 1, 5));
  EXPECT_EQ(spec.nodes[0].workers, 3u);
  EXPECT_THAT(spec.nodes[1].ranks, ElementsAre(2, 3));
  EXPECT_THAT(spec.nodes[2].ranks, ElementsAre(4));
  EXPECT_EQ(spec.nodes_min, 3u);
  // In order anyway: nothing to say.
  EXPECT_THAT(SpecOf("-n 1 --hosts a x : -n 1 --hosts b y").nodes[1].ranks, IsEmpty());
  EXPECT_THAT(Refusal(Words("-n 1 a : -n 1 --hosts b c")), HasSubstr("program 'a' has no --hosts"));
  EXPECT_THAT(Refusal(Words("--nnodes 2 -n 1 --hosts a x : -n 1 --hosts b y")),
              HasSubstr("--nnodes 2: the programs have hosts of their own"));
  EXPECT_THAT(Refusal(Words("-n 2 --hosts a x : -n 1 --hosts b y")),
              HasSubstr("-n 2 does not fit: --hosts a has 1 slot"));
}

TEST(ConfigLines, AreProgramsAsIfTyped) {
  const std::string file =
      "# one a line\n-n 2 --wdir '/a b' ./a \\\n   'x y'\n\n-n 1 ./b #no : -n 1 c\n";
  const JobSpec spec = SpecOf("--timeout 5 -configfile jobs", file);
  EXPECT_THAT(spec.plan.argv, ElementsAre("./a", "x y"));
  EXPECT_EQ(spec.plan.wdir, "/a b");
  ASSERT_EQ(spec.plan.further.size(), 2u);
  EXPECT_THAT(spec.plan.further[0].argv, ElementsAre("./b", "#no"));
  EXPECT_THAT(spec.plan.further[1].argv, ElementsAre("c"));
  EXPECT_EQ(spec.timeout, absl::Seconds(5));
  EXPECT_EQ(SpecOf("--app f --timeout 7", "-n 1 a\n").timeout, absl::Seconds(7));
}

TEST(ConfigLines, ThatAreWrongAreNamedByTheirLine) {
  EXPECT_THAT(Refusal(Words("-configfile f"), "\n-n 1 a\n--nope b"),
              HasSubstr("f:3: unknown option '--nope'"));
  EXPECT_THAT(Refusal(Words("-configfile f"), "\n--nope a"),
              HasSubstr("f:2: unknown option '--nope'"));
  EXPECT_THAT(Refusal(Words("-configfile f"), "-n 1 'a"),
              HasSubstr("f:1: want every quote closed"));
  EXPECT_THAT(Refusal(Words("-configfile f"), "#\n"), HasSubstr("f: want lines with options"));
  EXPECT_THAT(Refusal(Words("-configfile f")), HasSubstr("f: want lines with options"));
  EXPECT_THAT(Refusal(Words("-configfile f p"), "-n 1 a"),
              HasSubstr("-configfile f names the programs: 'p' cannot be typed, too"));
  EXPECT_THAT(Refusal(Words("-configfile f : -n 1 b"), "-n 1 a"),
              HasSubstr("no other can be typed with it"));
  EXPECT_THAT(Refusal(Words("-configfile f"), "-n 1 a : \n"),
              HasSubstr("f:1: ':' stands between two programs"));
}

constexpr char kFile[] =
    "timeout: 9\nenv: {G: 1}\nprograms:\n  - {np: 2, env: {A: 2}, command: [./a, ':']}\n"
    "  - np: 3\n    wdir: /d\n    command: ./b y\n";

TEST(ProgramsOfAJobFile, AreAsTyped) {
  const JobSpec spec = SpecOf("--config f", kFile);
  EXPECT_EQ(*spec.total, 5u);
  EXPECT_THAT(spec.plan.argv, ElementsAre("./a", ":"));
  EXPECT_THAT(spec.plan.env_set, ElementsAre("G=1", "A=2"));
  ASSERT_EQ(spec.plan.further.size(), 1u);
  EXPECT_EQ(spec.plan.further[0].rank_first, 2u);
  EXPECT_EQ(spec.plan.further[0].wdir, "/d");
  EXPECT_THAT(spec.plan.further[0].env_set, ElementsAre("G=1"));
  // What is typed wins: variables hold for all, another program replaces them.
  EXPECT_THAT(SpecOf("--config f -x A=typed", kFile).plan.env_set,
              ElementsAre("G=1", "A=2", "A=typed"));
  EXPECT_THAT(SpecOf("--config f ./c", kFile).plan.further, IsEmpty());
}

TEST(ProgramsOfAJobFile, ThatAreWrongAreNamedByTheirPlace) {
  const auto refusal = [](const std::string& text) { return Refusal(Words("--config f"), text); };
  EXPECT_THAT(refusal("programs: a"), HasSubstr("f:1:11: programs: want a list of maps"));
  EXPECT_THAT(refusal("programs: []"), HasSubstr("programs: want a list of maps"));
  EXPECT_THAT(refusal("programs: [a]"), HasSubstr("f:1:12: programs: want maps"));
  EXPECT_THAT(refusal("programs: [{np: 1}]"), HasSubstr("f:1:12: this program has no command"));
  EXPECT_THAT(refusal("programs:\n- {timeout: 1, command: a}"),
              HasSubstr("f:2:4: 'timeout' holds for the whole job"));
  EXPECT_THAT(refusal("programs:\n- {programs: [], command: a}"), HasSubstr("none of its own"));
  EXPECT_THAT(refusal("programs:\n- {np: x, command: a}"), HasSubstr("f:2: --np: want 1.."));
  EXPECT_THAT(refusal("command: a\nprograms:\n- {np: 1, command: a}"),
              HasSubstr("programs and command: keep one of the two"));
  EXPECT_THAT(refusal("programs:\n- {nnp: 1, command: a}"), HasSubstr("unknown key 'nnp'"));
  EXPECT_THAT(Refusal(Words("--config f -n 2"), kFile),
              HasSubstr("-n 2: each of the programs of f says that for itself"));
}

TEST(Programs, AreWrittenAndReadAgain) {
  for (const char* line :
       {"--timeout 9 -genv G 1 -n 2 --wdir /w ./a x : -n 3 -x V=1 -m b y",
        "--hosts a:3,b:3 -n 2 ./a : -n 3 ./b", "-n 1 --hosts a x : -n 1 --hosts b y"}) {
    const JobSpec typed = SpecOf(line);
    const auto file = WriteJobFile(typed);
    ASSERT_TRUE(file.ok()) << file.status();
    const JobSpec again = SpecOf("--config f", *file);
    EXPECT_EQ(DescribePrograms(again), DescribePrograms(typed)) << *file;
    EXPECT_EQ(PlanText(PlanOf(again)), PlanText(PlanOf(typed))) << *file;
    EXPECT_EQ(*WriteJobFile(again), *file);
  }
}

TEST(Programs, StandInTheLineForAnotherNode) {
  const JobSpec spec = SpecOf("--nnodes 2 -genv G 1 -n 2 ./a x : -n 2 --wdir /d -- -b");
  EXPECT_EQ(JoinLine(spec, "h:1"),
            "launch --nnodes 2 -n 2 -x G=1 --rdzv-endpoint h:1 ./a x : -n 2 -x G=1 --wdir /d -- "
            "-b");
}

TEST(Programs, AreInThePlan) {
  const LaunchPlan plan =
      PlanOf(SpecOf("-n 2 --hosts a:2 x : -n 1 --hosts b -x V=1 y : -n 1 --hosts a z"));
  const std::string text = PlanText(plan);
  EXPECT_THAT(text, HasSubstr("program  ranks 0-1: x\nprogram  rank 2: y\nset      V=1\n"
                              "program  rank 3: z\n"));
  EXPECT_THAT(text, HasSubstr("0-1,3"));
  EXPECT_THAT(PlanJson(plan), AllOf(HasSubstr("\"programs\": ["), HasSubstr("\"ranks\": [")));
  const auto of_three = AssignmentOf(plan, 3);
  ASSERT_TRUE(of_three.ok());
  EXPECT_EQ(of_three->node_rank.value, 0u);
  EXPECT_EQ(of_three->RankOf(LocalRank{2}).value, 3u);
  EXPECT_EQ(AssignmentOf(plan, 2)->node_rank.value, 1u);
}

TEST(RankFiles, PlaceEachRank) {
  const std::string file = "rank 0=b slot=0\nrank 1=a\nrank 2=b\n";
  const JobSpec spec = SpecOf("--rankfile r ./a", file);
  EXPECT_EQ(spec.way, StartWay::kHosts);
  ASSERT_EQ(spec.nodes.size(), 2u);
  EXPECT_EQ(spec.nodes[0].host.name, "b");
  EXPECT_THAT(spec.nodes[0].ranks, ElementsAre(0, 2));
  EXPECT_THAT(spec.nodes[1].ranks, ElementsAre(1));
  EXPECT_THAT(spec.notes, ElementsAre(HasSubstr("slot= has no effect")));
  EXPECT_THAT(SpecOf("--rankfile r -n 2 ./a", file).notes, ElementsAre(HasSubstr("slot=")));
  EXPECT_THAT(SpecOf("--rankfile r -n 2 ./a", file).nodes[0].ranks, IsEmpty());
  EXPECT_EQ(SpecOf("--rankfile r -n 1 ./a : -n 2 ./b", file).plan.further[0].rank_first, 1u);
}

TEST(RankFiles, WithAListOfHostsNamePlacesInIt) {
  const auto text = [](const std::string& path) -> absl::StatusOr<std::string> {
    return std::string(path == "r" ? "rank 0=+n1\nrank 1=u\n" : "");
  };
  auto command = ParseCommandLine(Words("--rankfile r --hosts u,me@v ./a"), {});
  ASSERT_TRUE(command.ok());
  ASSERT_TRUE(ResolveHosts(command->spec, text).ok());
  EXPECT_EQ(command->spec.nodes[0].host.name, "v");
  EXPECT_EQ(command->spec.nodes[0].host.user, "me");
  EXPECT_THAT(Refusal(Words("--rankfile r --hosts u a"), "rank 0=u\nrank 1=w"),
              HasSubstr("r:2: host 'w' is not in the list (u)"));
  EXPECT_THAT(Refusal(Words("--rankfile r --hosts u a"), "rank 0=+n1"),
              HasSubstr("r:1: +n1 is host 1 of a list from 0, which has 1 host"));
  EXPECT_THAT(Refusal(Words("--rankfile r a"), "rank 0=+n1"),
              HasSubstr("there is none: say --hosts"));
}

TEST(RankFiles, ThatDoNotFitAreRefused) {
  EXPECT_THAT(Refusal(Words("--rankfile r -n 3 a"), "rank 0=u\nrank 1=u"),
              HasSubstr("-n 3: --rankfile r places only 2 ranks"));
  EXPECT_THAT(Refusal(Words("--rankfile r --nproc-per-node 2 a"), "rank 0=u"),
              HasSubstr("--rankfile r and --nproc-per-node 2 contradict"));
  EXPECT_THAT(Refusal(Words("--rankfile r --standalone --nnodes 2 a"), "rank 0=u"),
              HasSubstr("contradict"));
  EXPECT_THAT(Refusal(Words("--rankfile r -n 1 --hosts a x : -n 1 --hosts b y"), "rank 0=u"),
              HasSubstr("it places every rank"));
  EXPECT_THAT(Refusal(Words("--rankfile r a"), "rank 0 u"), HasSubstr("r:1: want 'rank N=HOST'"));
  std::string many;
  for (int i = 0; i < 4097; ++i) {
    absl::StrAppend(&many, "rank ", i, "=u\n");
  }
  EXPECT_THAT(Refusal(Words("--rankfile r a"), many),
              HasSubstr("r:4097: want at most 4096 workers on a node"));
}

TEST(Programs, LaunchersInLaunchAreNoted) {
  for (const char* const line :
       {"-n 2 mpirun -n 4 ./a", "-n 2 /usr/bin/mpiexec.hydra ./a", "--hosts a:1,b:2 srun ./a",
        "--standalone --nnodes 2 --nproc-per-node 2 torchrun a.py"}) {
    EXPECT_THAT(Resolve(Words(line))->notes, ElementsAre(HasSubstr("leave it out"))) << line;
  }
  for (const char* const line :
       {"mpirun -n 4 ./a", "--hosts a:1,b:1 torchrun --nproc-per-node 4 a.py", "-n 2 ./mpirun.py",
        "-n 2 ./a mpirun"}) {
    EXPECT_THAT(Resolve(Words(line))->notes, IsEmpty()) << line;
  }
}

TEST(Dialects, HorovodsRanksMeetAtTheAgentsStore) {
  EXPECT_EQ(Resolve({"--dialect", "horovod", "p"})->plan.store, StoreMode::kAgent);
  EXPECT_EQ(Resolve({"--dialect", "horovod", "--store", "agent", "p"})->plan.store,
            StoreMode::kAgent);
  EXPECT_EQ(Resolve({"--dialect", "slurm,tf", "p"})->plan.store, StoreMode::kAuto);
}

TEST(Dialects, TensorFlowTakesNoReplacement) {
  EXPECT_THAT(Refusal({"--dialect", "tf", "--restart", "one", "p"}),
              HasSubstr("--dialect tf and --restart one contradict"));
  EXPECT_TRUE(Resolve({"--dialect", "tf", "--restart", "all", "p"}).ok());
}

}  // namespace
}  // namespace muster
