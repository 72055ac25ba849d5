// The door and the SDK's side of the link, one against the other: the loop here, workers as
// threads.
#include "agent/io/worker_door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/agent/io/loop_test.h"
#include "worker_sdk/bootstrap/agent_link.h"
#include "worker_sdk/transport/arena.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::chrono::milliseconds kPatience{kHangMs};

using LinkOr = StatusOr<std::unique_ptr<AgentLink>>;

class WorkerDoorTest : public TickingLoopTest {
 protected:
  WorkerDoorTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
    outside_.Reset(ends[1]);
    door_ = std::make_unique<WorkerDoor>(&loop_, UniqueFd(ends[0]), 4);
    assignment_.round = {1, 7};
    assignment_.rank_first = Rank{4};
    assignment_.workers = 2;
    assignment_.nodes = 3;
    assignment_.world_size = 6;
    assignment_.node_rank = NodeRank{2};
    assignment_.layout = {{2, 3}};
    door_->BeginRound(assignment_);
  }
  ~WorkerDoorTest() override { door_.reset(); }

  WorkerIdentity Me(uint32_t rank) const {
    WorkerIdentity me;
    me.launched = true;
    me.rank = rank;
    me.size = 6;
    me.local_rank = rank - 4;
    me.local_size = 2;
    me.nodes = 3;
    me.round = assignment_.round.Token();
    me.agent_fd = outside_.get();
    return me;
  }
  LinkOr Open(const WorkerIdentity& me) {
    std::optional<LinkOr> out;
    std::atomic<bool> done = false;
    std::thread worker([&] {
      out.emplace(AgentLink::Open(me, kPatience));
      done = true;
    });
    EXPECT_TRUE(RunUntil([&] { return done.load(); }));
    worker.join();
    return *std::move(out);
  }
  static std::vector<uint32_t> RanksHere(const AgentLink& link) {
    StatusOr<Layout> layout = link.ReadLayout();
    EXPECT_TRUE(layout.ok()) << layout.status().ToString();
    return {layout->RankOf(2, 0), layout->RankOf(2, 1)};
  }
  std::unique_ptr<Arena> Map(const AgentLink& link, uint32_t place) {
    StatusOr<std::unique_ptr<Arena>> arena =
        Arena::Map(link.arena(), link.geometry(), place, RanksHere(link), {});
    EXPECT_TRUE(arena.ok()) << arena.status().ToString();
    return *std::move(arena);
  }
  // What `arena`'s rank learns when it waits for the other; OK while that lives.
  Status WaitsFor(Arena& arena, uint32_t place) {
    return arena.WaitFor(place, [this](uint32_t) {
      return tries_++ < 2 ? Status() : Status(StatusCode::kDeadlineExceeded, "still waiting");
    });
  }

  UniqueFd outside_;  // what workers inherit
  std::unique_ptr<WorkerDoor> door_;
  Assignment assignment_;
  int tries_ = 0;
};

TEST_F(WorkerDoorTest, WorkersOfANodeShareOneArena) {
  LinkOr first = Open(Me(4));
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  LinkOr second = Open(Me(5));
  ASSERT_TRUE(second.ok());
  EXPECT_THAT(RanksHere(**first), ElementsAre(4u, 5u));
  EXPECT_EQ((*first)->cpus(), 4u);
  const std::unique_ptr<Arena> one = Map(**first, 0);
  const std::unique_ptr<Arena> other = Map(**second, 1);
  *one->SlotNext(0) = 42;
  one->Publish();
  other->Publish();
  EXPECT_TRUE(WaitsFor(*other, 0).ok());
  EXPECT_EQ(*other->SlotNow(0), 42);
}

TEST_F(WorkerDoorTest, PlacesAreByRankWhateverTheLocalRanks) {
  assignment_.ranks = {5, 2};
  assignment_.ranks_by_node = {0, 1, 3, 4, 5, 2};
  assignment_.round.n = 8;
  door_->BeginRound(assignment_);
  LinkOr link = Open(Me(5));
  ASSERT_TRUE(link.ok());
  EXPECT_THAT(RanksHere(**link), ElementsAre(2u, 5u));
  const std::unique_ptr<Arena> arena = Map(**link, 1);
  arena->Publish();
  door_->WorkerEnded(LocalRank{1});  // rank 2, which never came
  EXPECT_EQ(WaitsFor(*arena, 0).message(), "rank 2 has died");
}

