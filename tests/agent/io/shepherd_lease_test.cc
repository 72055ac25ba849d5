// The shepherd itself stands still, as when a scheduler suspends a job, and the lease ends
// meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "absl/strings/str_cat.h"
#include "agent/io/small_file.h"
#include "proto/base/clock.h"
#include "proto/base/limits.h"
#include "tests/agent/io/shepherd_fixture.h"

namespace muster {
namespace {

constexpr absl::Duration kShort = absl::Milliseconds(600);

bool Stands(pid_t pid) {
  const std::string status = ReadHead(absl::StrCat("/proc/", pid, "/status"), 4096);
  return status.find("State:\tT") != std::string::npos;
}

class ShepherdLeaseTest : public ShepherdTest {
 protected:
  // A worker, and what has left its group; then the lease ends while the shepherd stands still.
  void StandStill() {
    Start().SetProgram(Shell("setsid sleep 1000 & exec sleep 1000"));
    const absl::Time until = BootNow() + kShort;
    client_->SetLease(absl::ToUnixNanos(until));
    SpawnOn(0, output_);  // it has read the order before
    ASSERT_TRUE(RunUntil([this] { return Below().size() == 2; }));
    kill(client_->pid(), SIGSTOP);
    ASSERT_TRUE(RunUntil([until] { return BootNow() > until + absl::Milliseconds(50); }));
    kill(client_->pid(), SIGCONT);
    ASSERT_TRUE(RunUntil([this] { return AllStand(); }));
  }

  std::vector<pid_t> Below() const { return ProcessesBelow(client_->pid()); }
  bool AllStand() const {
    const std::vector<pid_t> all = Below();
    return all.size() == 2 && std::all_of(all.begin(), all.end(), Stands);
  }

  TestPipe output_ = MakePipe();
};

TEST_F(ShepherdLeaseTest, EverythingStandsStillUntilThereIsALaterOne) {
  StandStill();
  client_->SetLease(absl::ToUnixNanos(BootNow() - absl::Milliseconds(1)));  // from before
  for (const pid_t pid : Below()) {
    kill(pid, SIGCONT);  // whoever suspended the job wakes it one by one
  }
  ASSERT_TRUE(RunUntil([this] { return AllStand(); }));
  client_->SetLease(absl::ToUnixNanos(BootNow() + absl::Hours(1)));
  ASSERT_TRUE(RunUntil([this] {
    const std::vector<pid_t> all = Below();
    return all.size() == 2 && std::none_of(all.begin(), all.end(), Stands);
  }));
  EXPECT_EQ(lease_ended_, 0);
  EXPECT_TRUE(ends_.empty());
}

TEST_F(ShepherdLeaseTest, OrIsKilledALeaseLater) {
  StandStill();
  const absl::Time stands = BootNow();
  ASSERT_TRUE(RunUntil([this] { return lease_ended_ == 1; }));
  EXPECT_GT(BootNow(), stands + kShort / 2);
  EXPECT_EQ(WTERMSIG(ends_[0].wait_status), SIGKILL);
  EXPECT_TRUE(Below().empty());
}

// What stood still before, as a user or a debugger wanted it, is not woken.
TEST_F(ShepherdLeaseTest, WhoStoodStillBeforeIsNotWoken) {
  Start().SetProgram(Shell("exec sleep 1000"));
  SpawnOn(0, output_);
  SpawnOn(1, output_);
  ASSERT_TRUE(RunUntil([this] { return pids_.size() == 2; }));
  kill(pids_[0], SIGSTOP);
  ASSERT_TRUE(RunUntil([this] { return Stands(pids_[0]); }));
  client_->SetLease(absl::ToUnixNanos(BootNow() - absl::Seconds(1)));  // it was long under way
  ASSERT_TRUE(RunUntil([this] { return Stands(pids_[1]); }));
  client_->SetLease(absl::ToUnixNanos(BootNow() + absl::Hours(1)));
  ASSERT_TRUE(RunUntil([this] { return !Stands(pids_[1]); }));
  EXPECT_TRUE(Stands(pids_[0]));
}

// Nobody else would end its workers, in whose place others start soon after.
TEST_F(ShepherdLeaseTest, AShepherdThatDoesNotSeeTheEndIsKilledWithAllBelow) {
  Start().SetProgram(Shell("setsid sleep 1000 & exec sleep 1000"));
  client_->SetLease(absl::ToUnixNanos(BootNow() + kShort));
  SpawnOn(0, output_);
  ASSERT_TRUE(RunUntil([this] { return Below().size() == 2; }));
  const pid_t stopped = client_->pid();
  kill(stopped, SIGSTOP);
  ASSERT_TRUE(RunUntil([this] { return dead_ == 1; }));
  EXPECT_NE(client_->pid(), stopped);
  EXPECT_TRUE(Below().empty());
}

// It has nothing to do, and answers all the same.
TEST_F(ShepherdLeaseTest, OneThatSeesItIsNot) {
  Start().SetLease(absl::ToUnixNanos(BootNow() + kShort));
  client_->Ping();
  ASSERT_TRUE(RunUntil([this] { return lease_ended_ == 1; }));
  const absl::Time until = BootNow() + absl::Seconds(2);
  ASSERT_TRUE(RunUntil([until] { return BootNow() > until; }));
  EXPECT_EQ(dead_, 0);
}

}  // namespace
}  // namespace muster
