#include "agent/core/torch_store.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/agent/core/torch_store_testing.h"

namespace muster {
namespace {

using testing_store::Bench;
using testing_store::Byte;
using testing_store::List;
using testing_store::Speak;
using testing_store::Str;
using testing_store::U32;
using testing_store::U64;

constexpr Speak kOld{.old = true};
constexpr Speak kNew{.old = false};

class BothDialects : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    for (uint64_t id : {1u, 2u, 3u}) {
      bench.Open(id);
      EXPECT_EQ(bench.Ask(id, say.Hello()), "");
    }
  }
  void TearDown() override {
    for (const auto& [id, reason] : bench.closed) {
      ADD_FAILURE() << "client " << id << " was closed: " << reason;
    }
  }
  const Speak say{.old = GetParam()};
  Bench bench;
};

INSTANTIATE_TEST_SUITE_P(Store, BothDialects, testing::Bool(),
                         [](const auto& each) { return each.param ? "old" : "new"; });

TEST_P(BothDialects, SetAndGet) {
  EXPECT_EQ(bench.Ask(1, say.Set("/a", "x")), "");
  EXPECT_EQ(bench.Ask(2, say.Get("/a")), Str("x"));
  EXPECT_EQ(bench.Ask(2, say.Get("/none")), Str(""));
  EXPECT_EQ(bench.Ask(1, say.Set("/a", std::string("y\0z", 3))), "");
  EXPECT_EQ(bench.Ask(1, say.Get("/a")), Str(std::string("y\0z", 3)));
  EXPECT_EQ(bench.Ask(1, say.Set("/empty", "")), "");
  EXPECT_EQ(bench.Ask(1, say.Check({"/empty"})), Byte(0));
}

TEST_P(BothDialects, CompareSetRules) {
  EXPECT_EQ(bench.Ask(1, say.CompareSet("/k", "want", "new")), Str("want"));  // missing: nothing
  EXPECT_EQ(bench.Ask(1, say.Check({"/k"})), Byte(1));
  EXPECT_EQ(bench.Ask(1, say.CompareSet("/k", "", "first")), Str("first"));
  EXPECT_EQ(bench.Ask(1, say.CompareSet("/k", "", "second")), Str("first"));
  EXPECT_EQ(bench.Ask(1, say.CompareSet("/k", "first", "second")), Str("second"));
  EXPECT_EQ(bench.Ask(1, say.Get("/k")), Str("second"));
}

TEST_P(BothDialects, AddCountsInDecimalText) {
  EXPECT_EQ(bench.Ask(1, say.Add("/n", 5)), U64(5));
  EXPECT_EQ(bench.Ask(2, say.Add("/n", -7)), U64(static_cast<uint64_t>(-2)));
  EXPECT_EQ(bench.Ask(3, say.Get("/n")), Str("-2"));
  EXPECT_EQ(bench.Ask(3, say.Add("/n", 0)), U64(static_cast<uint64_t>(-2)));
  EXPECT_EQ(bench.Ask(3, say.Set("/n", "9223372036854775807")), "");
  EXPECT_EQ(bench.Ask(3, say.Add("/n", 1)), U64(uint64_t{1} << 63));
}

TEST_P(BothDialects, KeysAreCountedAndDeleted) {
  EXPECT_EQ(bench.Ask(1, say.NumKeys()), U64(0));
  bench.Feed(1, say.Set("/a", "1") + say.Set("/b", "2"));
  EXPECT_EQ(bench.Ask(2, say.NumKeys()), U64(2));
  EXPECT_EQ(bench.Ask(2, say.Delete("/a")), U64(1));
  EXPECT_EQ(bench.Ask(2, say.Delete("/a")), U64(0));
  EXPECT_EQ(bench.Ask(2, say.NumKeys()), U64(1));
  bench.Feed(1, say.Delete("/b"));
  bench.Close(1);
  bench.Close(2);
  bench.Close(3);
  EXPECT_EQ(bench.store.bytes(), 0u);  // S5
}

TEST_P(BothDialects, WaitIsAnsweredAtOnceOrByWhateverMakesTheLastKey) {  // S2
  bench.Feed(1, say.Set("/a", "1"));
  EXPECT_EQ(bench.Ask(1, say.Wait({"/a"})), Byte(0));
  EXPECT_EQ(bench.Ask(2, say.Wait({"/a", "/b", "/c", "/b"})), "");
  EXPECT_EQ(bench.Ask(1, say.Add("/b", 1)), U64(1));
  EXPECT_EQ(bench.Got(2), "");
  EXPECT_EQ(bench.Ask(1, say.CompareSet("/c", "", "v")), Str("v"));
  EXPECT_EQ(bench.Got(2), Byte(0));
  bench.Feed(1, say.Set("/c", "again"));
  EXPECT_EQ(bench.Got(2), "");  // once
}

