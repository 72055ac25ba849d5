#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "muster/muster.h"
#include "muster/status.h"
#include "muster/types.h"
#include "tests/worker_sdk/api/fake_communicator.h"

namespace muster {
namespace {

static_assert(MUSTER_INT8 == static_cast<int>(DType::kInt8));
static_assert(MUSTER_UINT64 == static_cast<int>(DType::kUInt64));
static_assert(MUSTER_FLOAT16 == static_cast<int>(DType::kFloat16));
static_assert(MUSTER_BFLOAT16 == static_cast<int>(DType::kBFloat16));
static_assert(MUSTER_FLOAT32 == static_cast<int>(DType::kFloat32));
static_assert(MUSTER_FLOAT64 == kDTypes - 1);
static_assert(MUSTER_SUM == static_cast<int>(ReduceOp::kSum));
static_assert(MUSTER_AVG == static_cast<int>(ReduceOp::kAvg));
static_assert(MUSTER_PROD == static_cast<int>(ReduceOp::kProd));
static_assert(MUSTER_MIN == static_cast<int>(ReduceOp::kMin));
static_assert(MUSTER_MAX == static_cast<int>(ReduceOp::kMax));
static_assert(MUSTER_BXOR == kReduceOps - 1);
static_assert(MUSTER_WIRE_FULL == static_cast<int>(Wire::kFull));
static_assert(MUSTER_WIRE_BF16 == kWires - 1);
static_assert(MUSTER_INVALID_ARGUMENT == static_cast<int>(StatusCode::kInvalidArgument));
static_assert(MUSTER_DEADLINE_EXCEEDED == static_cast<int>(StatusCode::kDeadlineExceeded));
static_assert(MUSTER_RESOURCE_EXHAUSTED == static_cast<int>(StatusCode::kResourceExhausted));
static_assert(MUSTER_FAILED_PRECONDITION == static_cast<int>(StatusCode::kFailedPrecondition));
static_assert(MUSTER_UNIMPLEMENTED == static_cast<int>(StatusCode::kUnimplemented));
static_assert(MUSTER_INTERNAL == static_cast<int>(StatusCode::kInternal));
static_assert(MUSTER_UNAVAILABLE == static_cast<int>(StatusCode::kUnavailable));

class CApi : public testing::Test {
 protected:
  CApi() {
    TheFake() = FakeCommunicator();
    EXPECT_EQ(muster_init(&comm_), MUSTER_OK);
  }
  ~CApi() override { muster_free(comm_); }

  void ExpectInvalid(int code, const std::string& why) {
    EXPECT_EQ(code, MUSTER_INVALID_ARGUMENT);
    EXPECT_EQ(muster_last_error(), why);
    EXPECT_EQ(TheFake().calls, "");
  }

  muster_comm* comm_ = nullptr;
  float data_[12] = {};
};

// One value, which every key has.
struct OneValue {
  std::string value = "none";
  std::string asked;
  bool fails = false;

