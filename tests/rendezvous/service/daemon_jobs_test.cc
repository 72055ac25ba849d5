// When a daemon's job begins, and when the same id is another job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/service/journal.h"
#include "rendezvous/service/master_server.h"
#include "tests/rendezvous/service/fake_store.h"
#include "tests/rendezvous/service/master_fixture.h"
#include "tests/rendezvous/service/test_agent.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DaemonJobs : public MasterFixture {
 protected:
  DaemonJobs() {
    MasterOptions options;
    options.users = OneSecret("the secret");
    options.many_jobs = true;
    StartMaster(std::move(options));
    Listen();
  }

  TestAgent& AddAgent(uint64_t life, uint32_t nodes, const std::string& job = "job") {
    MasterClientOptions client;
    client.targets = {absl::StrCat("127.0.0.1:", port_)};
    client.secret = "the secret";
    client.job_id = job;
    client.hostname = "node1";
    client.terms.nodes_min = client.terms.nodes_max = nodes;
    Join join;
    join.key = absl::StrCat("life/", life);
    join.life = client.life = life;
    join.hostname = absl::StrCat("host", life);
    join.workers = 1;
    join.store_port = static_cast<uint16_t>(4000 + life);
    return MasterFixture::AddAgent(std::move(client), std::move(join));
  }
  void Stop(TestAgent& agent) {
    agent.Stop();
    loop_.Until([&] { return agent.stopped; }, "an agent's stop");
  }
};

TEST_F(DaemonJobs, TermsOfAFirstTryThatDiedBindNobody) {
  TestAgent& dead = AddAgent(1, 2);
  loop_.Until([&] { return !dead.admissions.empty(); }, "its admission");
  Stop(dead);
  agents_.clear();
  loop_.Until(
      [&] { return master_->FindJob("job")->nodes.begin()->second.status != NodeStatus::kAlive; },
      "the news of its death");
  for (const uint64_t life : {2u, 3u, 4u}) {
    AddAgent(life, 3);
  }
  for (const auto& agent : agents_) {
    loop_.Until([&] { return agent->running; }, "the round");
  }
  EXPECT_THAT(rounds_, ElementsAre("job 3 on 3"));
  EXPECT_THAT(told_, Contains(HasSubstr("begins anew")));
}

// With a journal that is as long as its lease: it may be back.
TEST_F(DaemonJobs, TermsOfOneWhoseConnectionBrokeStayUntilItIsBack) {
  journal_ = *Journal::On(loop_.get(), std::make_shared<FakeStore>());
  ASSERT_TRUE(master_->Lead(journal_.get(), [] { return true; }).ok());
  TestAgent& first = AddAgent(1, 2);
  loop_.Until([&] { return !first.admissions.empty(); }, "its admission");
  Stop(first);
  loop_.Until(
      [&] { return master_->FindJob("job")->nodes.begin()->second.status == NodeStatus::kSuspect; },
      "the end of its connection");
  TestAgent& other = AddAgent(2, 1);
  loop_.Until([&] { return !other.downs.empty() || !other.tries_failed.empty(); }, "the answer");
  EXPECT_THAT(other.downs.empty() ? other.tries_failed[0] : other.downs[0],
              HasSubstr("the job 'job' waits for host1, which has other options and whose "
                        "connection broke: this one begins if that is not back within 3"));
  EXPECT_THAT(other.admissions, IsEmpty());
  TestAgent& again = AddAgent(1, 2);
  loop_.Until([&] { return again.running && other.running; }, "the round");
  EXPECT_EQ(again.admissions[0].node, first.admissions[0].node);
  EXPECT_THAT(rounds_, ElementsAre("job 2 on 2"));
}