TEST_P(BothDialects, AClientThatGoesLosesItsWaitsAndItsKeysStay) {  // S3
  bench.Feed(1, say.Set("/mine", "1") + say.Wait({"/x"}));
  bench.Feed(2, say.Wait({"/x"}));
  const size_t before = bench.store.bytes();
  bench.Close(1);
  EXPECT_LT(bench.store.bytes(), before);
  bench.Feed(3, say.Set("/x", ""));
  EXPECT_EQ(bench.Got(2), Byte(0));
  EXPECT_EQ(bench.Got(1), "");
  EXPECT_EQ(bench.Ask(3, say.Get("/mine")), Str("1"));
}

TEST_P(BothDialects, AKeyThatCameAndWentStillCountsForAWait) {
  bench.Feed(1, say.Wait({"/a", "/b"}));
  bench.Feed(2, say.Set("/a", "1"));
  EXPECT_EQ(bench.Ask(2, say.Delete("/a")), U64(1));
  bench.Feed(2, say.Set("/b", "1"));
  EXPECT_EQ(bench.Got(1), Byte(0));
}

TEST_P(BothDialects, HellosOfWorkersAreCounted) {
  Bench job(TorchStoreConfig{.world_size = 2, .limits = {}});
  EXPECT_FALSE(job.store.progress().any_client);
  for (uint64_t id : {1u, 2u, 3u}) {
    job.Open(id);
    job.Feed(id, say.Hello());
  }
  EXPECT_TRUE(job.store.progress().any_client);
  job.Feed(1, say.Add("/init/", 1) + say.Add("init/", 0));  // neither is a hello
  EXPECT_EQ(job.store.progress().connected, 0u);
  job.Feed(1, say.Add("init/", 1));
  EXPECT_EQ(job.store.progress().connected, 1u);
  EXPECT_TRUE(job.store.said_hello(StoreClientId{1}));
  EXPECT_FALSE(job.store.said_hello(StoreClientId{2}));
  job.Feed(2, say.Add("init/", 1));
  job.Feed(3, say.Add("init/", 1));  // a second process group
  EXPECT_EQ(job.store.progress().connected, 2u);
}

// --- key spaces (S6) ---

class TwoWorkers : public BothDialects {
 protected:
  void Connect(uint64_t id) {
    job.Open(id);
    job.Feed(id, say.Hello());
    job.Feed(id, say.Add("init/", 1));
    job.Got(id);
  }
  Bench job{TorchStoreConfig{.world_size = 2, .limits = {}}};
};

INSTANTIATE_TEST_SUITE_P(Store, TwoWorkers, testing::Bool(),
                         [](const auto& each) { return each.param ? "old" : "new"; });

TEST_P(TwoWorkers, ASecondProcessGroupFindsAnEmptyStore) {
  Connect(1);
  Connect(2);
  job.Feed(1, say.Set("/default_pg/addr0", "first"));
  job.Feed(2, say.Set("/default_pg/addr1", "first"));
  job.Close(1);  // the first worker is faster: the second still has its old connection
  Connect(3);
  EXPECT_EQ(job.Ask(3, say.Get("/default_pg/addr1")), Str(""));
  EXPECT_EQ(job.Ask(3, say.Wait({"/default_pg/addr1"})), "");
  EXPECT_EQ(job.Ask(2, say.Get("/default_pg/addr0")), Str("first"));
  job.Feed(2, say.Set("/default_pg/addr1", "of the old one"));
  EXPECT_EQ(job.Got(3), "");
  job.Close(2);
  EXPECT_EQ(job.store.keys(), 1u);  // init/: the old space is gone with its last member
  Connect(4);
  job.Feed(4, say.Set("/default_pg/addr1", "second"));
  EXPECT_EQ(job.Got(3), Byte(0));
  EXPECT_EQ(job.Ask(3, say.Get("/default_pg/addr1")), Str("second"));
  EXPECT_EQ(job.Ask(3, say.NumKeys()), U64(2));
  job.Close(3);
  Connect(5);  // and a third one
  EXPECT_EQ(job.Ask(5, say.NumKeys()), U64(1));
  job.Close(4);
  job.Close(5);
}

