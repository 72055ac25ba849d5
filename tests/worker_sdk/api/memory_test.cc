// What a program sees where memory runs out in a call, in a world of one.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "muster/communicator.h"
#include "tests/worker_sdk/scarce_memory.h"

namespace muster {
namespace {

constexpr DType kType = DType::kFloat32;

class MemoryTest : public testing::Test {
 protected:
  using Made = std::function<Status(Communicator&)>;
  // Whichever allocation of `call` fails: it throws nothing, and after it nothing succeeds.
  static void ExpectNoException(const Made& call, bool goes_on = false) {
    for (const bool all : {false, true}) {
      bool failed = true;
      for (int first = 0; failed; ++first) {
        unsetenv("MUSTER_RANK");
        StatusOr<Communicator> comm = Communicator::FromEnvironment();
        ASSERT_TRUE(comm.ok());
        Status status;
        Status next;
        {
          const ScarceMemory scarce(first, all);
          status = call(*comm);
          next = comm->Barrier();
        }
        failed = ScarceMemory::has_failed();
        if (!status.ok()) {
          EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.ToString();
        }
        if (!status.ok() && !(goes_on && next.ok())) {
          EXPECT_EQ(next.code(), StatusCode::kResourceExhausted) << first;
          EXPECT_EQ(comm->Barrier().code(), StatusCode::kResourceExhausted) << first;
        }
      }
    }
  }
  static inline float in[4] = {1, 2, 3, 4};
  static inline float out[4] = {};
  static constexpr int64_t kCounts[1] = {4};
};

TEST_F(MemoryTest, OfCallsThatBlock) {
  ExpectNoException(
      [](Communicator& comm) { return comm.AllReduce(in, out, 4, kType, ReduceOp::kSum); });
  ExpectNoException(
      [](Communicator& comm) { return comm.AllToAllV(in, kCounts, out, kCounts, kType); });
  static const std::vector<StateBuffer> state = {StateOf(in, 4)};
  ExpectNoException([](Communicator& comm) { return comm.BroadcastState(state); });
}

// Where it is the group that has none, its parent goes on.
TEST_F(MemoryTest, OfSplit) {
  ExpectNoException([](Communicator& comm) { return comm.Split(0).status(); }, /*goes_on=*/true);
}

TEST_F(MemoryTest, OfCallsThatAreStarted) {
  ExpectNoException([](Communicator& comm) {
    return comm.AllReduceAsync(in, out, 4, kType, ReduceOp::kSum).Wait();
  });
  ExpectNoException([](Communicator& comm) {
    return comm.AllToAllVAsync(in, kCounts, out, kCounts, kType).Wait();
  });
}

TEST_F(MemoryTest, OfNothingThatBegins) {
  unsetenv("MUSTER_RANK");
  bool failed = true;
  for (int first = 0; failed; ++first) {
    bool made = false;
    {
      const ScarceMemory scarce(first, /*all=*/true);
      made = Communicator::FromEnvironment().ok();
    }
    failed = ScarceMemory::has_failed();
    EXPECT_TRUE(made || failed);
  }
}

// What has not come may come later, but nothing is lost without a word.
TEST_F(MemoryTest, OfMessages) {
  bool failed = true;
  for (int first = 0; failed; ++first) {
    StatusOr<Communicator> comm = Communicator::FromEnvironment();
    ASSERT_TRUE(comm.ok());
    comm->SetTimeout(std::chrono::seconds(10));
    out[3] = 0;
    Status sent;
    Status got;
    {
      const ScarceMemory scarce(first, /*all=*/false);
      Work receive = comm->RecvAsync(out, 4, kType, 0, 1);
      sent = comm->Send(in, 4, kType, 0, 1);
      got = receive.Wait();
    }
    failed = ScarceMemory::has_failed();
    for (const Status& status : {sent, got}) {
      EXPECT_TRUE(status.ok() || status.code() == StatusCode::kResourceExhausted)
          << first << ": " << status.ToString();
    }
    EXPECT_EQ(got.ok(), out[3] == 4) << first;
    EXPECT_TRUE(failed || (sent.ok() && got.ok()));
  }
}

// Held up at each point where it frees memory, also behind its last look at the others.
struct HeldUp {
  std::atomic<bool> there{false};
  std::atomic<bool> may_go{false};
  static void Work(void* of) {
    auto* const it = static_cast<HeldUp*>(of);
    it->there = true;
    it->there.notify_all();
    it->may_go.wait(false);
  }
};

// The others hear of it, wherever the call that another thread makes has come to by then.
TEST_F(MemoryTest, RunsOutWhileAnotherThreadsCallEnds) {
  unsetenv("MUSTER_RANK");
  bool held = true;
  for (int number = 0; held; ++number) {
    StatusOr<Communicator> comm = Communicator::FromEnvironment();
    ASSERT_TRUE(comm.ok());
    HeldUp at;
    std::thread first([&] {
      const AtFree at_free(number, HeldUp::Work, &at);
      (void)comm->AllToAllV(in, kCounts, out, kCounts, kType);
      held = !at.there.exchange(true) ? false : held;
      at.there.notify_all();
    });
    at.there.wait(false);
    Status second_got;
    std::thread second([&] {
      const ScarceMemory scarce(0, /*all=*/true);
      second_got = comm->AllToAllV(in, kCounts, out, kCounts, kType);
    });
    const bool is_inside = comm->Barrier().code() != StatusCode::kOk;
    for (Status third; is_inside && third.code() != StatusCode::kResourceExhausted;) {
      third = comm->Barrier();
    }
    at.may_go = true;
    at.may_go.notify_all();
    first.join();
    second.join();
    EXPECT_EQ(second_got.code(), StatusCode::kResourceExhausted) << number;
    const uint64_t before = comm->last_call();
    EXPECT_EQ(comm->Barrier().code(), StatusCode::kResourceExhausted) << number;
    EXPECT_EQ(comm->last_call(), before) << "it had not ended before: " << number;
  }
}

TEST(CommunicatorMoves, ToItselfKeepsIt) {
  unsetenv("MUSTER_RANK");
  StatusOr<Communicator> comm = Communicator::FromEnvironment();
  ASSERT_TRUE(comm.ok());
  Communicator& same = *comm;
  *comm = std::move(same);
  EXPECT_EQ(comm->size(), 1);
  EXPECT_TRUE(comm->Barrier().ok());
  const StatusOr<Communicator>& looked_at = comm;
  EXPECT_EQ(looked_at->rank() + (*looked_at).rank(), 0);
}

}  // namespace
}  // namespace muster
