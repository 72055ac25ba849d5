#include "agent/io/process_tree.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "proto/base/clock.h"
#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

constexpr absl::Duration kWithin = absl::Seconds(60);

// Forks `body`, which does not return from its process alive.
pid_t Child(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    body();
    _exit(99);
  }
  return pid;
}

[[noreturn]] void WaitForEver() {
  for (;;) {
    pause();
  }
}

class ProcessTreeTest : public ::testing::Test {
 protected:
  ProcessTreeTest() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~ProcessTreeTest() override {
    KillDescendants(kWithin, [](pid_t, int, uint64_t) {});
  }
  KillResult Kill() {
    return KillDescendants(kWithin,
                           [this](pid_t pid, int status, uint64_t) { reaped_[pid] = status; });
  }
  std::map<pid_t, int> reaped_;
};

TEST_F(ProcessTreeTest, NobodyBelow) {
  EXPECT_TRUE(Descendants().empty());
  EXPECT_TRUE(Kill().survivors.empty());
}

TEST_F(ProcessTreeTest, AGroupStandsStillWhenAllOfItDo) {
  const pid_t child = Child(WaitForEver);
  setpgid(child, child);
  EXPECT_FALSE(StandStill({child}));
  EXPECT_TRUE(StandStill({child + 1}));  // which it is not of
  kill(child, SIGSTOP);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(StandStill({child}));
}

TEST_F(ProcessTreeTest, FindsWhatIsBelowAnother) {
  TestPipe ready = MakePipe();
  const pid_t child = Child([&ready] {
    const pid_t below = Child(WaitForEver);
    EXPECT_EQ(write(ready.writer.get(), &below, sizeof(below)), ssize_t{sizeof(below)});
    WaitForEver();
  });
  pid_t below = 0;
  ASSERT_EQ(read(ready.reader.get(), &below, sizeof(below)), ssize_t{sizeof(below)});
  EXPECT_EQ(ProcessesBelow(getpid()), (std::vector<pid_t>{child, below}));
  EXPECT_EQ(ProcessesBelow(child), std::vector<pid_t>{below});
  EXPECT_TRUE(ProcessesBelow(below).empty());
}

TEST_F(ProcessTreeTest, ReadsTheTimesOfEveryThread) {
  TestPipe hold = MakePipe();
  std::thread other([&hold] {
    char byte = 0;
    EXPECT_EQ(read(hold.reader.get(), &byte, 1), 0);
  });
  std::map<int32_t, ThreadTimes> times;
  ReadThreadTimes(getpid(), 1, times);
  EXPECT_EQ(times.size(), 1u);
  ReadThreadTimes(getpid(), 100, times);
  EXPECT_EQ(times.size(), 2u);
  EXPECT_GT(times[getpid()].ran, absl::ZeroDuration());
  EXPECT_GE(ReadThreadTimes(getpid()).ran, times[getpid()].ran);
  hold.writer.Reset();
  other.join();
}

// As long as nobody has reaped it.
TEST_F(ProcessTreeTest, ReadsTheTimesOfOneThatHasEnded) {
  const pid_t child = Child([] { _exit(0); });
  siginfo_t end{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT), 0);
  EXPECT_GT(ReadThreadTimes(child).ran, absl::ZeroDuration());
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(ReadThreadTimes(child).ran, absl::ZeroDuration());
}

TEST_F(ProcessTreeTest, FindsAndEndsSessionsAndDoubleForks) {
  TestPipe ready = MakePipe();
  const pid_t child = Child([&ready] {
    Child([&ready] {
      setsid();
      if (fork() != 0) {
        _exit(0);  // its child becomes ours: we are the sub-reaper
      }
      (void)!write(ready.writer.get(), "a", 1);
      WaitForEver();
    });
    Child([&ready] {
      signal(SIGTERM, SIG_IGN);
      (void)!write(ready.writer.get(), "b", 1);
      WaitForEver();
    });
    WaitForEver();
  });
  ready.writer.Reset();
  EXPECT_EQ(ReadBytes(ready.reader.get(), 2).size(), 2u);
  const std::vector<pid_t> below = Descendants();
  EXPECT_GE(below.size(), 3u);  // the one in the middle may be there as a zombie
  EXPECT_EQ(std::count(below.begin(), below.end(), child), 1);
  EXPECT_TRUE(Kill().survivors.empty());
  EXPECT_EQ(ReadToEnd(ready.reader.get()), "");  // nobody holds it
  ASSERT_EQ(reaped_.count(child), 1u);
  EXPECT_EQ(WTERMSIG(reaped_[child]), SIGKILL);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
}

// Each process of the chain lives only until it has forked the next, in a session of its own.
TEST_F(ProcessTreeTest, CatchesAChainThatForksAway) {
  TestPipe held = MakePipe();
  const absl::Time give_up = BootNow() + absl::Seconds(40);  // no runaway when the test fails
  for (int i = 0; i < 4; ++i) {
    Child([&held, give_up] {
      (void)!write(held.writer.get(), "a", 1);
      while (BootNow() < give_up) {
        if (fork() != 0) {
          _exit(0);
        }
        setsid();
      }
      (void)!write(held.writer.get(), "escaped", 7);
      _exit(0);
    });
  }
  held.writer.Reset();
  EXPECT_EQ(ReadBytes(held.reader.get(), 4), "aaaa");
  EXPECT_TRUE(Kill().survivors.empty());
  EXPECT_EQ(ReadToEnd(held.reader.get()), "");
}

// The bound holds even while there is always something new to reap.
TEST_F(ProcessTreeTest, ReturnsInTimeWhenNoTimeIsGiven) {
  TestPipe ready = MakePipe();
  for (int i = 0; i < 50; ++i) {
    Child(WaitForEver);
  }
  size_t reaped = 0;
  const KillResult result =
      KillDescendants(-absl::Seconds(1), [&](pid_t, int, uint64_t) { ++reaped; });
  EXPECT_EQ(result.survivors.size() + reaped, 50u);  // each is in one of the two
}

}  // namespace
}  // namespace muster