TEST_P(TwoWorkers, ConnectionsAtTheSameTimeShareTheKeys) {
  Connect(1);  // a process group
  Connect(2);
  Connect(3);  // and torch's RPC, say
  Connect(4);
  job.Feed(1, say.Set("/k", "v"));
  EXPECT_EQ(job.Ask(4, say.Get("/k")), Str("v"));
}

TEST_P(TwoWorkers, ConnectionsOfAProgramsOwnComeAndGo) {
  Connect(1);
  Connect(2);
  job.Feed(1, say.Set("/default_pg/0//addr0", "v"));
  job.Feed(2, say.Set("/default_pg/0//addr1", "v"));
  Connect(3);
  job.Feed(3, say.Set("/side/port", "4711"));
  job.Close(3);
  Connect(4);
  EXPECT_EQ(job.Ask(4, say.Get("/side/port")), Str("4711"));
  EXPECT_EQ(job.Ask(4, say.Get("/default_pg/0//addr0")), Str("v"));
  job.Close(4);
  job.Close(1);  // the process group of one worker ends
  Connect(5);
  EXPECT_EQ(job.Ask(5, say.Get("/side/port")), Str(""));
}

TEST_P(TwoWorkers, WithoutAProcessGroupTheKeysStay) {
  Connect(1);
  Connect(2);
  job.Feed(1, say.Set("/first", "1"));
  job.Close(1);
  Connect(3);  // what takes its place
  EXPECT_EQ(job.Ask(3, say.Get("/first")), Str("1"));
  job.Feed(3, say.Set("/second", "2"));
  EXPECT_EQ(job.Ask(2, say.Get("/second")), Str("2"));
}

TEST_P(TwoWorkers, AWorkerThatTriesAgainBeforeAllWereThereStays) {
  Connect(1);
  job.Feed(1, say.Set("/k", "v"));
  job.Close(1);
  Connect(2);
  Connect(3);
  EXPECT_EQ(job.Ask(2, say.Get("/k")), Str("v"));
  EXPECT_EQ(job.Ask(3, say.Get("/k")), Str("v"));
}

TEST_P(BothDialects, WorkersThatTryAgainAreCountedOnce) {
  Bench job(TorchStoreConfig{.world_size = 3, .limits = {}});
  const auto connect = [&](uint64_t id) {
    job.Open(id);
    job.Feed(id, say.Hello() + say.Add("init/", 1));
    job.Got(id);
  };
  connect(1);
  job.Close(1);
  connect(2);
  connect(3);  // the first again
  job.Feed(3, say.Set("/k", "v"));
  job.Close(2);  // the third has never been here: nobody can be at a second process group
  connect(4);
  connect(5);
  EXPECT_EQ(job.Ask(4, say.Get("/k")), Str("v"));
  EXPECT_EQ(job.Ask(5, say.Get("/k")), Str("v"));
}

TEST_P(TwoWorkers, WithoutAHelloAConnectionSeesTheCurrentSpace) {
  job.Open(9);
  job.Feed(9, say.Hello() + say.Set("/early", "1"));
  Connect(1);
  Connect(2);
  EXPECT_EQ(job.Ask(1, say.Get("/early")), Str("1"));
  EXPECT_EQ(job.Ask(9, say.Wait({"/never"})), "");
  job.Feed(1, say.Set("/default_pg/0//addr0", "v"));
  job.Close(1);
  job.Close(2);
  EXPECT_EQ(job.Ask(9, say.Get("/early")), Str("1"));  // until the next hello
  Connect(3);
  EXPECT_EQ(job.Ask(9, say.Get("/early")), Str(""));
  job.Close(3);
  job.Close(9);
  EXPECT_EQ(job.store.keys(), 1u);
}

TEST(StoreSpaces, WithoutAWorldSizeThereIsOne) {
  Bench bench;
  for (uint64_t id : {1u, 2u, 3u}) {
    bench.Open(id);
    EXPECT_EQ(bench.Ask(id, kOld.Add("init/", 1)), U64(id));
    bench.Close(id);
  }
}

