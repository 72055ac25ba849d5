#include "agent/core/pmix_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/agent/core/pmix_sample.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string SaidToHelper(const PmixMessage& message) {
  if (const auto* found = std::get_if<PmixFound>(&message)) {
    return absl::StrCat("found ", found->rank, found->ok ? " well " : " badly", found->bytes);
  }
  if (const auto* show = std::get_if<PmixShow>(&message)) {
    return absl::StrCat("show ", show->client.value);
  }
  const auto& fenced = std::get<PmixFenced>(message);
  return absl::StrCat("fenced ", fenced.ok ? "well " : "badly", fenced.bytes);
}

// In words.
std::vector<std::string> Said(const std::vector<PmixEffect>& effects) {
  std::vector<std::string> out;
  for (const PmixEffect& effect : effects) {
    if (const auto* start = std::get_if<PmixStart>(&effect)) {
      out.push_back(absl::StrCat("start ", start->variables.size()));
    } else if (const auto* no_start = std::get_if<PmixNoStart>(&effect)) {
      out.push_back(absl::StrCat("no start: ", no_start->why));
    } else if (const auto* enter = std::get_if<PmixEnter>(&effect)) {
      out.push_back(absl::StrCat("enter ", enter->bytes));
    } else if (const auto* say = std::get_if<PmixSay>(&effect)) {
      out.push_back(SaidToHelper(say->message));
    } else if (const auto* seek = std::get_if<PmixSeek>(&effect)) {
      out.push_back(absl::StrCat("seek rank ", seek->rank, " on node ", seek->node));
    } else if (const auto* tell = std::get_if<PmixTell>(&effect)) {
      out.push_back(absl::StrCat(
          "tell of rank ", tell->rank, ": ",
          tell->bytes.ok() ? *tell->bytes : absl::StrCat("no, ", tell->bytes.status().message())));
    } else if (const auto* kill = std::get_if<PmixKill>(&effect)) {
      out.push_back(absl::StrCat("kill ", kill->worker.value, kill->at_once ? " now" : ""));
    } else {
      out.push_back(absl::StrCat("notice: ", std::get<PmixNotice>(effect).text));
    }
  }
  return out;
}

class PmixNodeTest : public testing::Test {
 protected:
  std::vector<std::string> Take(PmixMessage message) {
    return Said(node_.Take(std::move(message)));
  }
  void Serve() { EXPECT_THAT(Take(PmixReady{{{}, {}}}), ElementsAre("start 2")); }
  std::vector<std::string> Init(uint32_t local) { return Take(PmixInit{LocalRank{local}}); }
  std::vector<std::string> Ended(uint32_t local, bool well = true) {
    return Said(node_.Ended(LocalRank{local}, well));
  }
  MpiEnd::Kind End(uint32_t local) const { return node_.End(LocalRank{local}).kind; }

  PmixNode node_{SampleWorld()};
};

TEST_F(PmixNodeTest, ARunOfAnMpiProgram) {
  EXPECT_TRUE(node_.starting());
  Serve();
  EXPECT_FALSE(node_.starting());
  for (const uint32_t local : {0u, 1u}) {
    EXPECT_THAT(Init(local), IsEmpty());
    EXPECT_EQ(End(local), MpiEnd::Kind::kInside);
  }
  EXPECT_THAT(Take(PmixFence{"cards"}), ElementsAre("enter cards"));
  EXPECT_THAT(Said(node_.Fenced(std::string("all"))), ElementsAre("fenced well all"));
  EXPECT_THAT(Take(PmixFence{""}), ElementsAre("enter "));
  EXPECT_THAT(Said(node_.Fenced(std::string())), ElementsAre("fenced well "));
  for (const uint32_t local : {0u, 1u}) {
    EXPECT_THAT(Take(PmixFinalized{LocalRank{local}}), IsEmpty());
    EXPECT_EQ(End(local), MpiEnd::Kind::kFinalized);
    EXPECT_THAT(Ended(local), IsEmpty());
  }
}

TEST_F(PmixNodeTest, N1ItFailsOnce) {
  EXPECT_THAT(Take(PmixFailed{"no libpmix"}),
              ElementsAre("no start: --mpi pmix: no PMIx server: no libpmix"));
  EXPECT_THAT(Said(node_.Lost("gone")), IsEmpty());
  EXPECT_THAT(Take(PmixReady{{{}, {}}}), IsEmpty());
}

