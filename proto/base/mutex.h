// std::mutex with clang's thread annotations (TSan cannot see into Abseil's mutex). Used by
// Mailbox, log, DiskThread and StoreGuard only.
#pragma once

#include <mutex>

#if defined(__clang__)
#define MUSTER_ANNOTATE(x) __attribute__((x))
#else
#define MUSTER_ANNOTATE(x)
#endif
#define MUSTER_GUARDED_BY(m) MUSTER_ANNOTATE(guarded_by(m))

namespace muster {

class MUSTER_ANNOTATE(capability("mutex")) Mutex {
 public:
  void Lock() MUSTER_ANNOTATE(acquire_capability()) { mutex_.lock(); }
  void Unlock() MUSTER_ANNOTATE(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class MUSTER_ANNOTATE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) MUSTER_ANNOTATE(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() MUSTER_ANNOTATE(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace muster
