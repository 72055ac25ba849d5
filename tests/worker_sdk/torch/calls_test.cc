#include "worker_sdk/torch/calls.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <csignal>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gate.h"

namespace muster_torch {
namespace {

using muster::Gate;

constexpr std::chrono::milliseconds kLong{60'000};

std::shared_ptr<Call> Doing(std::function<void()> body) {
  return std::make_shared<Call>(std::move(body));
}

std::string TextOf(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& what) {
    return what.what();
  }
}

TEST(CallsTest, OnceAllAreClosedNoThreadIsLeftAndWhoWaitsRunsWhatHeAdds) {
  const std::shared_ptr<Calls> calls = Calls::New();
  const std::shared_ptr<Calls> unused = Calls::New();
  const auto before = Doing([] {});
  calls->Add(before, /*hurry=*/false);
  Calls::CloseAll();
  EXPECT_TRUE(before->ended());
  EXPECT_EQ(before.use_count(), 1) << "held by nobody else";
  std::thread::id ran;
  const auto after = Doing([&] { ran = std::this_thread::get_id(); });
  calls->Add(after, /*hurry=*/true);
  calls->Wait(*after);
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST(CallsTest, WhoWaitsRunsWhatStandsBeforeHimInOrder) {
  const std::shared_ptr<Calls> calls = Calls::New();
  Gate gate;
  std::vector<int> order;
  // Our thread is kept busy: all that follows is left to whoever waits.
  const auto first = Doing([&] { EXPECT_TRUE(gate.Wait()); });
  calls->Add(first, /*hurry=*/true);
  std::vector<std::shared_ptr<Call>> added;
  for (int i = 0; i < 5; ++i) {
    added.push_back(Doing([&order, i] { order.push_back(i); }));
    calls->Add(added.back(), false);
  }
  gate.Open();
  calls->Wait(*added[3]);
  EXPECT_TRUE(first->ended());
  calls->Wait(*added[4]);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(CallsTest, WhatNobodyWaitsForRunsAllTheSame) {
  const std::shared_ptr<Calls> calls = Calls::New();
  Gate ran;
  calls->Add(Doing([&] { ran.Open(); }), false);
  EXPECT_TRUE(ran.Wait());
}

// Each on a thread of ours, as nobody else waits; the outer ones stand still meanwhile.
TEST(CallsTest, ListenersMayAddCallsAndWaitForThem) {
  const std::shared_ptr<Calls> calls = Calls::New();
  Gate all;
  std::function<void(int)> nest = [&](int deep) {
    const auto outer = Doing([] {});
    auto told = std::make_shared<Gate>();
    outer->Then([&, deep, told](const std::exception_ptr&) {
      if (deep > 0) {
        nest(deep - 1);
      } else {
        all.Open();
      }
      told->Open();
    });
    calls->Add(outer, true);
    EXPECT_TRUE(told->Wait());
  };
  nest(3);
  EXPECT_TRUE(all.Wait());
}

// It stands still until the other one has run, on the only thread that there is so far.
TEST(CallsTest, AListenerMayWaitForACallThatNobodyWaitsFor) {
  for (const bool is_there : {true, false}) {  // when it begins to stand still
    Gate may_listen;
    Gate listens;
    Gate ran;
    Gate told;
    const std::shared_ptr<Calls> calls = Calls::New();
    const auto first = Doing([&] { EXPECT_TRUE(may_listen.Wait()); });
    first->Then([&](const std::exception_ptr&) {
      listens.Open();
      EXPECT_TRUE(ran.Wait());
      told.Open();
    });
    const auto other = Doing([&] { ran.Open(); });
    calls->Add(first, false);
    if (is_there) {
      calls->Add(other, false);
    }
    may_listen.Open();
    EXPECT_TRUE(listens.Wait());
    if (!is_there) {
      calls->Add(other, false);
    }
    EXPECT_TRUE(told.Wait());
  }
}

TEST(CallsTest, AListenerMayWaitForAMessage) {
  struct Moves : Watched {
    explicit Moves(std::function<void()> end) : at_end(std::move(end)) {}
    bool Test() override {
      at_end();
      return true;
    }
    std::function<void()> at_end;
  };
  const std::shared_ptr<Calls> calls = Calls::New();
  Gate outer;
  calls->Watch(std::make_shared<Moves>([&] {
    Gate inner;
    calls->Watch(std::make_shared<Moves>([&] { inner.Open(); }));
    EXPECT_TRUE(inner.Wait());
    outer.Open();
  }));
  EXPECT_TRUE(outer.Wait());
}

TEST(CallsTest, AListenerHearsOfTheEndHoweverItCame) {
  const std::shared_ptr<Calls> calls = Calls::New();
  const auto wrong = Doing([] { throw std::runtime_error("rank 2 has died"); });
  Gate heard;
  std::string told;
  wrong->Then([&](const std::exception_ptr& error) {
    told = TextOf(error);
    heard.Open();
  });
  calls->Add(wrong, false);
  calls->Hurry();
  EXPECT_TRUE(heard.Wait());
  EXPECT_EQ(told, "rank 2 has died");
  calls->Wait(*wrong);
  EXPECT_EQ(TextOf(wrong->error()), "rank 2 has died");
  bool at_once = false;
  wrong->Then([&](const std::exception_ptr& error) { at_once = error != nullptr; });
  EXPECT_TRUE(at_once);
}

// It may have to wait for Python's lock, which whoever waits for the call may hold.
TEST(CallsTest, WhoWaitsDoesNotWaitForTheEndOfWhatTheCallHolds) {
  Gate waited;
  struct Held {
    explicit Held(Gate* gate) : waits_for(gate) {}
    ~Held() { EXPECT_TRUE(waits_for->Wait()); }
    Gate* const waits_for;
  };
  const std::shared_ptr<Calls> calls = Calls::New();
  const auto call = Doing([held = std::make_shared<Held>(&waited)] {});
  calls->Add(call, /*hurry=*/true);
  EXPECT_TRUE(calls->WaitFor(*call, kLong));
  waited.Open();
}

TEST(CallsTest, AWaitWithAnEndEndsAndTheCallGoesOn) {
  const std::shared_ptr<Calls> calls = Calls::New();
  Gate gate;
  const auto call = Doing([&] { EXPECT_TRUE(gate.Wait()); });
  calls->Add(call, false);
  EXPECT_FALSE(calls->WaitFor(*call, std::chrono::milliseconds(1)));
  gate.Open();
  EXPECT_TRUE(calls->WaitFor(*call, kLong));
}

TEST(CallsTest, ManyThreadsWaitAndEachCallRunsOnceAndAlone) {
  const std::shared_ptr<Calls> calls = Calls::New();
  std::atomic<int> running{0};
  std::atomic<int> ran{0};
  std::atomic<bool> alone{true};
  std::vector<std::thread> threads;
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < kEach; ++j) {
        const auto call = Doing([&] {
          alone = alone && running.fetch_add(1) == 0;
          ++ran;
          --running;
        });
        calls->Add(call, j % 7 == 0);
        if (j % 3 != 0) {
          calls->Wait(*call);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  calls->Close();
  EXPECT_EQ(ran, kThreads * kEach);
  EXPECT_TRUE(alone);
}

TEST(CallsTest, MoreThanMayWaitRunOnWhoeverAddsThem) {
  const std::shared_ptr<Calls> calls = Calls::New();
  size_t ran = 0;
  for (size_t i = 0; i < 2 * Calls::kCallsMax; ++i) {
    calls->Add(Doing([&] { ++ran; }), false);
  }
  calls->Close();
  EXPECT_EQ(ran, 2 * Calls::kCallsMax);
}

class CountDown : public Watched {
 public:
  explicit CountDown(int looks) : looks_(looks) {}
  bool Test() override {
    if (--looks_ == 0) {
      ended_.Open();
    }
    return looks_ <= 0;
  }
  bool Wait() { return ended_.Wait(); }

 private:
  int looks_;
  Gate ended_;
};

TEST(CallsTest, WhatIsWatchedIsLookedAtUntilItHasEnded) {
  const std::shared_ptr<Calls> calls = Calls::New();
  const auto one = std::make_shared<CountDown>(3);
  const auto two = std::make_shared<CountDown>(5);
  calls->Watch(one);
  calls->Watch(two);
  EXPECT_TRUE(one->Wait());
  EXPECT_TRUE(two->Wait());
  calls->Close();
  EXPECT_EQ(one.use_count(), 1);
  EXPECT_EQ(two.use_count(), 1);
}

TEST(CallsTest, WhatIsStillWatchedIsHeldUntilTheEnd) {
  std::shared_ptr<Calls> calls = Calls::New();
  const auto never = std::make_shared<CountDown>(INT_MAX);
  calls->Watch(never);
  calls->Close();
  EXPECT_EQ(never.use_count(), 2);
  calls.reset();
  EXPECT_EQ(never.use_count(), 1);
}

struct TellsOfItsEnd : Watched {
  explicit TellsOfItsEnd(Gate* gone) : at_end(gone) {}
  ~TellsOfItsEnd() override { at_end->Open(); }
  bool Test() override { return false; }
  Gate* const at_end;
};

TEST(CallsTest, TheLastHoldMayGoOnAThreadOfOurs) {
  Gate gone;
  Gate may_go;
  std::shared_ptr<Calls> calls = Calls::New();
  calls->Watch(std::make_shared<TellsOfItsEnd>(&gone));
  auto last = std::make_shared<std::shared_ptr<Calls>>(calls);
  calls->Add(Doing([] {}), true);
  const auto call = Doing([last, &may_go] { EXPECT_TRUE(may_go.Wait()); });
  calls->Add(call, true);
  last.reset();
  calls.reset();
  may_go.Open();
  EXPECT_TRUE(gone.Wait());
}

// T1 waits for what T2 tells, and that has the last hold.
TEST(CallsTest, TheLastHoldMayGoWhileAnotherThreadOfOursWaits) {
  Gate gone;
  std::shared_ptr<Calls> calls = Calls::New();
  calls->Watch(std::make_shared<TellsOfItsEnd>(&gone));
  auto last = std::make_shared<std::shared_ptr<Calls>>(calls);
  const auto outer = Doing([] {});
  outer->Then([last](const std::exception_ptr&) mutable {
    Calls& ours = **last;
    const auto inner = Doing([] {});
    auto told = std::make_shared<Gate>();
    inner->Then([told, last = std::exchange(last, nullptr)](const std::exception_ptr&) {
      last->reset();
      told->Open();
    });
    ours.Add(inner, true);
    EXPECT_TRUE(told->Wait());
  });
  last.reset();
  Calls* const ours = calls.get();
  ours->Add(outer, true);
  calls.reset();
  EXPECT_TRUE(gone.Wait());
}

TEST(CallsTest, AllAreClosedOnceThoseThatEndOnTheirOwnThreadsHaveEnded) {
  auto may_go = std::make_shared<Gate>();
  auto gone = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<Calls> calls = Calls::New();
  auto last = std::make_shared<std::shared_ptr<Calls>>(calls);
  Gate alone;
  calls->Add(Doing([last, may_go, gone, &alone] {
               EXPECT_TRUE(may_go->Wait());
               last->reset();
               alone.Open();
               for (int i = 0; i < 1000; ++i) {
                 std::this_thread::yield();
               }
               *gone = true;
             }),
             true);
  calls.reset();
  last.reset();
  may_go->Open();
  ASSERT_TRUE(alone.Wait());
  Calls::CloseAll();
  EXPECT_TRUE(*gone);
}

TEST(CallsTest, WhileAllAreClosedOneOfThemMayEnd) {
  const std::shared_ptr<Calls> calls = Calls::New();
  std::shared_ptr<Calls> other = Calls::New();
  Gate closing;
  calls->Add(Doing([&] {
               EXPECT_TRUE(closing.Wait());
               for (int i = 0; i < 1000; ++i) {
                 std::this_thread::yield();
               }
               other.reset();
             }),
             true);
  closing.Open();
  Calls::CloseAll();
  EXPECT_EQ(other, nullptr);
}

TEST(CallsTest, AChildByForkEndsNothingOfItsParents) {
  std::shared_ptr<Calls> calls = Calls::New();
  Gate ran;
  calls->Watch(std::make_shared<CountDown>(INT_MAX));
  calls->Add(Doing([&] { ran.Open(); }), true);
  ASSERT_TRUE(ran.Wait());
  const auto waits = Doing([] {});
  const pid_t child = fork();
  if (child == 0) {
    const std::vector<std::function<void()>> tries = {[&] { calls->Add(waits, false); },
                                                      [&] { calls->Wait(*waits); },
                                                      [&] { calls->WaitFor(*waits, kLong); }};
    size_t refused = 0;
    for (const std::function<void()>& one : tries) {
      try {
        one();
      } catch (const std::runtime_error&) {
        ++refused;
      }
    }
    Calls::CloseAll();
    calls.reset();
    _exit(refused == tries.size() ? 7 : 1);
  }
  ASSERT_GT(child, 0);
  const auto until = std::chrono::steady_clock::now() + kLong;
  int status = 0;
  pid_t ended = 0;
  while (ended == 0 && std::chrono::steady_clock::now() < until) {
    ended = waitpid(child, &status, WNOHANG);
    std::this_thread::yield();
  }
  if (ended == 0) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

TEST(CallsTest, ClosingRunsWhatWasAdded) {
  bool ran = false;
  {
    const std::shared_ptr<Calls> calls = Calls::New();
    calls->Add(Doing([&] { ran = true; }), false);
  }
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace muster_torch
