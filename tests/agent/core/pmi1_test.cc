#include "agent/core/pmi1.h"

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kBytes = 4096;

std::string Show(const Pmi1Effect& effect) {
  if (const auto* reply = std::get_if<Pmi1Reply>(&effect)) {
    return absl::StrCat(reply->to.value, "< ", reply->line);
  }
  if (const auto* enter = std::get_if<Pmi1Enter>(&effect)) {
    std::string pairs = enter->pairs;
    for (char& c : pairs) {
      c = c == '\0' ? '|' : c;
    }
    return absl::StrCat("enter ", pairs);
  }
  if (const auto* abort = std::get_if<Pmi1Abort>(&effect)) {
    return absl::StrCat("abort by ", abort->by.value);
  }
  if (const auto* drop = std::get_if<Pmi1Drop>(&effect)) {
    return absl::StrCat("drop ", drop->worker.value, ": ", drop->why);
  }
  return std::get<Pmi1Notice>(effect).text;
}

std::vector<std::string> Show(const std::vector<Pmi1Effect>& effects) {
  std::vector<std::string> out;
  out.reserve(effects.size());
  for (const Pmi1Effect& effect : effects) {
    out.push_back(Show(effect));
  }
  return out;
}

// Two workers of one node; ranks 0 and 1 of 4.
class Pmi1Test : public testing::Test {
 protected:
  std::vector<std::string> Say(uint32_t local, absl::string_view line) {
    return Show(server_.Take({local}, line));
  }
  std::string Put(uint32_t local, absl::string_view key, absl::string_view value) {
    return absl::StrJoin(
        Say(local, absl::StrCat("cmd=put kvsname=kvs key=", key, " value=", value)), "");
  }
  std::string Get(absl::string_view key) {
    return absl::StrJoin(Say(0, absl::StrCat("cmd=get kvsname=kvs key=", key)), "");
  }

  Pmi1Server server_{{"kvs", 4, "(vector,(0,2,2))", {0, 1}, /*asked_for=*/true}, kBytes};
};

TEST_F(Pmi1Test, AnswersWhatAnMpiAsksAtItsStart) {
  EXPECT_THAT(Say(1, "cmd=init pmi_version=1 pmi_subversion=1"),
              ElementsAre("1< cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"));
  EXPECT_THAT(Say(1, "cmd=get_maxes"),
              ElementsAre("1< cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n"));
  EXPECT_THAT(Say(1, "cmd=get_appnum"), ElementsAre("1< cmd=appnum rc=0 appnum=1\n"));
  EXPECT_THAT(Say(0, "cmd=get_appnum"), ElementsAre("0< cmd=appnum rc=0 appnum=0\n"));
  EXPECT_THAT(Say(1, "cmd=get_universe_size"), ElementsAre("1< cmd=universe_size rc=0 size=4\n"));
  EXPECT_THAT(Say(1, "cmd=get_my_kvsname"), ElementsAre("1< cmd=my_kvsname rc=0 kvsname=kvs\n"));
  EXPECT_EQ(Get("PMI_process_mapping"), "0< cmd=get_result rc=0 value=(vector,(0,2,2))\n");
  EXPECT_EQ(Get("universeSize"), "0< cmd=get_result rc=0 value=4\n");
  EXPECT_EQ(Get("other"), "0< cmd=get_result rc=-1 msg=key_not_found\n");
  EXPECT_THAT(Say(1, "cmd=finalize"), ElementsAre("1< cmd=finalize_ack rc=0\n"));
  EXPECT_EQ(server_.End({1}).kind, MpiEnd::Kind::kFinalized);
  EXPECT_EQ(server_.End({0}).kind, MpiEnd::Kind::kNoMpi);
}

TEST_F(Pmi1Test, ALaterVersionIsToldThatThisIsTheFirst) {
  EXPECT_THAT(Say(0, "cmd=init pmi_version=2 pmi_subversion=0"),
              ElementsAre("0< cmd=response_to_init rc=-1 pmi_version=1 pmi_subversion=1\n"));
  EXPECT_EQ(server_.End({0}).kind, MpiEnd::Kind::kNoMpi);
}

