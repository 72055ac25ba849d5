#include "rendezvous/etcd/leadership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>

#include "tests/rendezvous/etcd/fake_etcd.h"

namespace muster {
namespace {

using testing::HasSubstr;

constexpr char kLeader[] = "/muster/x/lead/leader";
constexpr LeaderConfig kQuick = {absl::Seconds(2), absl::Milliseconds(20)};

// A master, as far as its leadership goes.
class Candidate {
 public:
  Candidate(const std::string& member, const std::string& name, uint32_t epoch_min = 1)
      : leadership_({{member}, "x"}, name, epoch_min,
                    {[this](const LeadRight& right) { led_.set_value(right); },
                     [this] { lost_.set_value(); },
                     [this](const std::string& who) {
                       if (!told_) {
                         told_ = true;
                         waits_.set_value(who);
                       }
                     },
                     [this](const std::string& what) { few_named_.set_value(what); }},
                    kQuick),
        thread_([this] { leadership_.Run(); }) {}
  ~Candidate() { Stop(); }
  void Stop() {
    leadership_.Stop();
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  bool Leads() const { return leadership_.Leads(); }
  LeadRight Led() { return led_.get_future().get(); }
  std::string Waits() { return waits_.get_future().get(); }
  void Lost() { lost_.get_future().get(); }
  bool LostWithin(absl::Duration time) {
    return lost_.get_future().wait_for(absl::ToChronoMilliseconds(time)) ==
           std::future_status::ready;
  }
  std::string FewNamed() { return few_named_.get_future().get(); }

 private:
  std::promise<LeadRight> led_;
  std::promise<void> lost_;
  std::promise<std::string> waits_;
  std::promise<std::string> few_named_;
  bool told_ = false;
  Leadership leadership_;
  std::thread thread_;
};

TEST(Leadership, TheSecondWaitsForTheFirstAndHasAHigherEpoch) {
  FakeEtcd etcd;
  Candidate first(etcd.member(), "h1:29400");
  EXPECT_EQ(first.Led().epoch, 1U);
  Candidate second(etcd.member(), "h2:29400");
  EXPECT_EQ(second.Waits(), "h1:29400 leads");
  first.Stop();  // gives the lead back
  EXPECT_EQ(second.Led().epoch, 2U);
}

TEST(Leadership, EndsWithItsLeaseAndAnotherLeads) {
  FakeEtcd etcd;
  Candidate first(etcd.member(), "h1:29400");
  const LeadRight before = first.Led();
  etcd.EndLease(etcd.LeaseOf(kLeader));
  first.Lost();
  EXPECT_FALSE(first.Leads());
  Candidate second(etcd.member(), "h2:29400");
  const LeadRight now = second.Led();
  EXPECT_EQ(now.epoch, 2U);
  // What the first one writes now does not happen.
  EtcdClient late({{etcd.member()}, "x"});
  EXPECT_EQ(*late.Change({{before.guard}, {{"/k", "v", 0}}, {}}, absl::Seconds(5)), 0);
  EXPECT_GT(*late.Change({{now.guard}, {{"/k", "v", 0}}, {}}, absl::Seconds(5)), 0);
}

TEST(Leadership, KnowsItselfWhereTheAnswerWasLost) {
  FakeEtcd etcd;
  etcd.LoseAnswers(1);
  Candidate first(etcd.member(), "h1:29400");
  const LeadRight right = first.Led();
  EXPECT_EQ(right.epoch, 1U);
  EtcdClient client({{etcd.member()}, "x"});
  EXPECT_GT(*client.Change({{right.guard}, {{"/k", "v", 0}}, {}}, absl::Seconds(5)), 0);
}

TEST(Leadership, BeginsWithTheEpochItIsTold) {
  FakeEtcd etcd;
  Candidate first(etcd.member(), "h1:29400", 100);
  EXPECT_EQ(first.Led().epoch, 100U);
  EXPECT_TRUE(first.Leads());
  first.Stop();
  Candidate second(etcd.member(), "h2:29400", 7);
  EXPECT_EQ(second.Led().epoch, 101U);
}

TEST(Leadership, SaysThatEtcdIsAway) {
  Candidate alone("127.0.0.1:1", "h1:29400");
  EXPECT_THAT(alone.Waits(), HasSubstr("127.0.0.1:1"));
}

TEST(Leadership, NamesAnEpochThatIsNone) {
  FakeEtcd etcd;
  EtcdClient client({{etcd.member()}, "x"});
  ASSERT_TRUE(
      client.Change({{}, {{"/muster/x/lead/epoch", "seven", 0}}, {}}, absl::Seconds(5)).ok());
  Candidate first(etcd.member(), "h1:29400");
  EXPECT_THAT(first.Waits(), HasSubstr("/muster/x/lead/epoch holds 'seven'"));
}

TEST(Leadership, GoesOnWhereNoMemberRuns) {
  auto etcd = std::make_unique<FakeEtcd>();
  Candidate first(etcd->member(), "h1:29400");
  first.Led();
  etcd.reset();
  EXPECT_FALSE(first.LostWithin(2 * kQuick.lease));
}

TEST(Leadership, EndsWithItsLeaseWhereAMemberRunsThatWasNotNamed) {
  auto named = std::make_unique<FakeEtcd>();
  const FakeEtcd other;
  named->ListMembers({{"http://" + named->member()}, {"https://" + other.member()}});
  Candidate first(named->member(), "h1:29400");
  first.Led();
  EXPECT_THAT(first.FewNamed(), HasSubstr("--rdzv-store names 1 of the 2 members of etcd"));
  named.reset();
  EXPECT_TRUE(first.LostWithin(2 * kQuick.lease));
}

TEST(Leadership, EndsWithItsLeaseWhereAMemberCannotBeAsked) {
  auto etcd = std::make_unique<FakeEtcd>();
  etcd->ListMembers({{"http://" + etcd->member()}, {}});
  Candidate first(etcd->member(), "h1:29400");
  first.Led();
  etcd.reset();
  EXPECT_TRUE(first.LostWithin(2 * kQuick.lease));
}

}  // namespace
}  // namespace muster