TEST_F(WorkerDoorTest, StrangersAreRefusedWithTheReason) {
  WorkerIdentity me = Me(4);
  me.round = 99;
  EXPECT_THAT(Open(me).status().message(), HasSubstr("rank 4 of round 99 is no worker"));
  me = Me(4);
  me.rank = 3;
  EXPECT_THAT(Open(me).status().message(), HasSubstr("rank 3"));
  me = Me(4);
  me.local_size = 3;
  EXPECT_EQ(Open(me).status().code(), StatusCode::kInternal);  // not the environment that was set
}

TEST_F(WorkerDoorTest, NonsenseAtTheDoorDisturbsNobody) {
  for (const std::string& bytes : {std::string(), std::string("x"), std::string(4000, '\xff'),
                                   std::string(sizeof(LinkHello), '\0')}) {
    ASSERT_EQ(send(outside_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  RunReady();
  EXPECT_TRUE(Open(Me(4)).ok());
}

TEST_F(WorkerDoorTest, ADeathIsSeenByTheOthers) {
  LinkOr link = Open(Me(4));
  ASSERT_TRUE(link.ok());
  const std::unique_ptr<Arena> arena = Map(**link, 0);
  arena->Publish();
  ASSERT_TRUE(Open(Me(5)).ok());  // comes, and closes its communicator
  RunReady();
  EXPECT_EQ(WaitsFor(*arena, 1).message(), "rank 5 has closed its communicator");
  // A child of the worker may hold its link for longer: the shepherd's word counts as well.
  LinkOr held = Open(Me(5));
  ASSERT_TRUE(held.ok());
  LinkOr again = Open(Me(4));
  ASSERT_TRUE(again.ok());
  const std::unique_ptr<Arena> next = Map(**again, 0);
  next->Publish();
  EXPECT_EQ(WaitsFor(*next, 1).code(), StatusCode::kDeadlineExceeded) << "it lives";
  door_->WorkerEnded(LocalRank{1});
  EXPECT_EQ(WaitsFor(*next, 1).message(), "rank 5 has died");
}

TEST_F(WorkerDoorTest, WhoDiedBeforeTheOthersCameIsMarkedToo) {
  door_->WorkerEnded(LocalRank{1});
  LinkOr link = Open(Me(4));
  ASSERT_TRUE(link.ok());
  const std::unique_ptr<Arena> arena = Map(**link, 0);
  arena->Publish();
  EXPECT_EQ(WaitsFor(*arena, 1).message(), "rank 5 has died");
}

TEST_F(WorkerDoorTest, WhomTheSdkBlamesIsToldWithTheEnd) {
  {
    LinkOr link = Open(Me(4));
    ASSERT_TRUE(link.ok());
    (*link)->Blame(2);
  }
  EXPECT_EQ(door_->WorkerEnded(LocalRank{0}), Rank{2});
}

TEST_F(WorkerDoorTest, ASecondCommunicatorHasAnArenaOfItsOwn) {
  std::optional<LinkOr> first(Open(Me(4)));
  ASSERT_TRUE(first->ok());
  const std::unique_ptr<Arena> old = Map(***first, 0);
  old->Publish();
  first.reset();
  RunReady();
  LinkOr second = Open(Me(4));
  ASSERT_TRUE(second.ok());
  const std::unique_ptr<Arena> fresh = Map(**second, 0);
  *fresh->SlotNext(0) = 1;
  EXPECT_EQ(*old->SlotNow(0), 0);
  EXPECT_TRUE(fresh->failure().ok());
}

TEST_F(WorkerDoorTest, AnAgentThatIsGoneIsNotWaitedFor) {
  door_.reset();
  EXPECT_EQ(Open(Me(4)).status().code(), StatusCode::kUnavailable);
  WorkerIdentity me = Me(4);
  me.agent_fd = 1 << 19;  // closed by a wrapper
  const LinkOr link = Open(me);
  EXPECT_EQ(link.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(link.status().message(), HasSubstr("MUSTER_AGENT_FD"));
}

}  // namespace
}  // namespace muster