  static int Set(void* context, const char* key, const void* value, int64_t bytes) {
    auto& self = *static_cast<OneValue*>(context);
    self.asked += std::string(key) + ";";
    self.value.assign(static_cast<const char*>(value), static_cast<size_t>(bytes));
    return 0;
  }
  static int Get(void* context, const char* key, void* value, int64_t bytes_max, int64_t* bytes) {
    auto& self = *static_cast<OneValue*>(context);
    self.asked += std::string(key) + ";";
    *bytes = static_cast<int64_t>(self.value.size());
    if (self.fails || *bytes > bytes_max) return 1;
    self.value.copy(static_cast<char*>(value), self.value.size());
    return 0;
  }
  muster_store store() { return {this, &Set, &Get}; }
};

TEST_F(CApi, MeetsAtAStore) {
  OneValue one;
  muster_store store = one.store();
  muster_comm* comm = nullptr;
  EXPECT_EQ(muster_init_at_store(&store, 1, 3, -1, &comm), MUSTER_OK);
  EXPECT_NE(comm, nullptr);
  EXPECT_EQ(one.asked, "key of 1;key of 3;");
  EXPECT_EQ(TheFake().calls, std::string("got \0value;", 11)) << "values have any bytes";
  muster_free(comm);
  one.fails = true;
  EXPECT_EQ(muster_init_at_store(&store, 1, 3, -1, &comm), MUSTER_UNAVAILABLE);
  EXPECT_STREQ(muster_last_error(), "the store could not get key of 3");
  EXPECT_EQ(comm, nullptr);
}

TEST_F(CApi, MeetsAtAStoreWithinATimeout) {
  OneValue one;
  const muster_store store = one.store();
  for (const double seconds : {1.5, 0.0}) {
    muster_comm* comm = nullptr;
    EXPECT_EQ(muster_init_at_store(&store, 1, 3, seconds, &comm), MUSTER_OK);
    muster_free(comm);
  }
  EXPECT_EQ(TheFake().calls, std::string("got \0value;1500000000 ns;got \0value;0 ns;", 41));
}

TEST_F(CApi, AStoreWithoutItsFunctionsIsRefused) {
  muster_comm* comm = nullptr;
  muster_store store = OneValue().store();
  store.get = nullptr;
  ExpectInvalid(muster_init_at_store(&store, 0, 1, -1, &comm),
                "init_at_store: store: a null pointer, or one in it");
  ExpectInvalid(muster_init_at_store(nullptr, 0, 1, -1, &comm),
                "init_at_store: store: a null pointer, or one in it");
  ExpectInvalid(muster_init_at_store(&store, 0, 1, -1, nullptr),
                "init_at_store: out: a null pointer");
}

TEST_F(CApi, PassesOnWhatItIsGiven) {
  float* x = data_;
  float* y = data_ + 4;
  EXPECT_EQ(muster_barrier(comm_), MUSTER_OK);
  EXPECT_EQ(muster_all_reduce(comm_, x, y, 4, MUSTER_FLOAT32, MUSTER_AVG), MUSTER_OK);
  EXPECT_EQ(muster_reduce(comm_, x, y, 4, MUSTER_INT32, MUSTER_BXOR, 1), MUSTER_OK);
  EXPECT_EQ(muster_broadcast(comm_, x, 4, MUSTER_BFLOAT16, 2), MUSTER_OK);
  EXPECT_EQ(muster_all_gather(comm_, x, y, 2, MUSTER_FLOAT16), MUSTER_OK);
  EXPECT_EQ(muster_gather(comm_, x, y, 2, MUSTER_UINT8, 1), MUSTER_OK);
  EXPECT_EQ(muster_scatter(comm_, x, y, 2, MUSTER_INT64, 1), MUSTER_OK);
  EXPECT_EQ(muster_reduce_scatter(comm_, x, y, 1, MUSTER_INT16, MUSTER_MIN), MUSTER_OK);
  EXPECT_EQ(muster_all_to_all(comm_, x, y, 1, MUSTER_UINT16), MUSTER_OK);
  EXPECT_EQ(TheFake().calls,
            "barrier;all_reduce 4 float32 avg;reduce 4 int32 bxor root 1;"
            "broadcast 4 bfloat16 root 2;all_gather 2 float16;gather 2 uint8 root 1;"
            "scatter 2 int64 root 1;reduce_scatter 1 int16 min;all_to_all 1 uint16;");
  TheFake().calls.clear();
  const int64_t counts[] = {1, 0, 3};
  const int64_t others[] = {2, 2, 1};
  EXPECT_EQ(muster_all_gather_v(comm_, x, y, counts, MUSTER_FLOAT16), MUSTER_OK);
  EXPECT_EQ(muster_gather_v(comm_, x, y, counts, MUSTER_UINT8, 2), MUSTER_OK);
  EXPECT_EQ(muster_scatter_v(comm_, x, y, counts, MUSTER_INT64, 1), MUSTER_OK);
  EXPECT_EQ(muster_reduce_scatter_v(comm_, x, y, counts, MUSTER_INT16, MUSTER_MIN), MUSTER_OK);
  EXPECT_EQ(muster_all_to_all_v(comm_, x, counts, y, others, MUSTER_UINT16), MUSTER_OK);
  EXPECT_EQ(TheFake().calls,
            "all_gather_v 1+0+3 float16;gather_v 1+0+3 uint8 root 2;scatter_v 1+0+3 int64 root 1;"
            "reduce_scatter_v 1+0+3 int16 min;all_to_all_v to 1+0+3 from 2+2+1 uint16;");
  TheFake().calls.clear();
  EXPECT_EQ(muster_send(comm_, x, 4, MUSTER_FLOAT32, 2, 7), MUSTER_OK);
  EXPECT_EQ(muster_recv(comm_, y, 3, MUSTER_INT8, 0, 8), MUSTER_OK);
  EXPECT_EQ(TheFake().calls, "send 4 float32 to 2 tag 7;recv 3 int8 from 0 tag 8;");
}

TEST_F(CApi, StartsWhatItIsGiven) {
  float* x = data_;
  float* y = data_ + 4;
  muster_work* work = nullptr;
  const auto expect = [&](int code, const std::string& call) {
    EXPECT_EQ(code, MUSTER_OK);
    EXPECT_EQ(TheFake().calls, call + ";started;");
    EXPECT_EQ(muster_wait(work), MUSTER_OK);
    EXPECT_EQ(TheFake().calls, call + ";started;wait;");
    muster_work_free(work);
    work = nullptr;
    TheFake().calls.clear();
  };
  expect(muster_barrier_async(comm_, &work), "barrier");
  expect(muster_all_reduce_async(comm_, x, y, 4, MUSTER_FLOAT32, MUSTER_AVG, &work),
         "all_reduce 4 float32 avg");
  expect(muster_reduce_async(comm_, x, y, 4, MUSTER_INT32, MUSTER_BXOR, 1, &work),
         "reduce 4 int32 bxor root 1");
  expect(muster_broadcast_async(comm_, x, 4, MUSTER_BFLOAT16, 2, &work),
         "broadcast 4 bfloat16 root 2");
  expect(muster_all_gather_async(comm_, x, y, 2, MUSTER_FLOAT16, &work), "all_gather 2 float16");
  expect(muster_gather_async(comm_, x, y, 2, MUSTER_UINT8, 1, &work), "gather 2 uint8 root 1");
  expect(muster_scatter_async(comm_, x, y, 2, MUSTER_INT64, 1, &work), "scatter 2 int64 root 1");
  expect(muster_reduce_scatter_async(comm_, x, y, 1, MUSTER_INT16, MUSTER_MIN, &work),
         "reduce_scatter 1 int16 min");
  expect(muster_all_to_all_async(comm_, x, y, 1, MUSTER_UINT16, &work), "all_to_all 1 uint16");
  const int64_t counts[] = {1, 0, 3};
  const int64_t others[] = {2, 2, 1};
  expect(muster_all_gather_v_async(comm_, x, y, counts, MUSTER_FLOAT16, &work),
         "all_gather_v 1+0+3 float16");
  expect(muster_gather_v_async(comm_, x, y, counts, MUSTER_UINT8, 2, &work),
         "gather_v 1+0+3 uint8 root 2");
  expect(muster_scatter_v_async(comm_, x, y, counts, MUSTER_INT64, 1, &work),
         "scatter_v 1+0+3 int64 root 1");
  expect(muster_reduce_scatter_v_async(comm_, x, y, counts, MUSTER_INT16, MUSTER_MIN, &work),
         "reduce_scatter_v 1+0+3 int16 min");
  expect(muster_all_to_all_v_async(comm_, x, counts, y, others, MUSTER_UINT16, &work),
         "all_to_all_v to 1+0+3 from 2+2+1 uint16");
  expect(muster_send_async(comm_, x, 4, MUSTER_FLOAT32, 2, 7, &work), "send 4 float32 to 2 tag 7");
  expect(muster_recv_async(comm_, y, 3, MUSTER_INT8, 0, 8, &work), "recv 3 int8 from 0 tag 8");
}

TEST_F(CApi, WhatWasStartedEnds) {
  muster_work* work = nullptr;
  ASSERT_EQ(muster_barrier_async(comm_, &work), MUSTER_OK);
  EXPECT_EQ(muster_test(work), 0);
  TheFake().ended = true;
  EXPECT_EQ(muster_test(work), 1);
  EXPECT_EQ(muster_work_source(work), MUSTER_ANY_RANK);
  TheFake().source = 2;
  EXPECT_EQ(muster_work_source(work), 2);
  EXPECT_EQ(muster_work_source(nullptr), MUSTER_ANY_RANK);
  TheFake().answer = Status(StatusCode::kUnavailable, "rank 2 died");
  EXPECT_EQ(muster_wait(work), MUSTER_UNAVAILABLE);
  EXPECT_STREQ(muster_last_error(), "rank 2 died");
  muster_work_free(work);
  muster_work_free(nullptr);
}

TEST_F(CApi, WhatCannotBeStartedGivesNoWork) {
  muster_work* work = reinterpret_cast<muster_work*>(data_);
  ExpectInvalid(muster_all_reduce_async(comm_, data_, data_, 4, 12, MUSTER_SUM, &work),
                "all_reduce: dtype: want 0..11 (muster_dtype), got 12");
  EXPECT_EQ(work, nullptr);
  ExpectInvalid(muster_barrier_async(comm_, nullptr), "barrier: work: a null pointer");
  ExpectInvalid(muster_wait(nullptr), "wait: work: a null pointer");
  EXPECT_EQ(muster_test(nullptr), 1);
  TheFake().fails_at_once = true;
  TheFake().answer = Status(StatusCode::kUnavailable, "rank 2 died");
  EXPECT_EQ(muster_barrier_async(comm_, &work), MUSTER_UNAVAILABLE);
  EXPECT_STREQ(muster_last_error(), "rank 2 died");
  EXPECT_EQ(work, nullptr);
}

TEST_F(CApi, NumbersOutOfRange) {
  ExpectInvalid(muster_all_reduce(comm_, data_, data_, 4, 12, MUSTER_SUM),
                "all_reduce: dtype: want 0..11 (muster_dtype), got 12");
  ExpectInvalid(muster_all_to_all(comm_, data_, data_, 4, -1),
                "all_to_all: dtype: want 0..11 (muster_dtype), got -1");
  ExpectInvalid(muster_reduce_scatter(comm_, data_, data_, 4, MUSTER_INT8, 8),
                "reduce_scatter: op: want 0..7 (muster_op), got 8");
  const int64_t counts[] = {1, 0, 3};
  ExpectInvalid(muster_reduce_scatter_v(comm_, data_, data_, counts, MUSTER_INT8, -1),
                "reduce_scatter_v: op: want 0..7 (muster_op), got -1");
  ExpectInvalid(muster_all_to_all_v(comm_, data_, counts, data_, counts, 12),
                "all_to_all_v: dtype: want 0..11 (muster_dtype), got 12");
  ExpectInvalid(muster_set_wire(comm_, 2), "set_wire: wire: want 0..1 (muster_wire), got 2");
  ExpectInvalid(muster_set_wire(comm_, -1), "set_wire: wire: want 0..1 (muster_wire), got -1");
  EXPECT_EQ(muster_get_wire(comm_), MUSTER_WIRE_FULL);
}

TEST_F(CApi, Counters) {
  muster_counters counters = {};
  EXPECT_EQ(muster_get_counters(comm_, &counters), MUSTER_OK);
  EXPECT_EQ(counters.calls, 5U);
  EXPECT_EQ(counters.bytes, 600U);
  EXPECT_EQ(counters.waited_on_node_ns, 70U);
  EXPECT_EQ(counters.waited_between_nodes_ns, 8U);
  EXPECT_EQ(muster_waited_for(comm_, 2), 9U);
  EXPECT_EQ(muster_waited_for(nullptr, 2), 0U);
  ExpectInvalid(muster_get_counters(comm_, nullptr), "get_counters: out: a null pointer");
  ExpectInvalid(muster_get_counters(nullptr, &counters),
                "get_counters: comm: a null pointer; muster_init() makes one");
}

TEST_F(CApi, TheWireIsThatOfTheCommunicator) {
  EXPECT_EQ(muster_set_wire(comm_, MUSTER_WIRE_BF16), MUSTER_OK);
  EXPECT_EQ(TheFake().wire, Wire::kBFloat16);
  EXPECT_EQ(muster_get_wire(comm_), MUSTER_WIRE_BF16);
  EXPECT_EQ(muster_set_wire(comm_, MUSTER_WIRE_FULL), MUSTER_OK);
  EXPECT_EQ(muster_get_wire(comm_), MUSTER_WIRE_FULL);
}

TEST_F(CApi, NullCommunicator) {
  ExpectInvalid(muster_barrier(nullptr), "barrier: comm: a null pointer; muster_init() makes one");
  ExpectInvalid(muster_init(nullptr), "init: out: a null pointer");
  EXPECT_EQ(muster_rank(nullptr), -1);
  EXPECT_EQ(muster_nodes(nullptr), -1);
  EXPECT_EQ(muster_round(nullptr), 0U);
  ExpectInvalid(muster_set_wire(nullptr, 0),
                "set_wire: comm: a null pointer; muster_init() makes one");
  EXPECT_EQ(muster_get_wire(nullptr), -1);
  muster_set_timeout(nullptr, 1);
}

TEST_F(CApi, ErrorsOfTheCommunicatorAreThoseOfTheThread) {
  TheFake().answer = Status(StatusCode::kUnavailable, "rank 2 died");
  EXPECT_EQ(muster_barrier(comm_), MUSTER_UNAVAILABLE);
  EXPECT_STREQ(muster_last_error(), "rank 2 died");
  std::thread([] { EXPECT_STREQ(muster_last_error(), ""); }).join();
}

TEST_F(CApi, NoExceptionLeavesIt) {
  muster_comm* none = comm_;
  const auto meet = [](const std::exception_ptr& error) {
    TheFake().before = [error] { std::rethrow_exception(error); };
  };
  meet(std::make_exception_ptr(std::bad_alloc()));
  EXPECT_EQ(muster_all_reduce(comm_, data_, data_, 4, MUSTER_FLOAT32, MUSTER_SUM),
            MUSTER_RESOURCE_EXHAUSTED);
  EXPECT_STREQ(muster_last_error(), "out of memory");
  EXPECT_EQ(muster_init(&none), MUSTER_RESOURCE_EXHAUSTED);
  EXPECT_EQ(none, nullptr);
  meet(std::make_exception_ptr(std::length_error("vector")));
  EXPECT_EQ(muster_barrier(comm_), MUSTER_INTERNAL);
  EXPECT_STREQ(muster_last_error(), "internal error");
}

TEST_F(CApi, InitGivesNothingWhereItFails) {
  TheFake().answer = Status(StatusCode::kDeadlineExceeded, "only 2 of 3 ranks came");
  muster_comm* none = comm_;
  EXPECT_EQ(muster_init(&none), MUSTER_DEADLINE_EXCEEDED);
  EXPECT_EQ(none, nullptr);
  EXPECT_STREQ(muster_last_error(), "only 2 of 3 ranks came");
}

TEST_F(CApi, FreeEndsTheCommunicator) {
  EXPECT_EQ(TheFake().alive, 1);
  muster_free(comm_);
  comm_ = nullptr;
  EXPECT_EQ(TheFake().alive, 0);
}

TEST_F(CApi, WhoHasFailedSaysSo) {
  muster_abandon(nullptr);
  muster_abandon(comm_);
  EXPECT_EQ(TheFake().calls, "abandon;");
  EXPECT_EQ(TheFake().alive, 1);
}

TEST_F(CApi, WhatIsFreedAtExitGoesByTheStatus) {
  const auto end = [this](int status) {
    std::atexit(
        [] { std::fprintf(stderr, "%s%d alive", TheFake().calls.c_str(), TheFake().alive); });
    muster_free_at_exit(nullptr);
    muster_free_at_exit(comm_);
    std::exit(status);
  };
  EXPECT_EXIT(end(0), testing::ExitedWithCode(0), "^0 alive");
  EXPECT_EXIT(end(3), testing::ExitedWithCode(3), "^abandon;0 alive");
}

TEST_F(CApi, AChildByForkFreesNothingOfItsParents) {
  const auto end = [this] {
    std::atexit(
        [] { std::fprintf(stderr, "%s%d alive;", TheFake().calls.c_str(), TheFake().alive); });
    muster_free_at_exit(comm_);
    const pid_t child = fork();
    if (child > 0) {
      waitpid(child, nullptr, 0);
    }
    std::exit(child == 0 ? 3 : 0);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "^1 alive;0 alive;");
}

TEST_F(CApi, SplitGivesAGroupOrNone) {
  muster_comm* group = nullptr;
  EXPECT_EQ(muster_split(comm_, 7, -2, &group), MUSTER_OK);
  ASSERT_NE(group, nullptr);
  EXPECT_EQ(TheFake().alive, 2);
  muster_free(group);
  EXPECT_EQ(TheFake().alive, 1);
  group = comm_;
  EXPECT_EQ(muster_split(comm_, -1, 0, &group), MUSTER_OK);
  EXPECT_EQ(group, nullptr);
  EXPECT_EQ(TheFake().calls, "split 7 -2;split -1 0;");
  TheFake().answer = Status(StatusCode::kUnavailable, "rank 2 died");
  group = comm_;
  EXPECT_EQ(muster_split(comm_, 7, 0, &group), MUSTER_UNAVAILABLE);
  EXPECT_EQ(group, nullptr);
  EXPECT_STREQ(muster_last_error(), "rank 2 died");
}

TEST_F(CApi, SplitOfNothing) {
  muster_comm* group = comm_;
  ExpectInvalid(muster_split(comm_, 0, 0, nullptr), "split: out: a null pointer");
  ExpectInvalid(muster_split(nullptr, 0, 0, &group),
                "split: comm: a null pointer; muster_init() makes one");
  EXPECT_EQ(group, nullptr);
}

TEST_F(CApi, ReformGivesTheNextCommunicator) {
  muster_comm* next = nullptr;
  EXPECT_EQ(muster_reform(comm_, &next), MUSTER_OK);
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(TheFake().alive, 2);
  muster_agreed agreed{};
  EXPECT_EQ(muster_get_agreed(next, &agreed), MUSTER_OK);
  EXPECT_EQ(agreed.completed, 5U);
  EXPECT_EQ(agreed.started, 6U);
  EXPECT_EQ(agreed.committed, 7);
  EXPECT_EQ(agreed.committed_last, 8);
  EXPECT_EQ(agreed.holder, 2);
  EXPECT_EQ(muster_is_replacement(next), 1);
  EXPECT_EQ(muster_last_call(next), 9U);
  muster_free(next);
  TheFake().answer = Status(StatusCode::kUnavailable, "no round follows");
  next = comm_;
  EXPECT_EQ(muster_reform(comm_, &next), MUSTER_UNAVAILABLE);
  EXPECT_EQ(next, nullptr);
  TheFake().calls.clear();
  ExpectInvalid(muster_reform(comm_, nullptr), "reform: out: a null pointer");
  ExpectInvalid(muster_get_agreed(comm_, nullptr), "get_agreed: out: a null pointer");
  EXPECT_EQ(muster_is_replacement(nullptr), 0);
  EXPECT_EQ(muster_last_call(nullptr), 0U);
}

TEST_F(CApi, StateOfSeveralBuffers) {
  float weights[3] = {};
  int64_t step = 4;
  void* const data[] = {weights, &step};
  const int64_t counts[] = {3, 1};
  int dtypes[] = {MUSTER_FLOAT32, MUSTER_INT64};
  EXPECT_EQ(muster_commit(comm_, 4), MUSTER_OK);
  EXPECT_EQ(muster_broadcast_state(comm_, data, counts, dtypes, 2), MUSTER_OK);
  EXPECT_EQ(TheFake().calls, "commit 4;broadcast_state 3 float32 1 int64;");
  TheFake().calls.clear();
  ExpectInvalid(muster_broadcast_state(comm_, data, counts, dtypes, 0),
                "broadcast_state: buffers: want 1 or more, got 0");
  ExpectInvalid(muster_broadcast_state(comm_, data, nullptr, dtypes, 2),
                "broadcast_state: data, counts or dtypes: a null pointer");
  dtypes[1] = 12;
  ExpectInvalid(muster_broadcast_state(comm_, data, counts, dtypes, 2),
                "broadcast_state: dtypes[1]: want 0..11 (muster_dtype), got 12");
}

TEST_F(CApi, TimeoutsAreRoundedUpAndBounded) {
  const auto given = [&](double seconds) {
    muster_set_timeout(comm_, seconds);
    return TheFake().timeout.count();
  };
  EXPECT_EQ(given(1.5), 1'500'000'000);
  EXPECT_EQ(given(1e-12), 1);
  EXPECT_EQ(given(std::numeric_limits<double>::infinity()), 9'000'000'000'000'000'000);
  EXPECT_EQ(given(0), 0);
  EXPECT_EQ(given(-1), 0);
  EXPECT_EQ(given(std::nan("")), 0);
}

}  // namespace
}  // namespace muster