TEST_F(PmixNodeTest, N1WhatIsSaidOutOfTurnIsNoServer) {
  const std::vector<PmixMessage> wrong = {
      PmixReady{{{}}},        PmixServe{SampleWorld()}, PmixFenced{},
      PmixInit{LocalRank{0}}, PmixAborted{{0}, 0, ""},  PmixFinalized{{0}},
      PmixFence{"early"},     PmixNotServed{"spawn"}};
  for (const PmixMessage& message : wrong) {
    PmixNode node(SampleWorld());
    EXPECT_THAT(Said(node.Take(message)), ElementsAre(HasSubstr("no PMIx server: it said")));
  }
}

TEST_F(PmixNodeTest, AClientThatIsNoneIsNoServersWord) {
  for (const PmixMessage& message :
       std::vector<PmixMessage>{PmixInit{{2}}, PmixAborted{{2}, 0, ""}, PmixFinalized{{2}}}) {
    PmixNode node(SampleWorld());
    node.Take(PmixReady{{{}, {}}});
    EXPECT_THAT(Said(node.Take(message)),
                ElementsAre(HasSubstr("is lost: it said a client that is none")));
  }
}

TEST_F(PmixNodeTest, N2OneFenceAtATimeEachAnsweredOnce) {
  Serve();
  EXPECT_THAT(Said(node_.Fenced(std::string("early"))), IsEmpty());
  Take(PmixFence{"a"});
  EXPECT_THAT(Said(node_.Fenced(absl::ResourceExhaustedError("too much"))),
              ElementsAre(HasSubstr("a fence of all ranks failed: too much"), "fenced badly"));
  EXPECT_THAT(Said(node_.Fenced(std::string("again"))), IsEmpty());
  Take(PmixFence{"b"});
  EXPECT_THAT(Take(PmixFence{"c"}), ElementsAre(HasSubstr("a fence within a fence")));
}

TEST_F(PmixNodeTest, N4WhatARankOfAnotherNodeHasPutIsSoughtOnceAtATime) {
  Serve();
  EXPECT_THAT(Take(PmixWant{1}), ElementsAre("seek rank 1 on node 0"));
  EXPECT_THAT(Take(PmixWant{1}), IsEmpty());
  EXPECT_THAT(Said(node_.Found(1, std::string("card"))), ElementsAre("found 1 well card"));
  EXPECT_THAT(Said(node_.Found(1, std::string("card"))), IsEmpty());
  EXPECT_THAT(Take(PmixWant{1}), ElementsAre("seek rank 1 on node 0")) << "it may have put more";
  EXPECT_THAT(Said(node_.Found(1, absl::UnavailableError("lost"))),
              ElementsAre(HasSubstr("what rank 1 has put was asked for here, and not found: lost"),
                          "found 1 badly"));
  Take(PmixWant{1});
  EXPECT_THAT(Said(node_.Found(1, absl::UnavailableError("lost"))), ElementsAre("found 1 badly"));
}

TEST_F(PmixNodeTest, N4WhatARankOfThisNodeHasPutIsAskedOfTheHelperOnceAtATime) {
  EXPECT_THAT(Said(node_.Show(2)), IsEmpty()) << "it starts, and will be asked again";
  Serve();
  EXPECT_THAT(Said(node_.Show(2)), ElementsAre("show 1"));
  EXPECT_THAT(Said(node_.Show(2)), IsEmpty());
  EXPECT_THAT(Take(PmixShown{LocalRank{1}, true, "card"}), ElementsAre("tell of rank 2: card"));
  EXPECT_THAT(Said(node_.Show(2)), ElementsAre("show 1"));
  EXPECT_THAT(Take(PmixShown{LocalRank{1}, false, ""}),
              ElementsAre("tell of rank 2: no, rank 2 has put nothing that its server finds"));
  EXPECT_THAT(Said(node_.Show(1)), ElementsAre("tell of rank 1: no, rank 1 is on another node"));
  node_.Closing();
  EXPECT_THAT(Said(node_.Show(2)),
              ElementsAre("tell of rank 2: no, the PMIx server of rank 2 has ended"));
}

