#include "agent/core/facts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/build_info.h"

namespace muster {
namespace {

using testing::HasSubstr;

ProgramFacts WithTorch(const char* version) {
  ProgramFacts facts;
  facts.is_python = true;
  facts.torch_version = version;
  return facts;
}

TEST(StoreIsAgentTest, AutoFollowsTheTableOfTestedVersions) {
  for (const char* known :
       {"1.13.0a0", "1.13.1", "2.6.0", "2.6.0+cu124", "2.6.1", "2.11.0+cu130"}) {
    EXPECT_TRUE(StoreIsAgent(StoreMode::kAuto, WithTorch(known))) << known;
  }
  for (const char* unknown : {"", "1.12.1", "1.1.0", "1.130.0", "2.0.0", "2.1.2", "2.3.0+cu121",
                              "2.5.1", "2.7.0", "2.60.0", "2.1.1", "2.110.0", "20.1", "3.0.0"}) {
    EXPECT_FALSE(StoreIsAgent(StoreMode::kAuto, WithTorch(unknown))) << unknown;
  }
}

TEST(StoreIsAgentTest, ATorchThatRefusesItHasItsOwn) {
  EXPECT_FALSE(StoreIsAgent(StoreMode::kAuto, WithTorch("2.6.0+debian")));
  EXPECT_TRUE(StoreIsAgent(StoreMode::kAgent, WithTorch("2.6.0+debian"))) << "as asked";
}

TEST(StoreIsAgentTest, TheUsersWordCounts) {
  EXPECT_TRUE(StoreIsAgent(StoreMode::kAgent, WithTorch("")));
  EXPECT_FALSE(StoreIsAgent(StoreMode::kWorker, WithTorch("1.13.0")));
}

TEST(StoreIsAgentTest, RanksThatMeetAtAPlaceOfTheirOwnHaveTheirOwn) {
  ProgramFacts facts = WithTorch("1.13.0");
  facts.program = "train.py";
  EXPECT_EQ(MeetingPlaceNotice(StoreMode::kAuto, facts, true), "");
  facts.own_meeting_place = "line 3: os.environ['MASTER_PORT'] = '1'";
  EXPECT_FALSE(StoreIsAgent(StoreMode::kAuto, facts));
  EXPECT_THAT(MeetingPlaceNotice(StoreMode::kAuto, facts, true),
              HasSubstr("train.py chooses where its ranks meet (line 3: os.environ"));
  EXPECT_TRUE(StoreIsAgent(StoreMode::kAgent, facts)) << "as asked";
  EXPECT_EQ(MeetingPlaceNotice(StoreMode::kAgent, facts, true), "");
  EXPECT_EQ(MeetingPlaceNotice(StoreMode::kWorker, facts, true), "");
  facts.starts_ranks = true;
  EXPECT_EQ(MeetingPlaceNotice(StoreMode::kAuto, facts, true), "") << "they are none of launch's";
  facts.starts_ranks = false;
  facts.torch_version = "2.0.0";
  EXPECT_EQ(MeetingPlaceNotice(StoreMode::kAuto, facts, true), "")
      << "rank 0 would serve in any case";
}

TEST(MeetingPlaceNoticeTest, NobodyMeetsAtEachNodesOwnAddress) {
  ProgramFacts facts = WithTorch("2.0.0");
  facts.program = "train.py";
  for (const char* const place :
       {"os.environ['MASTER_ADDR'] = 'localhost'", "tcp://127.0.0.1:1", "tcp://[::1]:1"}) {
    facts.own_meeting_place = place;
    EXPECT_EQ(MeetingPlaceNotice(StoreMode::kAuto, facts, true), "");
    EXPECT_THAT(MeetingPlaceNotice(StoreMode::kWorker, facts, false),
                HasSubstr("that is each node's own address"));
  }
  facts.own_meeting_place = "tcp://10.0.0.1:1";
  EXPECT_EQ(MeetingPlaceNotice(StoreMode::kAuto, facts, false), "");
}

TEST(StartsRanksNoticeTest, WhereItIsStartedMoreThanOnce) {
  ProgramFacts facts;
  facts.program = "spawn.py";
  EXPECT_EQ(StartsRanksNotice(facts, 2), "");
  facts.starts_ranks = true;
  EXPECT_EQ(StartsRanksNotice(facts, 1), "");
  EXPECT_THAT(StartsRanksNotice(facts, 2),
              HasSubstr("spawn.py starts its ranks itself (mp.spawn), and launch starts 2 of it"));
}

TEST(MpiServedTest, AutoIsWhatTheProgramLinks) {
  ProgramFacts facts;
  EXPECT_EQ(MpiServed(MpiMode::kAuto, facts), MpiMode::kNone);
  EXPECT_EQ(MpiServed(MpiMode::kPmi1, facts), MpiMode::kPmi1) << "as asked";
  facts.mpi = "MPICH";
  EXPECT_EQ(MpiServed(MpiMode::kAuto, facts), MpiMode::kPmi1);
  EXPECT_EQ(MpiServed(MpiMode::kNone, facts), MpiMode::kNone);
  facts.mpi = "Open MPI";
  EXPECT_EQ(MpiServed(MpiMode::kAuto, facts), BuiltWithPmix() ? MpiMode::kPmix : MpiMode::kNone);
  EXPECT_EQ(MpiServed(MpiMode::kPmix, facts), MpiMode::kPmix) << "as asked";
}

TEST(CheckOneWorldTest, AllProgramsHaveOneMpiOrNone) {
  const auto of = [](const char* program, const char* mpi, bool found = true) {
    ProgramFacts facts;
    facts.program = program;
    facts.found = found;
    facts.mpi = mpi;
    return facts;
  };
  const ProgramFacts mpich = of("m", "MPICH");
  const ProgramFacts plain = of("sleep", "");
  EXPECT_TRUE(CheckOneWorld(MpiMode::kAuto, {mpich, of("n", "MPICH")}).ok());
  EXPECT_TRUE(CheckOneWorld(MpiMode::kAuto, {plain, plain}).ok());
  EXPECT_THAT(CheckOneWorld(MpiMode::kAuto, {plain, mpich}).message(),
              "--mpi auto: sleep is served no PMI-1, and m is, which would wait for it in MPI_Init "
              "for ever: say --mpi pmi1, if it calls MPI_Init, too, or start them as two jobs");
  // On another node only.
  EXPECT_TRUE(CheckOneWorld(MpiMode::kAuto, {mpich, of("there", "", /*found=*/false)}).ok());
  for (const MpiMode said : {MpiMode::kPmi1, MpiMode::kPmix, MpiMode::kNone}) {
    EXPECT_TRUE(CheckOneWorld(said, {plain, mpich}).ok());
  }
  if (BuiltWithPmix()) {
    const ProgramFacts open_mpi = of("o", "Open MPI");
    EXPECT_THAT(CheckOneWorld(MpiMode::kAuto, {open_mpi, mpich}).message(),
                HasSubstr("m links MPICH, and another program of the job Open MPI"));
    EXPECT_THAT(CheckOneWorld(MpiMode::kAuto, {open_mpi, plain}).message(),
                HasSubstr("sleep is served no PMIx, and o is"));
  }
}

TEST(MpiNoticeTest, SaysWhatWouldHappenAndTheWayRound) {
  ProgramFacts facts;
  facts.program = "cpi";
  EXPECT_EQ(MpiNotice(MpiMode::kAuto, facts, 4), "");
  facts.mpi = "Open MPI";
  EXPECT_THAT(MpiNotice(MpiMode::kAuto, facts, 4),
              BuiltWithPmix() ? testing::Matcher<std::string>("")
                              : HasSubstr("built without libpmix.\nWhere it calls MPI_Init, that"));
  facts.mpi = "MPICH";
  EXPECT_EQ(MpiNotice(MpiMode::kAuto, facts, 4), "") << "it is served";
  facts.mpi = "MPI";
  EXPECT_EQ(MpiNotice(MpiMode::kAuto, facts, 1), "") << "a world of one is right then";
  EXPECT_EQ(MpiNotice(MpiMode::kNone, facts, 4), "") << "it was asked for";
  facts.is_python = true;
  EXPECT_THAT(MpiNotice(MpiMode::kAuto, facts, 4),
              HasSubstr("It is offered PMI-1, which MPICH and its relatives speak"));
  EXPECT_THAT(MpiNotice(MpiMode::kAuto, facts, 0), HasSubstr("uses an MPI through mpi4py"));
  EXPECT_THAT(MpiNotice(MpiMode::kAuto, facts, 0), HasSubstr("--mpi pmix"));
}

TEST(OffersPmi1Test, WhereNoMpiIsSeenAndThereMayBeOne) {
  ProgramFacts script;
  EXPECT_TRUE(OffersPmi1(MpiMode::kAuto, script, 4));
  EXPECT_TRUE(OffersPmi1(MpiMode::kAuto, script, 0)) << "not known yet";
  EXPECT_FALSE(OffersPmi1(MpiMode::kAuto, script, 1)) << "a world of one is right then";
  for (const MpiMode said : {MpiMode::kPmi1, MpiMode::kPmix, MpiMode::kNone}) {
    EXPECT_FALSE(OffersPmi1(said, script, 4));
  }
  ProgramFacts seen = script;
  seen.mpi = "MPICH";
  EXPECT_FALSE(OffersPmi1(MpiMode::kAuto, seen, 4)) << "it is served";
  seen.mpi = "MPI";
  EXPECT_TRUE(OffersPmi1(MpiMode::kAuto, seen, 4));
  ProgramFacts spawns = script;
  spawns.starts_ranks = true;
  EXPECT_FALSE(OffersPmi1(MpiMode::kAuto, spawns, 4));
  ProgramFacts torchrun = script;
  torchrun.runs_launcher = true;
  EXPECT_FALSE(OffersPmi1(MpiMode::kAuto, torchrun, 4));
}

TEST(MpiNoticeTest, OfAnMpiThatAWorkerHasLoaded) {
  const std::string told = LoadedMpiNotice(0, {"Open MPI", "/usr/lib/libmpi.so.40.30.4"}, 4);
  EXPECT_THAT(told, HasSubstr("rank 0 has loaded Open MPI (/usr/lib/libmpi.so.40.30.4)"));
  EXPECT_THAT(told, HasSubstr("each of the 4 workers is a world of its own"));
  EXPECT_THAT(told, HasSubstr(BuiltWithPmix() ? "Say --mpi pmix;" : "Start it with mpirun;"));
  EXPECT_THAT(LoadedMpiNotice(0, {"MPICH", "/o/libmpi.so.12"}, 2),
              HasSubstr("has not come to the PMI-1 server"));
}

TEST(WorkersOnNodeTest, FollowsTheOption) {
  NodeFacts node;
  node.hostname = "n7";
  node.cpus_allowed = 8;
  node.cpu_quota = 4.5;
  WorkPlan plan;
  plan.workers = 3;
  EXPECT_EQ(*WorkersOnNode(plan, node), 3u);
  plan.workers_wanted = WorkersWanted::kCpu;
  EXPECT_EQ(*WorkersOnNode(plan, node), 4u);
  plan.workers_wanted = WorkersWanted::kAuto;
  EXPECT_EQ(*WorkersOnNode(plan, node), 4u);
  plan.workers_wanted = WorkersWanted::kGpu;
  EXPECT_EQ(WorkersOnNode(plan, node).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(WorkersOnNode(plan, node).status().message()),
              HasSubstr("--nproc-per-node gpu: n7 has no GPU"));
  node.gpus = 2;
  EXPECT_EQ(*WorkersOnNode(plan, node), 2u);
  plan.workers_wanted = WorkersWanted::kAuto;
  EXPECT_EQ(*WorkersOnNode(plan, node), 2u);
}

}  // namespace
}  // namespace muster