// P2, P3
TEST_F(Pmi1Test, ABarrierCarriesWhatAllNodesHavePut) {
  EXPECT_EQ(Put(0, "card-0", "here"), "0< cmd=put_result rc=0\n");
  EXPECT_EQ(Put(1, "card-1", "there"), "1< cmd=put_result rc=0\n");
  EXPECT_THAT(Say(1, "cmd=barrier_in"), IsEmpty());
  EXPECT_THAT(Say(0, "cmd=barrier_in"), ElementsAre("enter card-0|here|card-1|there|"));
  const std::string of_all("card-0\0here\0card-1\0there\0card-2\0far\0", 36);
  EXPECT_THAT(Show(server_.Fenced(of_all)),
              ElementsAre("0< cmd=barrier_out rc=0\n", "1< cmd=barrier_out rc=0\n"));
  EXPECT_EQ(Get("card-2"), "0< cmd=get_result rc=0 value=far\n");
  // What has been said is not said again.
  Put(0, "late", "1");
  Say(0, "cmd=barrier_in");
  EXPECT_THAT(Say(1, "cmd=barrier_in"), ElementsAre("enter late|1|"));
}

TEST_F(Pmi1Test, ABarrierThatFailsSaysWhy) {
  Say(0, "cmd=barrier_in");
  Say(1, "cmd=barrier_in");
  EXPECT_THAT(Show(server_.Fenced(absl::ResourceExhaustedError("too much"))),
              ElementsAre("0< cmd=barrier_out rc=-1 msg=too\\ much\n",
                          "1< cmd=barrier_out rc=-1 msg=too\\ much\n"));
}

// P4
TEST_F(Pmi1Test, BoundsKeysValuesAndAllPairs) {
  const std::string key(kPmi1KeyMax, 'k');
  EXPECT_THAT(Put(0, key, std::string(kPmi1ValueMax, 'v')), HasSubstr("rc=0"));
  EXPECT_THAT(Put(0, key + "k", "v"), HasSubstr("rc=-1 msg=a_key_may_have_64_bytes"));
  EXPECT_THAT(Put(0, "k", std::string(kPmi1ValueMax + 1, 'v')),
              HasSubstr("rc=-1 msg=a_value_may_have_1024_bytes"));
  EXPECT_THAT(Put(0, "PMI_process_mapping", "x"), HasSubstr("rc=-1"));
  EXPECT_THAT(Say(0, "cmd=put kvsname=else key=a value=b"),
              ElementsAre("0< cmd=put_result rc=-1 msg=unknown_kvsname\n"));
  EXPECT_THAT(Say(0, "cmd=put kvsname=kvs key=a"), ElementsAre(HasSubstr("rc=-1")));
  for (int i = 0; i < 20; ++i) {  // the same one again takes nothing
    EXPECT_THAT(Put(0, key, std::string(kPmi1ValueMax, 'w')), HasSubstr("rc=0"));
  }
  EXPECT_THAT(Put(0, "a", std::string(kPmi1ValueMax, 'v')), HasSubstr("rc=0"));
  EXPECT_THAT(Put(0, "b", std::string(kPmi1ValueMax, 'v')), HasSubstr("rc=0"));
  EXPECT_THAT(Put(0, "c", std::string(kPmi1ValueMax, 'v')),
              HasSubstr("rc=-1 msg=all_pairs_may_have_4096_bytes"));
  EXPECT_THAT(Get("c"), HasSubstr("key_not_found"));
}

// P1
TEST_F(Pmi1Test, AnswersWhatItDoesNotServe) {
  EXPECT_THAT(Say(0, "cmd=tea milk=1"),
              ElementsAre("0< cmd=tea_result rc=-1 msg=unknown_command\n"));
  EXPECT_THAT(Say(0, "cmd=publish_name service=s port=p"),
              ElementsAre("0< cmd=publish_result rc=-1 msg=names_are_not_served\n"));
  EXPECT_THAT(Say(0, "cmd=get key=a"), ElementsAre(HasSubstr("cmd=get_result rc=-1")));
}