TEST_F(PmixNodeTest, N4WhatNobodyAskedForIsNoServersWord) {
  for (const PmixMessage& message :
       std::vector<PmixMessage>{PmixWant{0}, PmixWant{3}, PmixShown{{0}, true, ""},
                                PmixShown{{2}, true, ""}, PmixShow{}, PmixFound{}}) {
    PmixNode node(SampleWorld());
    node.Take(PmixReady{{{}, {}}});
    EXPECT_THAT(Said(node.Take(message)), ElementsAre(HasSubstr("is lost: it said")));
  }
}

TEST_F(PmixNodeTest, N3WithoutItsServerWhoIsInItsMpiIsKilled) {
  Serve();
  Init(1);
  EXPECT_THAT(Said(node_.Lost("gone")),
              ElementsAre(HasSubstr("is lost: gone; workers that are between"), "kill 1 now"));
}

TEST_F(PmixNodeTest, AServerThatEndsBehindItsWorkersIsNoLoss) {
  Serve();
  Init(0);
  Init(1);
  Ended(0);
  Ended(1);
  EXPECT_THAT(Said(node_.Lost("gone")), IsEmpty());
}

TEST_F(PmixNodeTest, WhatWeEndIsNoLoss) {
  Serve();
  Init(0);
  node_.Closing();
  EXPECT_THAT(Said(node_.Lost("gone")), IsEmpty());
}

TEST_F(PmixNodeTest, AnAbortKeepsItsCode) {
  Serve();
  Init(0);
  EXPECT_THAT(Take(PmixAborted{LocalRank{0}, 259, "no"}), ElementsAre("kill 0"));
  EXPECT_THAT(Take(PmixFinalized{LocalRank{0}}), IsEmpty());
  EXPECT_EQ(End(0), MpiEnd::Kind::kAborted);
  EXPECT_EQ(node_.End(LocalRank{0}).code, 259);
  EXPECT_EQ(node_.End(LocalRank{0}).message, "no");
}

TEST_F(PmixNodeTest, ASecondProgramBesideTheFirstIsRefused) {
  Serve();
  Init(0);
  EXPECT_THAT(Init(0), ElementsAre("kill 0"));
  EXPECT_EQ(End(0), MpiEnd::Kind::kRefused);
  EXPECT_THAT(node_.End(LocalRank{0}).message, HasSubstr("a second MPI_Init in one worker"));
  EXPECT_THAT(Init(0), IsEmpty());
}

TEST_F(PmixNodeTest, ASecondProgramBehindTheFirstMayCome) {
  Serve();
  Init(0);
  Take(PmixFinalized{LocalRank{0}});
  EXPECT_THAT(Init(0), IsEmpty());
  EXPECT_EQ(End(0), MpiEnd::Kind::kInside);
  EXPECT_TRUE(node_.End(LocalRank{0}).again);
}

TEST_F(PmixNodeTest, ASecondAbortChangesNothing) {
  Serve();
  Init(0);
  Take(PmixAborted{LocalRank{0}, 3, "no"});
  EXPECT_THAT(Take(PmixAborted{LocalRank{0}, 4, "yes"}), IsEmpty());
  EXPECT_EQ(node_.End(LocalRank{0}).code, 3);
}

TEST_F(PmixNodeTest, WhoWaitsInVainIsTold) {
  Serve();
  EXPECT_THAT(Ended(0), IsEmpty());
  EXPECT_THAT(Init(1), ElementsAre(HasSubstr("ended without MPI_Init, and 1 other waits")));
}

TEST_F(PmixNodeTest, SilentSingletonsAreTold) {
  Serve();
  EXPECT_THAT(Ended(0), IsEmpty());
  EXPECT_THAT(Ended(1), ElementsAre(HasSubstr("none of the 2 workers of this node came")));
}

TEST_F(PmixNodeTest, WhoHasFailedIsNoSilentSingleton) {
  Serve();
  Ended(0);
  EXPECT_THAT(Ended(1, /*well=*/false), IsEmpty());
}

TEST_F(PmixNodeTest, WhatIsNotServedIsTold) {
  Serve();
  EXPECT_THAT(Take(PmixNotServed{"MPI_Comm_spawn"}),
              ElementsAre(HasSubstr("asked for MPI_Comm_spawn, which is not served")));
  EXPECT_THAT(Take(PmixNotServed{"MPI_Comm_spawn"}), IsEmpty()) << "once";
}

}  // namespace
}  // namespace muster