TEST(StoreProgress, MissingRanksAreKnownWhenEachWorkerHasToldItsRank) {
  Bench job(TorchStoreConfig{.world_size = 4, .limits = {}});
  const auto connect = [&](uint64_t id) {
    job.Open(id);
    job.Feed(id, kOld.Add("init/", 1));
  };
  connect(1);
  EXPECT_EQ(job.store.progress().missing, std::nullopt);
  job.Feed(1,
           kOld.Set("//worker/attempt_0/default_pg/1/0/rank_0", "h"));  // rank 0 of another group
  job.Feed(1, kOld.Set("/rank_0", "a user's"));
  EXPECT_EQ(job.store.progress().missing, std::nullopt);
  job.Feed(1, kOld.Set("//worker/attempt_0/default_pg/0/0/rank_2", "h"));
  EXPECT_EQ(job.store.progress().missing, (std::vector<uint32_t>{0, 1, 3}));
  connect(2);
  EXPECT_EQ(job.store.progress().missing, std::nullopt);
  job.Feed(2, kOld.Set("//worker/attempt_0/default_pg/0/0/rank_0", "h"));
  EXPECT_EQ(job.store.progress().missing, (std::vector<uint32_t>{1, 3}));
  job.Feed(2, kOld.Set("//worker/attempt_0/default_pg/0/0/rank_99", "h"));
  EXPECT_EQ(job.store.progress().missing, (std::vector<uint32_t>{1, 3}));
}

TEST(StoreProgress, AWorkerThatTriesAgainIsCountedOnce) {
  Bench job(TorchStoreConfig{.world_size = 2, .limits = {}});
  const auto connect = [&](uint64_t id) {
    job.Open(id);
    job.Feed(id, kOld.Add("init/", 1));
  };
  connect(1);
  job.Feed(1, kOld.Set("/default_pg/0/0/rank_1", "h"));
  job.Close(1);
  EXPECT_EQ(job.store.connected(), 0u);
  connect(2);
  EXPECT_EQ(job.store.connected(), 1u);
  EXPECT_EQ(job.store.progress().missing, std::nullopt);  // the first one's word has gone with it
  job.Feed(2, kOld.Set("/default_pg/0/0/rank_1", "h"));
  EXPECT_EQ(job.store.progress().missing, (std::vector<uint32_t>{0}));
  connect(3);
  EXPECT_EQ(job.store.connected(), 2u);
  job.Close(2);  // all have been here
  EXPECT_EQ(job.store.connected(), 2u);
}

TEST(StoreProgress, NewTorchTellsItsRankByAnotherKey) {
  Bench job(TorchStoreConfig{.world_size = 3, .limits = {}});
  job.Open(1);
  job.Feed(1, kNew.Hello() + kNew.Add("init/", 1));
  for (const char* other :
       {"/default_pg/0//1//cpu//0/2", "/default_pg/0//cuda//0", "/default_pg/0//cpu//1/2",
        "/default_pg/0//cpu//0/3", "/default_pg/0//cpu/0/2", "//cpu//0/2"}) {
    job.Feed(1, kNew.Set(other, "h"));
    EXPECT_EQ(job.store.progress().missing, std::nullopt) << other;
  }
  job.Feed(1, kNew.Set("/default_pg/0//cpu//0/2", "h"));
  EXPECT_EQ(job.store.progress().missing, (std::vector<uint32_t>{0, 1}));
}

TEST(OldStore, ARequestAfterATimedOutWaitForgetsTheWait) {
  Bench bench;
  bench.Open(1);
  bench.Open(2);
  EXPECT_EQ(bench.Ask(1, kOld.Wait({"/never"})), "");
  EXPECT_EQ(bench.Ask(1, kOld.Add("/n", 1)), U64(1));
  bench.Feed(2, kOld.Set("/never", "now"));
  EXPECT_EQ(bench.Ask(1, kOld.Get("/n")), Str("1"));  // no stray answer in front
}

class NewStore : public testing::Test {
 protected:
  NewStore() {
    for (uint64_t id : {1u, 2u, 3u}) {
      bench.Open(id);
      bench.Feed(id, kNew.Hello());
    }
  }
  Bench bench;
};

TEST_F(NewStore, PingAndCancel) {
  EXPECT_EQ(bench.Ask(1, kNew.Ping(0xDEADBEEF)), U32(0xDEADBEEF));
  EXPECT_EQ(bench.Ask(1, kNew.Wait({"/a"})), "");
  EXPECT_EQ(bench.Ask(1, kNew.CancelWait()), Byte(1));
  bench.Feed(2, kNew.Set("/a", "1"));
  EXPECT_EQ(bench.Got(1), "");
  // The answer may cross the cancelling: the client takes both.
  EXPECT_EQ(bench.Ask(1, kNew.Wait({"/a"}) + kNew.CancelWait()), Byte(0) + Byte(1));
}

