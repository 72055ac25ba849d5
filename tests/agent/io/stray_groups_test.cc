#include "agent/io/stray_groups.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <set>

#include "agent/io/process_tree.h"
#include "proto/base/await_fd.h"
#include "proto/base/clock.h"
#include "proto/base/unique_fd.h"
#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

pid_t Fork(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    body();
    for (;;) {
      pause();
    }
  }
  return pid;
}

class StrayGroupsTest : public testing::Test {
 protected:
  StrayGroupsTest() { prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~StrayGroupsTest() override {
    KillDescendants(absl::Seconds(60), [](pid_t, int, uint64_t) {});
  }

  // A process in a session of its own, below a keeper that does `keep` with it and is then killed.
  // The signal that ended it within a second; 0: it lives.
  int AfterTheKeeper(const std::function<void(StrayGroups&, pid_t stray)>& keep) {
    TestPipe up = MakePipe();
    TestPipe kept = MakePipe();
    const pid_t keeper = Fork([&] {
      const pid_t stray = Fork([&] {
        setsid();
        EXPECT_EQ(write(up.writer.get(), "u", 1), 1);
      });
      EXPECT_EQ(ReadBytes(up.reader.get(), 1), "u");
      static LifePipe low;
      EXPECT_TRUE(low.Open());
      static StrayGroups groups(low);
      keep(groups, stray);
      const pid_t said = HasFailure() ? -stray : stray;
      EXPECT_EQ(write(kept.writer.get(), &said, sizeof(said)), ssize_t{sizeof(said)});
    });
    kept.writer.Reset();
    pid_t stray = 0;
    EXPECT_EQ(read(kept.reader.get(), &stray, sizeof(stray)), ssize_t{sizeof(stray)});
    EXPECT_GT(stray, 0) << "what the keeper expected did not come";
    stray = std::abs(stray);
    kill(keeper, SIGKILL);
    EXPECT_EQ(waitpid(keeper, nullptr, 0), keeper);
    const UniqueFd ended(static_cast<int>(syscall(SYS_pidfd_open, stray, 0)));
    EXPECT_TRUE(ended.valid());
    int status = 0;
    return AwaitFd(ended.get(), POLLIN, BootNow() + absl::Seconds(1), "its end").ok() &&
                   waitpid(stray, &status, 0) == stray && WIFSIGNALED(status)
               ? WTERMSIG(status)
               : 0;
  }
};

TEST_F(StrayGroupsTest, WhatIsKnownGoesWithItsKeeper) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(AfterTheKeeper([](StrayGroups& groups, pid_t stray) { groups.Keep({stray}); }),
              SIGKILL);
  }
}

TEST_F(StrayGroupsTest, WhatIsNotKnownDoesNot) {
  EXPECT_EQ(AfterTheKeeper([](StrayGroups&, pid_t) {}), 0);
  EXPECT_EQ(AfterTheKeeper([](StrayGroups& groups, pid_t stray) {
              groups.Keep({stray});
              groups.End();
            }),
            0);
}

TEST_F(StrayGroupsTest, ManyAreKeptAndSomeGo) {
  EXPECT_EQ(AfterTheKeeper([](StrayGroups& groups, pid_t stray) {
              std::set<pid_t> all = {stray};
              for (int i = 0; i < 150; ++i) {
                all.insert(Fork([] { setpgid(0, 0); }));
              }
              groups.Keep(all);
              EXPECT_EQ(groups.size(), StrayGroups::kGroupsMax);
              groups.Keep({stray});
              EXPECT_EQ(groups.size(), 1U);
            }),
            SIGKILL);
}

TEST_F(StrayGroupsTest, ALookFindsThem) {
  const absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(StrayGroups(LifePipe()).next(), absl::InfiniteFuture());
  EXPECT_EQ(AfterTheKeeper([now](StrayGroups& groups, pid_t) {
              groups.Begin(now);
              const absl::Time first = groups.next();
              EXPECT_GT(first, now);
              groups.Look(now, {});  // it is not time yet
              EXPECT_EQ(groups.size(), 0U);
              groups.Look(first, {});
              EXPECT_EQ(groups.size(), 1U);
              EXPECT_GT(groups.next(), first);
            }),
            SIGKILL);
}

TEST_F(StrayGroupsTest, AWorkersOwnGroupIsLeftToIt) {
  EXPECT_EQ(AfterTheKeeper([](StrayGroups& groups, pid_t stray) {
              groups.Begin(absl::UnixEpoch());
              groups.Look(groups.next(), {{stray, 0}});
              EXPECT_EQ(groups.size(), 0U);
            }),
            0);
}

}  // namespace
}  // namespace muster
