#include "agent/io/thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "tests/agent/io/no_threads.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Thread, HasItsNameAndNoSignals) {
  char name[16] = "";
  bool blocked = false;
  std::promise<void> named;  // it has a name when Start returns
  {
    const absl::StatusOr<Thread> thread = Thread::Start("a-name", [&] {
      named.get_future().wait();
      pthread_getname_np(pthread_self(), name, sizeof(name));
      sigset_t mask;
      pthread_sigmask(SIG_SETMASK, nullptr, &mask);
      blocked = sigismember(&mask, SIGTERM) == 1 && sigismember(&mask, SIGCHLD) == 1;
    });
    ASSERT_TRUE(thread.ok()) << thread.status();
    named.set_value();
  }  // its end is waited for
  EXPECT_STREQ(name, "a-name");
  EXPECT_TRUE(blocked);
  sigset_t ours;
  pthread_sigmask(SIG_SETMASK, nullptr, &ours);
  EXPECT_EQ(sigismember(&ours, SIGTERM), 0);
}

TEST(Thread, DetachedItIsNotWaitedFor) {
  // The thread's as well as ours: either may be the last.
  const auto ended = std::make_shared<std::promise<void>>();
  const auto go = std::make_shared<std::promise<void>>();
  {
    absl::StatusOr<Thread> thread = Thread::Start("detached", [ended, go] {
      go->get_future().wait();
      ended->set_value();
    });
    ASSERT_TRUE(thread.ok()) << thread.status();
    thread->Detach();
  }
  std::future<void> end = ended->get_future();
  go->set_value();
  EXPECT_EQ(end.wait_for(std::chrono::seconds(30)), std::future_status::ready);
}

TEST(Thread, AtALimitTheErrorSaysWhichAndWhatToDo) {
  const NoThreads none;
  const absl::Status status = Thread::Start("disk", [] { ADD_FAILURE(); }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("thread (disk)"), HasSubstr("ulimit -u"), HasSubstr("pids.max")));
}

TEST(CheckThreads, CountsThoseThatRunAtTheSameTime) {
  EXPECT_TRUE(CheckThreads(kThreadsOfGrpc).ok());
  const NoThreads none;
  EXPECT_TRUE(CheckThreads(0).ok());
  EXPECT_EQ(CheckThreads(1).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace muster
