// Who seeks, and what he seeks, may end at any time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <vector>

#include "tests/agent/io/peer_doors_test.h"

namespace muster {
namespace {

TEST_F(PeerDoorTest, WhoSeeksAWorkerThatHasEndedIsTold) {
  BeginBoth();
  const PeerPair one = {0, 0, 2};
  const PeerPair other = {1, 1, 2};
  for (const PeerPair& pair : {one, other, PeerPair{0, 0, 3}}) {
    a_.Seek(pair);
  }
  b_.Seek({0, 2, 0});
  EXPECT_EQ(a_.door->Awaited(8), (std::vector<Rank>{{2}, {3}}));
  EXPECT_EQ(a_.door->Awaited(1), (std::vector<Rank>{{2}}));
  EXPECT_EQ(a_.door->Awaited(1), (std::vector<Rank>{{3}}));
  EXPECT_EQ(a_.door->Awaited(1), (std::vector<Rank>{{2}}));
  a_.door->Gone(Rank{2});
  a_.door->Gone(Rank{2});
  EXPECT_EQ(a_.Refusal(one), "rank 2 has ended");
  EXPECT_EQ(a_.Refusal(other), "rank 2 has ended");
  EXPECT_EQ(a_.results.size(), 2u);
  EXPECT_EQ(a_.door->Awaited(8), (std::vector<Rank>{{3}}));
  b_.door->Gone(Rank{0});
  EXPECT_EQ(b_.Refusal({0, 2, 0}), "rank 0 has ended");
  EXPECT_TRUE(b_.door->Awaited(8).empty());
}

TEST_F(PeerDoorTest, ForgottenSeeksAreNotAnswered) {
  BeginBoth();
  a_.Seek({0, 0, 2});
  a_.Seek({0, 1, 2});
  a_.Seek({1, 0, 2});
  b_.Seek({0, 2, 0});
  a_.door->Found(B());
  a_.door->Forget(0, Rank{0});
  b_.gone.insert({0, 2});
  b_.door->Forget(0, Rank{2});
  b_.Seek({1, 2, 0});
  ASSERT_TRUE(RunUntil([&] { return a_.Has({1, 0, 2}) && b_.Has({1, 2, 0}); }));
  EXPECT_EQ(a_.results.size(), 1u) << "rank 2 has closed the communicator that rank 1 seeks";
  EXPECT_EQ(b_.results.size(), 1u);
  // What is held goes with its worker.
  const UniqueFd held = ConnectTo(port_);
  Prove(held, {RoundId{1, kRound}.Token(), 7, 0, 3});
  ASSERT_TRUE(RunUntil([&] { return b_.door->held() == 1; }));
  b_.door->ForgetAll(Rank{3});
  EXPECT_TRUE(RunUntilClosed(held));
}

TEST_F(PeerDoorTest, WithoutDescriptorsItWaitsAndGoesOn) {
  BeginBoth();
  const UniqueFd client = ConnectTo(port_);
  uv_loop_t* const loop = &loop_;  // UBSan looks at `this` with the help of a descriptor
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  const UniqueFd next(dup(0));
  none.rlim_cur = static_cast<rlim_t>(next.get()) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (int i = 0; i < 10; ++i) {
    uv_run(loop, UV_RUN_NOWAIT);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(b_.door->unproven(), 0u);
  EXPECT_TRUE(RunUntil([&] { return b_.door->unproven() == 1; }));
}
}  // namespace
}  // namespace muster
