// What one user has of a daemon ends at a limit, and the others go on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/service/journal.h"
#include "rendezvous/service/master_server.h"
#include "tests/rendezvous/service/fake_store.h"
#include "tests/rendezvous/service/master_fixture.h"
#include "tests/rendezvous/service/test_agent.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class UserLimitsTest : public MasterFixture {
 protected:
  void Serve(const UserLimits& limits) {
    MasterOptions options;
    options.users = {{"alice", "hers"}, {"bob", "his"}};
    options.per_user = limits;
    options.many_jobs = true;
    StartMaster(std::move(options));
    Listen();
  }
  TestAgent& Add(const std::string& secret, const std::string& job, uint32_t nodes = 1) {
    const uint64_t life = agents_.size() + 1;
    MasterClientOptions client;
    client.targets = {absl::StrCat("127.0.0.1:", port_)};
    client.secret = secret;
    client.job_id = job;
    client.life = life;
    client.terms.nodes_min = client.terms.nodes_max = nodes;
    client.sites.expected = [](const std::string&) { return std::string(); };
    Join join;
    join.life = life;
    join.hostname = absl::StrCat("host", life);
    join.key = "host/" + join.hostname;
    join.workers = 1;
    join.store_port = 4000;
    return AddAgent(std::move(client), std::move(join));
  }
  TestAgent& Run(const std::string& secret, const std::string& job) {
    TestAgent& agent = Add(secret, job);
    loop_.Until([&] { return agent.running; }, "a round");
    return agent;
  }
  std::string RefusalOf(TestAgent& agent) {
    loop_.Until([&] { return !agent.refusals.empty(); }, "the refusal");
    return agent.refusals[0];
  }
};

TEST_F(UserLimitsTest, Jobs) {
  Serve({.jobs = 1});
  Run("hers", "one");
  EXPECT_EQ(RefusalOf(Add("hers", "two")),
            "alice has 1 jobs at this master, the limit of a user is 1: try again when one of them "
            "has been over for a minute");
  Run("his", "two");
}

TEST_F(UserLimitsTest, AgentsButThoseThatAreBack) {
  Serve({.agents = 1});
  TestAgent& first = Run("hers", "one");
  TestAgent& second = Add("hers", "two");
  EXPECT_EQ(RefusalOf(second),
            "alice has 1 agents connected at this master, the limit of a user is 1: end a job, or "
            "start this one when one has ended");
  second.Stop();  // it would ask again, and perhaps be there before the third
  loop_.Until([&] { return second.stopped; }, "the second one's stop");
  Run("his", "two");
  master_->Post("alice/one", StopAsked{2, true});
  loop_.Until([&] { return first.end; }, "the end");
  first.Stop();
  loop_.Until([&] { return first.stopped; }, "its stop");
  bool runs = false;
  for (int i = 0; i < 1000 && !runs; ++i) {  // until the master has heard of that
    TestAgent& next = Add("hers", "three");
    loop_.Until([&] { return next.running || !next.refusals.empty(); }, "the answer");
    runs = next.running;
    if (!runs) {
      next.Stop();
      loop_.Until([&] { return next.stopped; }, "the stop of who is refused");
    }
  }
  EXPECT_TRUE(runs);
}

TEST_F(UserLimitsTest, Fences) {
  Serve({.fence_bytes = 10});
  TestAgent& hers = Run("hers", "one");
  TestAgent& his = Run("his", "one");
  hers.EnterFence(1, "0123456789");
  his.EnterFence(1, "0");
  loop_.Until([&] { return !hers.fences.empty() && !his.fences.empty(); }, "the fences");
  EXPECT_EQ(hers.fences[0].bytes, "0123456789");
  hers.EnterFence(2, "a");
  his.EnterFence(2, "b");
  loop_.Until([&] { return hers.fences.size() == 2 && his.fences.size() == 2; }, "the next ones");
  EXPECT_EQ(hers.fences[1].refused,
            "what the MPI jobs of alice tell each other in barriers has more than 10 bytes at this "
            "master, the limit of a user is 10: run fewer of them at one time");
  EXPECT_EQ(his.fences[1].refused, "");
}

TEST_F(UserLimitsTest, ModexAnswers) {
  Serve({.modex_bytes = 3});
  TestAgent& agent = Run("hers", "one");
  agent.AnswerModex("1234");
  loop_.Until([&] { return agent.modexes.size() == 1; }, "the note");
  EXPECT_EQ(agent.modexes[0].bytes, "");
  EXPECT_THAT(
      agent.modexes[0].refused,
      HasSubstr("what ranks of the MPI jobs of alice have asked of each other has more than "
                "3 bytes at this master, the limit of a user is 3: run fewer"));
  TestAgent& his = Run("his", "one");
  his.AnswerModex("123");
  loop_.Until([&] { return his.modexes.size() == 1; }, "the note");
  EXPECT_EQ(his.modexes[0].bytes, "123");
}

TEST_F(UserLimitsTest, Journal) {
  const auto store = std::make_shared<FakeStore>();
  Serve({.journal_bytes = 4000});
  journal_ = *Journal::On(loop_.get(), store);
  ASSERT_TRUE(master_->Lead(journal_.get(), [] { return true; }).ok());
  TestAgent* refused = nullptr;
  for (int i = 0; i < 100 && refused == nullptr; ++i) {
    TestAgent& agent = Run("hers", absl::StrCat("job", i));
    agent.SendBeat();
    loop_.Until([&] { return agent.directives.size() >= 3; }, "the answers to its beats");
    refused = agent.notices.empty() ? nullptr : &agent;
  }
  ASSERT_NE(refused, nullptr);
  EXPECT_THAT(
      refused->notices[0],
      HasSubstr("this job can no longer survive a master restart: the jobs of alice have "));
  EXPECT_THAT(refused->notices[0],
              HasSubstr(" more at this master, the limit of a user is 4000: it is kept again from "
                        "its next round on, if others have ended"));
  TestAgent& his = Run("his", "one");
  his.SendBeat();
  loop_.Until([&] { return his.directives.size() >= 3; }, "the answers to its beats");
  EXPECT_THAT(his.notices, IsEmpty());
}

}  // namespace
}  // namespace muster
