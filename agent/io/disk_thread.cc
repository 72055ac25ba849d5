#include "agent/io/disk_thread.h"

#include <semaphore.h>

#include <atomic>
#include <cerrno>
#include <utility>
#include <vector>

#include "agent/io/thread.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/base/mailbox.h"
#include "proto/base/mutex.h"

namespace muster {

namespace {

// Beside kDiskWorksMax, whoever has run one may run a last one that closes.
constexpr size_t kQueueMax = 2 * kDiskWorksMax + 16;

}  // namespace

struct DiskThread::Shared {
  explicit Shared(UvAsync* wake)
      : works(kQueueMax, [this] { sem_post(&posted); }), loop_wake(wake) {
    CHECK(sem_init(&posted, 0, 0) == 0);
  }
  ~Shared() { sem_destroy(&posted); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  void RunAll();
  void TellLoop() {
    MutexLock lock(mutex);  // uv_async_send calls nobody back
    if (loop_wake != nullptr) {
      loop_wake->Send();
    }
  }
  void ForgetLoop() {
    MutexLock lock(mutex);
    loop_wake = nullptr;
  }

  sem_t posted;
  Mailbox<std::function<void()>> works;  // an empty one: no more will come
  std::atomic<uint64_t> finished = 0;
  std::atomic<bool> alive = true;  // the DiskThread; written on the loop thread
  Mutex mutex;
  UvAsync* loop_wake MUSTER_GUARDED_BY(mutex);  // null once the DiskThread is gone
};

void DiskThread::Shared::RunAll() {
  while (true) {
    while (sem_wait(&posted) != 0) {
      CHECK(errno == EINTR);
    }
    for (std::function<void()>& work : works.TakeAll()) {
      if (!work) {
        return;
      }
      work();
      work = nullptr;  // what it owned goes before anybody hears of it
      ++finished;
      TellLoop();
    }
  }
}

DiskThread::~DiskThread() {
  if (shared_ == nullptr) {
    return;
  }
  shared_->alive = false;
  shared_->ForgetLoop();
  CHECK(shared_->works.Post(nullptr));
}

absl::Status DiskThread::Start() {
  if (shared_ != nullptr) {
    return absl::OkStatus();
  }
  wake_.emplace(loop_, [this] { Deliver(); });
  auto shared = std::make_shared<Shared>(&*wake_);
  absl::StatusOr<Thread> thread = Thread::Start("disk", [shared] { shared->RunAll(); });
  if (!thread.ok()) {
    wake_.reset();
    return thread.status();
  }
  thread->Detach();
  shared_ = std::move(shared);
  return absl::OkStatus();
}

void DiskThread::Run(std::function<void()> work, std::function<void()> done) {
  CHECK(work != nullptr);
  CHECK(shared_ != nullptr);
  if (dones_.empty()) {
    wake_->Ref();
  }
  dones_.push_back(std::move(done));
  if (before_each_) {
    work = [before = before_each_, work = std::move(work)] {
      before();
      work();
    };
  }
  CHECK(shared_->works.Post(std::move(work)));
}

void DiskThread::Deliver() {
  const std::shared_ptr<Shared> shared = shared_;  // a `done` may destroy us
  for (const uint64_t finished = shared->finished; shared->alive && delivered_ < finished;) {
    const std::function<void()> done = std::move(dones_.front());
    dones_.pop_front();
    ++delivered_;
    if (dones_.empty()) {
      wake_->Unref();
    }
    if (done) {
      done();
    }
  }
}

}  // namespace muster