TEST_F(Pmi1Test, SpawnsOfSeveralProgramsAreRefusedOnce) {
  for (const char* number : {"1", "2"}) {
    for (const std::string& line :
         {std::string("mcmd=spawn"), std::string("nprocs=1"), std::string("totspawns=2"),
          absl::StrCat("spawnssofar=", number), std::string("execname=cmd=abort")}) {
      EXPECT_THAT(Say(0, line), IsEmpty()) << line;
    }
    EXPECT_THAT(Say(0, "endcmd"),
                *number == '1'
                    ? testing::Matcher<std::vector<std::string>>(IsEmpty())
                    : ElementsAre("0< cmd=spawn_result rc=-1 msg=spawning_is_not_served\n",
                                  HasSubstr("MPI_Comm_spawn is not served")));
  }
  EXPECT_THAT(Say(0, "cmd=get_appnum"), ElementsAre(HasSubstr("rc=0")));
}

TEST_F(Pmi1Test, ALineOfASpawnHasTheSameLimit) {
  Say(0, "mcmd=spawn");
  EXPECT_THAT(Say(0, "nprocs=" + std::string(kPmi1LineMax, '1')),
              ElementsAre(HasSubstr("drop 0: a line of ")));
}

TEST_F(Pmi1Test, AnAbortSaysItsCodeAndWhy) {
  EXPECT_THAT(Say(1, R"(cmd=abort exitcode=3 message=no\ more)"), ElementsAre("abort by 1"));
  EXPECT_EQ(server_.End({1}).kind, MpiEnd::Kind::kAborted);
  EXPECT_EQ(server_.End({1}).code, 3);
  EXPECT_EQ(server_.End({1}).message, "no more");
  EXPECT_THAT(Say(1, "cmd=abort exitcode=4"), IsEmpty());
  EXPECT_EQ(server_.End({1}).code, 3);
}

TEST_F(Pmi1Test, AnotherThreadMayAbortWhileOneWaits) {
  Say(1, "cmd=barrier_in");
  EXPECT_THAT(Say(1, "cmd=abort exitcode=3"), ElementsAre("abort by 1"));
  server_.Fenced("");
  Say(1, "cmd=finalize");
  EXPECT_EQ(server_.End({1}).kind, MpiEnd::Kind::kAborted);
  EXPECT_EQ(server_.End({1}).code, 3);
}

TEST_F(Pmi1Test, WhatIsNoPmiIsDropped) {
  EXPECT_THAT(Say(0, "GET / HTTP/1.1"), ElementsAre(HasSubstr("drop 0: a line that does not")));
  Say(1, "cmd=barrier_in");
  EXPECT_THAT(Say(1, "cmd=barrier_in"), ElementsAre("drop 1: cmd=barrier_in within a barrier"));
}

TEST_F(Pmi1Test, SaysForWhomABarrierWaitsInVain) {
  Say(0, "cmd=init pmi_version=1 pmi_subversion=1");
  EXPECT_THAT(Show(server_.Ended({1}, true)), IsEmpty()) << "nobody waits yet";
  EXPECT_THAT(Say(0, "cmd=barrier_in"),
              ElementsAre(HasSubstr("1 worker of this node ended without MPI_Init, and 1 other")));
  EXPECT_EQ(server_.End({0}).kind, MpiEnd::Kind::kInside);
}

// An Open MPI, say.
TEST_F(Pmi1Test, SaysThatNobodyCameWhereAllLooksWell) {
  EXPECT_THAT(Show(server_.Ended({0}, true)), IsEmpty());
  EXPECT_THAT(
      Show(server_.Ended({1}, true)),
      ElementsAre(AllOf(HasSubstr("none of the 2 workers of this node came to the PMI server"),
                        HasSubstr("--mpi pmix"))));
}

TEST_F(Pmi1Test, SaysThatTheOneWorkerDidNotCome) {
  Pmi1Server server({"kvs", 4, "", {0}, /*asked_for=*/true}, kBytes);
  EXPECT_THAT(
      Show(server.Ended({0}, true)),
      ElementsAre(HasSubstr("--mpi pmi1: the worker of this node did not come to the PMI")));
}

