#include "agent/io/thread.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <latch>
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

// All signals are blocked on the new thread. Returns 0 or errno: not std::thread, which throws
// where a limit is reached.
int StartPthread(pthread_t* thread, void* (*body)(void*), void* argument,
                 const pthread_attr_t* attributes = nullptr) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the new thread inherits it
  const int error = pthread_create(thread, attributes, body, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

absl::Status NoThread(const char* name, int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot start a thread (", name, "): ", std::strerror(error),
                   "; raise the limit of processes (ulimit -u, pids.max of the cgroup) or of "
                   "memory, or start fewer workers per node"));
}

// Takes no memory: malloc would make an arena for each of these threads.
void* AwaitLatch(void* latch) {
  static_cast<std::latch*>(latch)->wait();
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

// For threads that do nothing. Of usual size each stack would lie in page tables of its own, and
// most would be unmapped at once: half of what such a thread costs.
class SmallStacks {
 public:
  SmallStacks() {
    CHECK(pthread_attr_init(&attributes_) == 0);
    CHECK(pthread_attr_getstacksize(&attributes_, &usual_) == 0);
    CHECK(pthread_attr_setstacksize(&attributes_, kBytes) == 0);
  }
  ~SmallStacks() { pthread_attr_destroy(&attributes_); }
  SmallStacks(const SmallStacks&) = delete;
  SmallStacks& operator=(const SmallStacks&) = delete;

  const pthread_attr_t* attributes() const { return &attributes_; }
  size_t usual() const { return usual_; }

 private:
  static constexpr size_t kBytes = 64 << 10;

  pthread_attr_t attributes_{};
  size_t usual_ = 0;
};

// 0 or errno: whether there is room for a mapping of so many bytes.
int CheckRoom(size_t bytes) {
  if (bytes == 0) {
    return 0;
  }
  void* room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
  return room == MAP_FAILED ? errno : munmap(room, bytes);
}

}  // namespace

absl::StatusOr<Thread> Thread::Start(const char* name, std::function<void()> body) {
  auto owned = std::make_unique<Body>(Body{name, std::move(body)});
  pthread_t thread{};
  const int error = StartPthread(&thread, &RunBody, owned.get());
  if (error != 0) {
    return NoThread(name, error);
  }
  static_cast<void>(owned.release());  // the thread's
  return Thread(thread);
}

absl::Status CheckThreads(uint32_t count) {
  // Waking another CPU for each would cost a start over ssh 2 to 3 ms.
  const OneCpu here;
  const SmallStacks stacks;
  std::latch all_counted(1);
  std::vector<Thread> threads;  // joined before the latch goes
  threads.reserve(count);
  int error = CheckRoom(count * stacks.usual());
  while (error == 0 && threads.size() < count) {
    pthread_t thread{};
    error = StartPthread(&thread, &AwaitLatch, &all_counted, stacks.attributes());
    if (error == 0) {
      threads.push_back(Thread(thread));
    }
  }
  all_counted.count_down();
  return error == 0 ? absl::OkStatus() : NoThread("to see how many may run", error);
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
