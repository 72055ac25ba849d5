#include "agent/io/thread.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"

namespace muster {
namespace {

struct Body {
  std::string name;
  std::function<void()> run;
};

void* RunBody(void* argument) {
  const std::unique_ptr<Body> body(static_cast<Body*>(argument));
  prctl(PR_SET_NAME, body->name.c_str());
  body->run();
  return nullptr;
}

// Keeps this thread, and those it starts meanwhile, on the CPU where it runs.
class OneCpu {
 public:
  OneCpu() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(std::max(sched_getcpu(), 0), &one);
    pinned_ = sched_getaffinity(0, sizeof(before_), &before_) == 0 &&
              sched_setaffinity(0, sizeof(one), &one) == 0;
  }
  ~OneCpu() {
    if (pinned_) {
      sched_setaffinity(0, sizeof(before_), &before_);
    }
  }
  OneCpu(const OneCpu&) = delete;
  OneCpu& operator=(const OneCpu&) = delete;

 private:
  cpu_set_t before_{};
  bool pinned_ = false;
};

}  // namespace

absl::StatusOr<Thread> Thread::Start(const char* name, std::function<void()> body) {
  auto owned = std::make_unique<Body>(Body{name, std::move(body)});
  pthread_t thread{};
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits it
  // Not std::thread, which throws where a limit is reached.
  const int error = pthread_create(&thread, nullptr, &RunBody, owned.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot start a thread (", name, "): ", std::strerror(error),
                     "; raise the limit of processes (ulimit -u, pids.max of the cgroup) or of "
                     "memory, or start fewer workers per node"));
  }
  static_cast<void>(owned.release());  // the thread's
  return Thread(thread);
}

absl::Status CheckThreads(uint32_t count) {
  // Waking another CPU for each would cost a start over ssh 2 to 3 ms.
  const OneCpu here;
  std::promise<void> all_counted;
  const std::shared_future<void> end = all_counted.get_future().share();
  std::vector<Thread> threads;
  threads.reserve(count);
  absl::Status status;
  while (status.ok() && threads.size() < count) {
    absl::StatusOr<Thread> thread = Thread::Start("muster-check", [end] { end.wait(); });
    status = thread.status();
    if (thread.ok()) {
      threads.push_back(*std::move(thread));
    }
  }
  all_counted.set_value();
  return status;
}

Thread::Thread(Thread&& other) noexcept
    : thread_(other.thread_), ours_(std::exchange(other.ours_, false)) {}

Thread::~Thread() {
  if (ours_) {
    CHECK(pthread_join(thread_, nullptr) == 0);
  }
}

void Thread::Detach() {
  CHECK(std::exchange(ours_, false));
  CHECK(pthread_detach(thread_) == 0);
}

}  // namespace muster
