// How survivors and newcomers come together again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/agent/io/reform_fixture.h"

namespace muster {
namespace {

using testing::HasSubstr;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Three calls; the rank dies before the third one.
int ThreeCalls(int dies) {
  StatusOr<Communicator> comm = Communicator::FromEnvironment();
  if (!comm.ok()) {
    return Fail(comm.status());
  }
  if (!comm->is_replacement()) {
    Status status = Reduce(*comm);
    if (status.ok()) {
      status = Reduce(*comm);
    }
    if (!status.ok()) {
      return Fail(status);
    }
    if (comm->rank() == dies) {
      Die();
    }
    comm = Next(*comm, Reduce(*comm));
    if (!comm.ok()) {
      return Fail(comm.status());
    }
  }
  return End(*comm);
}

class ReformNodesTest : public ReformTest, public testing::WithParamInterface<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Nodes, ReformNodesTest, testing::Values(1, 2));

TEST_P(ReformNodesTest, SurvivorsAndTheNewcomerMeetAndAgree) {
  const auto last = static_cast<int>(2 * GetParam() - 1);
  Start(GetParam(), [last] { return ThreeCalls(last); });
  RunToEnd();
  for (const auto& [rank, said] : said_) {
    EXPECT_EQ(said, absl::StrCat("completed 2 started 3 committed -1..-1 holder 0 last 4",
                                 static_cast<int>(rank) == last ? " new;" : ";"));
  }
}

TEST_P(ReformNodesTest, TheFirstRankCanBeLostToo) {
  Start(GetParam(), [] { return ThreeCalls(0); });
  RunToEnd();
  EXPECT_EQ(said_[0], "completed 2 started 3 committed -1..-1 holder 1 last 4 new;");
  EXPECT_EQ(said_[1], "completed 2 started 3 committed -1..-1 holder 1 last 4;");
}

// The newcomer dies before it has come, and a survivor as it learns of the first death.
TEST_P(ReformNodesTest, MoreDeathsMeanwhileAreFollowedToTheRoundAfter) {
  const auto last = static_cast<int>(2 * GetParam() - 1);
  Start(GetParam(), [last] {
    if (Variable("LIFE") == "1" && Variable("MUSTER_RANK") == std::to_string(last)) {
      Die();
    }
    StatusOr<Communicator> comm = Communicator::FromEnvironment();
    if (!comm.ok()) {
      return Fail(comm.status());
    }
    if (!comm->is_replacement()) {
      if (comm->rank() == last) {
        Die();
      }
      const Status status = Reduce(*comm);
      if (comm->rank() == 0) {
        Die();
      }
      comm = Next(*comm, status);
      if (!comm.ok()) {
        return Fail(comm.status());
      }
    }
    return End(*comm);
  });
  RunToEnd();
  EXPECT_EQ(lives_[0], 2u);
  EXPECT_EQ(lives_[static_cast<uint32_t>(last)], 3u);
  // With one node nobody is left who has the state.
  const std::string agreed = GetParam() == 1
                                 ? "completed 0 started 0 committed -1..-1 holder -1 last 1"
                                 : "completed 0 started 1 committed -1..-1 holder 1 last 2";
  for (const auto& [rank, said] : said_) {
    const bool is_new = rank == 0 || static_cast<int>(rank) == last;
    EXPECT_EQ(said, agreed + (is_new ? " new;" : ";")) << rank;
  }
}

// Ranks that wait for nobody but each other.
TEST_F(ReformTest, WaitsForALivingRankEndToo) {
  Start(2, [] {
    StatusOr<Communicator> comm = Communicator::FromEnvironment();
    if (!comm.ok()) {
      return Fail(comm.status());
    }
    if (!comm->is_replacement()) {
      if (comm->rank() == 3) {
        Die();
      }
      std::vector<char> data(1 << 20);
      const int other = (comm->rank() + 1) % 3;
      const Status status =
          comm->Recv(data.data(), static_cast<int64_t>(data.size()), DType::kInt8, other);
      if (comm->rank() == 0) {
        Say(status.ToString() + ";");
      }
      const Status late = comm->Send(data.data(), 1, DType::kInt8, other);
      comm = Next(*comm, status);
      if (!comm.ok() || late.code() == StatusCode::kFailedPrecondition) {
        return Fail(comm.ok() ? late : comm.status());
      }
    }
    return End(*comm);
  });
  RunToEnd();
  EXPECT_THAT(said_[0], HasSubstr("a worker of another node has ended, and this round with it"));
  EXPECT_EQ(said_[3], "completed 0 started 0 committed -1..-1 holder 0 last 1 new;");
}

TEST_F(ReformTest, AGroupEndsWithItsRound) {
  Start(2, [] {
    StatusOr<Communicator> comm = Communicator::FromEnvironment();
    if (!comm.ok()) {
      return Fail(comm.status());
    }
    if (!comm->is_replacement()) {
      StatusOr<std::optional<Communicator>> group = comm->Split(comm->rank() == 3 ? 1 : 0);
      if (!group.ok()) {
        return Fail(group.status());
      }
      // Rank 3 dies when all have their group.
      char word = 0;
      for (int rank = 0; rank < 3; ++rank) {
        if (comm->rank() == 3) {
          (void)comm->Recv(&word, 1, DType::kInt8, rank);
        } else if (comm->rank() == rank) {
          (void)comm->Send(&word, 1, DType::kInt8, 3);
        }
      }
      if (comm->rank() == 3) {
        Die();
      }
      if (comm->rank() == 2) {  // for whom the group waits
        const Status status = comm->Barrier();
        comm = Next(*comm, status);
      } else {
        const Status status = (*group)->Barrier();
        if ((*group)->Reform().status().code() != StatusCode::kFailedPrecondition ||
            (*group)->Commit(1).code() != StatusCode::kFailedPrecondition) {
          return kFailed;
        }
        comm = Next(*comm, status);
      }
      if (!comm.ok()) {
        return Fail(comm.status());
      }
    }
    return End(*comm);
  });
  RunToEnd();
  EXPECT_EQ(said_[0], "completed 1 started 2 committed -1..-1 holder 0 last 3;");
  EXPECT_EQ(said_[3], "completed 1 started 2 committed -1..-1 holder 0 last 3 new;");
}

TEST_F(ReformTest, WhereNoRoundFollowsThatIsSaid) {
  may_follow_ = false;
  Start(1, [] {
    StatusOr<Communicator> comm = Communicator::FromEnvironment();
    if (!comm.ok()) {
      return Fail(comm.status());
    }
    if (comm->rank() == 1) {
      Die();
    }
    return Fail(Next(*comm, comm->Barrier()).status());
  });
  RunToEnd();
  EXPECT_THAT(said_[0], HasSubstr("UNAVAILABLE: no round follows that keeps this worker"));
  EXPECT_EQ(workers_[0].code, kFailed);
}

TEST_F(ReformTest, AStopEndsTheWait) {
  Start(1, [] {
    StatusOr<Communicator> comm = Communicator::FromEnvironment();
    if (!comm.ok()) {
      return Fail(comm.status());
    }
    Say("here;");
    StatusOr<Communicator> next = comm->Reform();
    const Status after = comm->Barrier();
    return Fail(next.ok() || after.ok() ? Status() : next.status());
  });
  ASSERT_TRUE(RunUntil([&] {
    (void)Tend();
    return said_[0] == "here;" && said_[1] == "here;";
  }));
  nodes_[0].door->LetFollow(false);
  ASSERT_TRUE(RunUntil([&] { return Tend(); }));
  for (const auto& [rank, said] : said_) {
    EXPECT_THAT(said, HasSubstr("UNAVAILABLE: ")) << rank;
  }
}

TEST_F(ReformTest, TheTimeoutEndsTheWaitAndReformMayBeCalledAgain) {
  Start(1, [] {
    StatusOr<Communicator> comm = Communicator::FromEnvironment();
    if (!comm.ok()) {
      return Fail(comm.status());
    }
    if (comm->is_replacement()) {
      return End(*comm);
    }
    if (comm->rank() == 1) {
      (void)comm->Barrier();  // rank 0 has left
      Die();
    }
    comm->SetTimeout(std::chrono::milliseconds(1));
    StatusOr<Communicator> next = comm->Reform();
    Say(next.status().ToString() + ";");
    comm->SetTimeout(std::chrono::nanoseconds::zero());
    next = comm->Reform();
    return next.ok() ? End(*next) : Fail(next.status());
  });
  RunToEnd();
  EXPECT_THAT(said_[0], HasSubstr("reform on rank 0: no round has followed within 1 ms"));
  EXPECT_THAT(said_[0], HasSubstr("holder 0 last 1;"));
}

}  // namespace
}  // namespace muster