TEST_F(NewStore, AppendMultiSetMultiGet) {
  bench.Feed(3, kNew.Wait({"/a"}));
  EXPECT_EQ(bench.Ask(1, kNew.Append("/a", "x")), "");
  EXPECT_EQ(bench.Got(3), Byte(0));
  EXPECT_EQ(bench.Ask(1, kNew.Append("/a", "y")), "");
  bench.Feed(3, kNew.Wait({"/b", "/c"}));
  EXPECT_EQ(bench.Ask(1, kNew.MultiSet({{"/b", "1"}, {"/c", ""}})), "");
  EXPECT_EQ(bench.Got(3), Byte(0));
  EXPECT_EQ(bench.Ask(2, kNew.MultiGet({"/a", "/b", "/no", "/c"})),
            Str("xy") + Str("1") + Str("") + Str(""));
  EXPECT_EQ(bench.Ask(2, kNew.MultiGet({})), "");
  EXPECT_EQ(bench.Ask(2, kNew.ListKeys()), List({"/a", "/b", "/c"}));
}

TEST_F(NewStore, AReplyUnderWayIsNotChangedByAppend) {
  bench.Feed(1, kNew.Set("/a", "old"));
  const std::string get = kNew.Get("/a");
  const auto reply = bench.store.Step(StoreClientBytes{StoreClientId{2}, get});
  bench.Feed(1, kNew.Append("/a", "er"));
  EXPECT_EQ(*std::get<StoreSend>(reply.at(0)).body, "old");
  EXPECT_EQ(bench.Ask(2, get), Str("older"));
}

TEST_F(NewStore, QueuesWakeOneWaiterInOrder) {
  EXPECT_EQ(bench.Ask(1, kNew.QueuePop("/q")), U64(0));
  EXPECT_EQ(bench.Ask(3, kNew.Wait({"/q"})), "");
  EXPECT_EQ(bench.Ask(2, kNew.Wait({"/q"})), "");
  bench.Feed(1, kNew.QueuePush("/q", "a"));
  EXPECT_EQ(bench.Got(3), Byte(0));
  EXPECT_EQ(bench.Got(2), "");
  bench.Feed(1, kNew.QueuePush("/q", "b"));
  EXPECT_EQ(bench.Got(2), Byte(0));
  EXPECT_EQ(bench.Ask(1, kNew.QueueLen("/q")), U64(2));
  EXPECT_EQ(bench.Ask(1, kNew.Check({"/q"})), Byte(0));
  EXPECT_EQ(bench.Ask(1, kNew.NumKeys()), U64(0));
  EXPECT_EQ(bench.Ask(2, kNew.QueuePop("/q")), U64(2) + Str("a"));
  EXPECT_EQ(bench.Ask(3, kNew.QueuePop("/q")), U64(1) + Str("b"));
  EXPECT_EQ(bench.Ask(1, kNew.QueueLen("/q")), U64(0));
  EXPECT_EQ(bench.Ask(1, kNew.Check({"/q"})), Byte(1));
  EXPECT_EQ(bench.store.bytes(), 0u);
}

TEST_F(NewStore, BarrierOpensForTheLast) {
  EXPECT_EQ(bench.Ask(1, kNew.Barrier("/b", 3)), "");
  EXPECT_EQ(bench.Ask(2, kNew.Barrier("/b", 3)), "");
  EXPECT_EQ(bench.Got(1), "");
  EXPECT_EQ(bench.Ask(3, kNew.Barrier("/b", 3)), Byte(0));
  EXPECT_EQ(bench.Got(1), Byte(0));
  EXPECT_EQ(bench.Got(2), Byte(0));
  EXPECT_EQ(bench.Ask(1, kNew.Get("/b")), Str("3"));
}

TEST_F(NewStore, ABarrierGivenUpIsCancelled) {
  EXPECT_EQ(bench.Ask(1, kNew.Barrier("/b", 2)), "");
  EXPECT_EQ(bench.Ask(1, kNew.CancelWait()), Byte(1));
  EXPECT_EQ(bench.Ask(2, kNew.Barrier("/b", 2)), Byte(0));
  EXPECT_EQ(bench.Got(1), "");
}

}  // namespace
}  // namespace muster