TEST_F(Pmi1Test, OfAServerThatNobodyAskedForItIsNotSaid) {
  Pmi1Server server({"kvs", 4, "", {0}, /*asked_for=*/false}, kBytes);
  EXPECT_THAT(Show(server.Ended({0}, true)), IsEmpty());
}

TEST_F(Pmi1Test, OfAWorkerThatFailedItIsNotSaid) {
  EXPECT_THAT(Show(server_.Ended({0}, false)), IsEmpty());
  EXPECT_THAT(Show(server_.Ended({1}, true)), IsEmpty());
}

TEST_F(Pmi1Test, OfAWorldWithMpiItIsNotSaid) {
  Say(0, "cmd=init pmi_version=1 pmi_subversion=1");
  Say(0, "cmd=finalize");
  EXPECT_THAT(Show(server_.Ended({0}, true)), IsEmpty());
  EXPECT_THAT(Show(server_.Ended({1}, true)), IsEmpty());
}

// P5
TEST_F(Pmi1Test, ASecondInitOfAWorkerIsRefusedAndEndsIt) {
  constexpr absl::string_view kInit = "cmd=init pmi_version=1 pmi_subversion=1";
  EXPECT_THAT(Say(0, kInit), ElementsAre(HasSubstr("response_to_init rc=0")));
  EXPECT_THAT(Say(1, kInit), ElementsAre(HasSubstr("response_to_init rc=0")));
  Say(1, "cmd=barrier_in");
  EXPECT_THAT(Say(1, kInit), ElementsAre(HasSubstr("1< cmd=response_to_init rc=-1"), "abort by 1"))
      << "also where the first one waits";
  EXPECT_THAT(Say(0, kInit), ElementsAre(HasSubstr("0< cmd=response_to_init rc=-1"), "abort by 0"));
  EXPECT_THAT(Say(0, kInit), ElementsAre(HasSubstr("rc=-1"))) << "once";
  Say(0, "cmd=finalize");
  EXPECT_EQ(server_.End({0}).kind, MpiEnd::Kind::kRefused);
  EXPECT_THAT(server_.End({0}).message, HasSubstr("a second MPI_Init in one worker"));
}

TEST_F(Pmi1Test, WhereThereCanBeNoWorldEachIsTold) {
  Pmi1Server server({"kvs", 4, "", {0}, false, "no world here"}, kBytes);
  EXPECT_THAT(Show(server.Take({0}, "cmd=init pmi_version=1 pmi_subversion=1")),
              ElementsAre(HasSubstr("rc=-1"), "abort by 0"));
  EXPECT_EQ(server.End({0}).message, "no world here");
}

Assignment Layout(std::vector<std::pair<uint32_t, uint32_t>> layout,
                  std::vector<uint32_t> ranks_by_node = {}) {
  Assignment out;
  out.layout = std::move(layout);
  for (const auto& [workers, nodes] : out.layout) {
    out.world_size += workers * nodes;
    out.nodes += nodes;
  }
  if (!ranks_by_node.empty()) {
    out.ranks = {ranks_by_node[0]};
  }
  out.ranks_by_node = std::move(ranks_by_node);
  return out;
}

TEST(ProcessMappingTest, NamesTheNodesOfAllRanks) {
  EXPECT_EQ(ProcessMapping(Layout({{16, 2}})), "(vector,(0,2,16))");
  EXPECT_EQ(ProcessMapping(Layout({{4, 1}})), "(vector,(0,1,4))");
  EXPECT_EQ(ProcessMapping(Layout({{2, 2}, {1, 1}, {3, 1}})), "(vector,(0,2,2),(2,1,1),(3,1,3))");
  EXPECT_EQ(ProcessMapping(Layout({{2, 2}}, {0, 2, 1, 3})), "(vector,(0,2,1),(0,2,1))");
}

TEST(ProcessMappingTest, OneThatIsTooLongForAValueIsNone) {
  std::vector<uint32_t> alternating;
  for (const uint32_t first : {0u, 1u}) {
    for (uint32_t i = 0; i < 256; ++i) {
      alternating.push_back(2 * i + first);
    }
  }
  EXPECT_EQ(ProcessMapping(Layout({{256, 2}}, alternating)), "");
}

}  // namespace
}  // namespace muster
