// What the ranks know of the program when they have come together again.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/rng.h"
#include "tests/agent/io/reform_fixture.h"

namespace muster {
namespace {

// Rank 0 dies, and rank 2 is one step behind the others.
TEST_F(ReformTest, WhatIsCommittedIsAgreedAndTheStateIsGivenOn) {
  Start(2, [] {
    StatusOr<Communicator> comm = Communicator::FromEnvironment();
    if (!comm.ok()) {
      return Fail(comm.status());
    }
    std::vector<int64_t> state(100'000, -1);
    int64_t step = -1;
    if (!comm->is_replacement()) {
      step = comm->rank() == 2 ? 4 : 5;
      Status status = comm->Barrier();
      if (!status.ok() || comm->Commit(-1).code() != StatusCode::kInvalidArgument ||
          !comm->Commit(step).ok()) {
        return kFailed;
      }
      if (comm->rank() == 0) {
        Die();
      }
      comm = Next(*comm, comm->Barrier());
      if (!comm.ok()) {
        return Fail(comm.status());
      }
      step = comm->agreed().committed;
      state.assign(state.size(), comm->rank());
    }
    const Status given = comm->BroadcastState(
        {StateOf(state.data(), static_cast<int64_t>(state.size())), StateOf(&step, 1)});
    if (!given.ok() || comm->BroadcastState({}).code() != StatusCode::kInvalidArgument) {
      return Fail(given);
    }
    Say(absl::StrCat("step ", step, " of rank ", state.front(), state.back(), ";"));
    return End(*comm);
  });
  RunToEnd();
  for (const auto& [rank, said] : said_) {
    EXPECT_EQ(said, absl::StrCat("step 4 of rank 11;completed 1 started 2 committed 4..5 holder 1 "
                                 "last 4",
                                 rank == 0 ? " new;" : ";"));
  }
}

// What the agent reads of it is there also when the workers are gone; groups count nothing.
TEST_F(ReformTest, StepsAreCounted) {
  Start(1, [] {
    StatusOr<Communicator> comm = Communicator::FromEnvironment();
    for (int64_t step = 10; comm.ok() && step < 14; ++step) {
      const Status status = comm->Barrier();
      if (!status.ok() || !comm->Commit(step).ok()) {
        return Fail(status);
      }
    }
    return comm.ok() ? End(*comm) : Fail(comm.status());
  });
  RunToEnd();
  EXPECT_EQ(nodes_[0].door->Steps().steps, 3u);
  EXPECT_GT(nodes_[0].door->Steps().took, absl::ZeroDuration());
  nodes_[0].door->EndRound();
  EXPECT_EQ(nodes_[0].door->Steps().steps, 3u);
}

// A newcomer that was given the state is as good as the others.
TEST_F(ReformTest, WhoWasANewcomerMaySurvive) {
  Start(1, [] {
    StatusOr<Communicator> comm = Communicator::FromEnvironment();
    for (int64_t step = 0; comm.ok(); ++step) {
      const bool is_new = comm->is_replacement();
      if (Status status = comm->BroadcastState({StateOf(&step, 1)}); !status.ok()) {
        return Fail(status);
      }
      if (step == 2) {
        return End(*comm);
      }
      if (step == 1 && is_new) {
        (void)comm->Commit(step);
      }
      if (comm->rank() == (step == 0 ? 1 : 0)) {
        Die();
      }
      comm = Next(*comm, comm->Barrier());
      if (comm.ok() && is_new) {
        Say(absl::StrCat("committed ", comm->agreed().committed, ";"));
      }
    }
    return Fail(comm.status());
  });
  RunToEnd();
  EXPECT_EQ(said_[0], "completed 3 started 4 committed 1..1 holder 1 last 6 new;");
  EXPECT_EQ(said_[1], "committed 1;completed 3 started 4 committed 1..1 holder 1 last 6;");
}

// The example, whose ranks are killed at any time; the loss lines of rank 0, each of which may come
// twice.
class ElasticSgdTest : public ReformTest {
 protected:
  static constexpr int kSteps = 2000;

  // `kills`: spread over the steps.
  std::vector<std::string> Lines(uint32_t kills) {
    Start(2, [] {
      execl(ELASTIC_SGD, ELASTIC_SGD, std::to_string(kSteps).c_str(), nullptr);
      return kFailed;
    });
    SplitMix64 chance(17);
    uint32_t killed = 0;
    EXPECT_TRUE(RunUntil([&] {
      const bool all = Tend();
      const auto lines = std::count(said_[0].begin(), said_[0].end(), '\n');
      if (killed < kills && lines > (killed + 1) * kSteps / 10 / (kills + 2)) {
        ++killed;
        kill(workers_[static_cast<uint32_t>(chance.Below(4))].pid, SIGKILL);
      }
      return all;
    })) << Everything();
    EXPECT_EQ(killed, kills);
    for (const auto& [rank, worker] : workers_) {
      EXPECT_EQ(worker.code, 0) << Everything();
    }
    std::vector<std::string> lines = absl::StrSplit(said_[0], '\n');
    lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
    return lines;
  }
};

TEST_F(ElasticSgdTest, LossLinesHaveTheSameBitsWhoeverIsKilled) {
  const std::vector<std::string> undisturbed = Lines(0);
  EXPECT_EQ(undisturbed.size(), kSteps / 10 + 1);  // the last one is empty
  Clear();
  EXPECT_EQ(Lines(12), undisturbed);
  EXPECT_GT(round_, 7u + 6);  // two may have died in one
}

}  // namespace
}  // namespace muster
