#include "worker_sdk/base/forks.h"

#include <pthread.h>

namespace muster {

std::atomic<uint32_t> forks_so_far{0};

void CountForks() {
  static const int once = pthread_atfork(nullptr, nullptr, [] { ++forks_so_far; });
  (void)once;  // without memory for it, a child is not told apart
}

}  // namespace muster