// One that holds what the life before it held shows that nobody comes back.
TEST_F(DaemonJobs, OneTypedAgainWithOtherOptionsBeginsWithoutTheLeaseOfTheOneBefore) {
  journal_ = *Journal::On(loop_.get(), std::make_shared<FakeStore>());
  ASSERT_TRUE(master_->Lead(journal_.get(), [] { return true; }).ok());
  const auto add = [this](uint64_t life, uint32_t rank, uint32_t nodes) -> TestAgent& {
    MasterClientOptions client;
    client.targets = {absl::StrCat("127.0.0.1:", port_)};
    client.secret = "the secret";
    client.job_id = "job";
    client.life = life;
    client.terms.nodes_min = client.terms.nodes_max = nodes;
    Join join;
    join.life = life;
    join.hostname = absl::StrCat("host", rank);
    join.key = absl::StrCat("rank/", rank);
    join.key_is_exact = true;
    join.node_rank = static_cast<int32_t>(rank);
    join.workers = 1;
    join.store_port = static_cast<uint16_t>(4000 + life);
    join.hold = {absl::StrCat("hold of ", rank), life};
    return MasterFixture::AddAgent(std::move(client), std::move(join));
  };
  TestAgent& first = add(1, 0, 3);
  TestAgent& second = add(2, 1, 3);
  loop_.Until([&] { return !first.admissions.empty() && !second.admissions.empty(); }, "both");
  Stop(first);
  Stop(second);
  loop_.Until(
      [&] {
        const auto& nodes = master_->FindJob("job")->nodes;
        return std::none_of(nodes.begin(), nodes.end(), [](const auto& node) {
          return node.second.status == NodeStatus::kAlive;
        });
      },
      "the ends of their connections");
  TestAgent& third = add(3, 0, 2);
  loop_.Until([&] { return !third.downs.empty(); }, "why it waits, of the other one");
  EXPECT_THAT(third.downs[0], HasSubstr("which has other options"));
  EXPECT_EQ(third.told_to_wait, third.downs.size());
  TestAgent& fourth = add(4, 1, 2);
  loop_.Until([&] { return third.running && fourth.running; }, "the round");
  EXPECT_THAT(rounds_, ElementsAre("job 2 on 2"));
}

// Somebody waits: the job is theirs.
TEST_F(DaemonJobs, TermsOfOneWhoWaitsStay) {
  TestAgent& first = AddAgent(1, 2);
  loop_.Until([&] { return !first.admissions.empty(); }, "its admission");
  TestAgent& second = AddAgent(2, 3);
  loop_.Until([&] { return first.running && second.running; }, "the round");
  EXPECT_THAT(rounds_, ElementsAre("job 2 on 2"));
}

// It is not let into what is being stopped, and asks again.
TEST_F(DaemonJobs, ALaunchTypedWhileTheJobBeforeItIsStoppedIsTheNextJob) {
  TestAgent& old = AddAgent(1, 1);
  old.stops = false;
  loop_.Until([&] { return old.running; }, "the round");
  master_->Post("job", StopAsked{SIGINT, false});
  loop_.Until([&] { return old.directives.back().wanted == Wanted::kStop; }, "the stop");
  TestAgent& next = AddAgent(2, 1);
  loop_.Until([&] { return !next.downs.empty() || !next.tries_failed.empty(); }, "the answer");
  EXPECT_THAT(next.downs.empty() ? next.tries_failed[0] : next.downs[0],
              HasSubstr("the job 'job' before this one is being stopped: this one begins when that "
                        "has ended"));
  EXPECT_THAT(next.admissions, IsEmpty());
  EXPECT_THAT(ended_, IsEmpty());
  old.stops = true;
  old.SendBeat();  // its answer says again what is to be done
  loop_.Until([&] { return next.running; }, "the next job's round");
  EXPECT_THAT(ended_, ElementsAre("job 130"));
  EXPECT_THAT(rounds_, ElementsAre("job 1 on 1", "job 1 on 1"));
}

