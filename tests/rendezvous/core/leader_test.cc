#include "rendezvous/core/leader.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

constexpr LeaderConfig kConfig = {absl::Seconds(5), absl::Seconds(1)};

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

LeaderState Leads(double since) {
  LeaderState state;
  OnGranted(kConfig, state, 7, At(since));
  OnTaken(kConfig, state, /*ours=*/true, At(since));
  return state;
}

TEST(Leader, AsksForALeaseThenForTheLead) {
  LeaderState state;
  EXPECT_EQ(NextAct(state, At(0)), LeaderAct::kGrant);
  OnGranted(kConfig, state, 7, At(0));
  EXPECT_EQ(NextAct(state, At(0.1)), LeaderAct::kTake);
  OnTaken(kConfig, state, /*ours=*/true, At(0.1));
  EXPECT_EQ(NextAct(state, At(0.2)), LeaderAct::kWait);
  EXPECT_TRUE(state.leads);
}

TEST(Leader, LooksAgainAndAgainWhileAnotherOneLeads) {
  LeaderState state;
  OnGranted(kConfig, state, 7, At(0));
  OnTaken(kConfig, state, /*ours=*/false, At(0.1));
  EXPECT_EQ(NextAct(state, At(1)), LeaderAct::kWait);
  EXPECT_EQ(state.ActAt(), At(1.1));
  EXPECT_EQ(NextAct(state, At(1.1)), LeaderAct::kTake);
}

TEST(Leader, RenewsTwiceBeforeTheEnd) {
  LeaderState state = Leads(0);
  EXPECT_EQ(NextAct(state, At(5.0 / 3)), LeaderAct::kKeepAlive);
  OnRenewed(kConfig, state, At(5.0 / 3));
  EXPECT_EQ(NextAct(state, At(2)), LeaderAct::kWait);
  EXPECT_EQ(state.lease_until, At(5.0 / 3) + absl::Seconds(5));
}

// E1: whatever the store has granted since, nobody told us.
TEST(Leader, IsLostFiveSecondsAfterTheLastRenewalWasSent) {
  LeaderState state = Leads(0);
  OnRenewed(kConfig, state, At(2));
  for (const double at : {3.0, 4.0, 5.0, 6.0, 6.9}) {
    OnRenewFailed(kConfig, state, /*gone=*/false, At(at));
    EXPECT_NE(NextAct(state, At(at)), LeaderAct::kLost) << at;
  }
  EXPECT_EQ(NextAct(state, At(7)), LeaderAct::kLost);
}

TEST(Leader, AnAnswerThatComesLateDoesNotShortenALease) {
  LeaderState state = Leads(10);
  OnRenewed(kConfig, state, At(8));
  EXPECT_EQ(state.lease_until, At(15));
}

// E2: it would have to begin anew, with all that it knew gone.
TEST(Leader, NeverLeadsAgain) {
  LeaderState state = Leads(0);
  OnRenewFailed(kConfig, state, /*gone=*/true, At(1));
  EXPECT_EQ(NextAct(state, At(1)), LeaderAct::kLost);
  EXPECT_EQ(NextAct(state, At(100)), LeaderAct::kLost);
  EXPECT_EQ(state.ActAt(), absl::InfiniteFuture());
}

TEST(Leader, OneThatOnlyWaitedAsksForAnotherLease) {
  LeaderState state;
  OnGranted(kConfig, state, 7, At(0));
  OnTaken(kConfig, state, /*ours=*/false, At(0));
  EXPECT_EQ(NextAct(state, At(6)), LeaderAct::kGrant);
  OnGrantFailed(kConfig, state, At(6));
  EXPECT_EQ(NextAct(state, At(6.5)), LeaderAct::kWait);
  EXPECT_EQ(NextAct(state, At(7)), LeaderAct::kGrant);
}

TEST(Leader, ACallEndsWithTheLease) {
  LeaderState state = Leads(0);
  EXPECT_EQ(ActLimit(kConfig, state, At(4)), absl::Seconds(1));
  EXPECT_EQ(ActLimit(kConfig, LeaderState(), At(4)), absl::Seconds(2));
}

TEST(Leader, ACallThatHangsLeavesTimeForAnother) {
  EXPECT_EQ(ActLimit(kConfig, Leads(0), At(1)), kConfig.lease / 3);
}

// E1: a store that is back gives every lease its whole length.
TEST(Leader, GoesOnWhileNoMemberOfTheStoreRuns) {
  LeaderState state = Leads(0);
  for (double at = 2; at < 60; at += 2) {
    OnRenewFailed(kConfig, state, /*gone=*/false, At(at));
    OnStoreDown(kConfig, state, At(at));
    EXPECT_EQ(NextAct(state, At(at)), LeaderAct::kWait) << at;
  }
  EXPECT_EQ(state.lease_until, At(63));
  EXPECT_EQ(NextAct(state, At(63)), LeaderAct::kLost);
}

TEST(Leader, IsNotBroughtBackByAStoreThatIsDown) {
  LeaderState late = Leads(0);
  OnStoreDown(kConfig, late, At(5));
  EXPECT_EQ(NextAct(late, At(5)), LeaderAct::kLost);
  LeaderState gone = Leads(0);
  OnRenewFailed(kConfig, gone, /*gone=*/true, At(1));
  OnStoreDown(kConfig, gone, At(1));
  EXPECT_EQ(NextAct(gone, At(1)), LeaderAct::kLost);
  LeaderState waits;
  OnGranted(kConfig, waits, 7, At(0));
  OnStoreDown(kConfig, waits, At(4));
  EXPECT_EQ(NextAct(waits, At(5)), LeaderAct::kGrant);
}

}  // namespace
}  // namespace muster