// They hold what those before them held to their end: no lease is waited for.
TEST_F(DaemonJobs, AJobKilledOnAllItsNodesAndTypedAgainBeginsAtOnce) {
  journal_ = *Journal::On(loop_.get(), std::make_shared<FakeStore>());
  ASSERT_TRUE(master_->Lead(journal_.get(), [] { return true; }).ok());
  const auto add = [this](uint64_t life, uint32_t rank) -> TestAgent& {
    MasterClientOptions client;
    client.targets = {absl::StrCat("127.0.0.1:", port_)};
    client.secret = "the secret";
    client.job_id = "job";
    client.life = life;
    client.terms.nodes_min = client.terms.nodes_max = 2;
    Join join;
    join.life = life;
    join.hostname = absl::StrCat("host", rank);
    join.key = absl::StrCat("rank/", rank);
    join.key_is_exact = true;
    join.node_rank = static_cast<int32_t>(rank);
    join.workers = 1;
    join.store_port = static_cast<uint16_t>(4000 + life);
    join.hold = {absl::StrCat("hold of ", rank), life};
    return MasterFixture::AddAgent(std::move(client), std::move(join));
  };
  TestAgent& first = add(1, 0);
  TestAgent& second = add(2, 1);
  loop_.Until([&] { return first.running && second.running; }, "the round");
  Stop(first);
  Stop(second);
  TestAgent& third = add(3, 0);
  loop_.Until([&] { return !third.downs.empty() || !third.tries_failed.empty(); }, "the answer");
  EXPECT_THAT(third.downs.empty() ? third.tries_failed[0] : third.downs[0],
              HasSubstr("the job 'job' before this one is being stopped"));
  TestAgent& fourth = add(4, 1);
  loop_.Until([&] { return third.running && fourth.running; }, "the next job's round");
  EXPECT_THAT(ended_, ElementsAre("job 1"));
  EXPECT_THAT(rounds_, ElementsAre("job 2 on 2", "job 2 on 2"));
}

// As torchrun's closed rendezvous; who was there at the end, and types it again, means another job.
TEST_F(DaemonJobs, ALateNodeOfAnElasticJobThatEndedWellHearsOfThat) {
  const auto add = [this](uint64_t life, uint64_t host) -> TestAgent& {
    MasterClientOptions client;
    client.targets = {absl::StrCat("127.0.0.1:", port_)};
    client.secret = "the secret";
    client.job_id = "job";
    client.life = life;
    client.terms.nodes_max = 2;
    client.terms.last_call = absl::ZeroDuration();
    Join join;
    join.life = life;
    join.hostname = absl::StrCat("host", host);
    join.key = "host/" + join.hostname;
    join.workers = 1;
    join.store_port = 4000;
    return MasterFixture::AddAgent(std::move(client), std::move(join));
  };
  TestAgent& first = add(1, 1);
  loop_.Until([&] { return first.running; }, "the round");
  first.EndWell();
  loop_.Until([&] { return first.end; }, "the end");
  Stop(first);
  loop_.Until([&] { return !ended_.empty(); }, "the end, as the master sees it");
  TestAgent& late = add(2, 2);
  loop_.Until([&] { return late.end; }, "the end, as the late one hears");
  EXPECT_EQ(late.directives.back().outcome.exit_code, 0);
  EXPECT_THAT(late.notices, ElementsAre("the job has ended well before host2 came: nothing runs "
                                        "here (to run it again, give another --rdzv-id)"));
  EXPECT_THAT(rounds_, ElementsAre("job 1 on 1"));
  TestAgent& again = add(3, 1);
  loop_.Until([&] { return again.running; }, "the next job's round");
  EXPECT_THAT(rounds_, ElementsAre("job 1 on 1", "job 1 on 1"));
}

// Each round begins the file anew.
TEST_F(DaemonJobs, AJournalThatWasLostIsWrittenAgainWithTheNextRound) {
  const auto store = std::make_shared<FakeStore>();
  store->answer = absl::ResourceExhaustedError("it is full");
  journal_ = *Journal::On(loop_.get(), store);
  ASSERT_TRUE(master_->Lead(journal_.get(), [] { return true; }).ok());
  TestAgent& agent = AddAgent(1, 1);
  loop_.Until([&] { return agent.running && !agent.notices.empty(); },
              "the loss, as its user hears");
  EXPECT_THAT(agent.notices,
              ElementsAre("this job can no longer survive a master restart: it is full"));
  for (size_t round = 2; round <= 4; ++round) {
    loop_.Until([&] { return journal_->idle(); }, "the store");
    store->answer = round == 2 ? store->answer : absl::OkStatus();
    master_->Post("job", RestartAsked{1});
    loop_.Until([&] { return rounds_.size() == round && agent.running; }, "the next round");
  }
  loop_.Until([&] { return agent.notices.size() == 2; }, "the news");
  EXPECT_EQ(agent.notices[1], "this job can survive a master restart again");
  EXPECT_THAT(told_, Contains("job: " + agent.notices[0]).Times(1));
  EXPECT_THAT(told_, Contains("job: " + agent.notices[1]).Times(1));
}

}  // namespace
}  // namespace muster
