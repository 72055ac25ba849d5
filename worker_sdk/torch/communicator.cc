#include "worker_sdk/torch/communicator.h"

#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#if TORCH_VERSION_MAJOR >= 2
#define MUSTER_TORCH_ERROR DistBackendError
#else
#define MUSTER_TORCH_ERROR Error
#endif

namespace muster_torch {
namespace {

// Why a function of the store failed does not pass through libmuster: it waits here.
struct StoreCalls {
  c10d::Store& store;
  const std::chrono::milliseconds timeout;  // 0: the store's own
  std::exception_ptr error;

  template <typename Function>
  int Try(const Function& function) {
    try {
      return function();
    } catch (...) {
      error = std::current_exception();
      return 1;
    }
  }
  static int Set(void* context, const char* key, const void* value, int64_t bytes) {
    auto& self = *static_cast<StoreCalls*>(context);
    return self.Try([&] {
      const auto* begin = static_cast<const uint8_t*>(value);
      self.store.set(key, std::vector<uint8_t>(begin, begin + bytes));
      return 0;
    });
  }
  static int Get(void* context, const char* key, void* value, int64_t bytes_max, int64_t* bytes) {
    auto& self = *static_cast<StoreCalls*>(context);
    return self.Try([&] {
      if (self.timeout.count() > 0) {
        self.store.wait({key}, self.timeout);
      }
      const std::vector<uint8_t> got = self.store.get(key);
      *bytes = static_cast<int64_t>(got.size());
      if (*bytes > bytes_max) {
        return 1;
      }
      std::copy(got.begin(), got.end(), static_cast<uint8_t*>(value));
      return 0;
    });
  }
};

std::atomic<bool> lost{false};

struct Kept {
  std::mutex mutex;
  std::vector<std::pair<CommunicatorPtr, std::shared_ptr<void>>> groups;
};

std::atomic<pid_t> ending{0};  // whose interpreter ends; not that of a child by fork()

}  // namespace

bool TakeLost() { return lost.exchange(false); }

void Check(int code) {
  if (code == MUSTER_UNAVAILABLE) {
    lost = true;
  }
  TORCH_CHECK_WITH(MUSTER_TORCH_ERROR, code == MUSTER_OK, "muster: ", muster_last_error());
}

Communicator::Communicator(c10d::Store& store, int rank, int size,
                           std::chrono::milliseconds timeout) {
  StoreCalls calls{store, timeout, nullptr};
  const muster_store given = {&calls, &StoreCalls::Set, &StoreCalls::Get};
  const double seconds = std::chrono::duration<double>(timeout).count();
  const int code = muster_init_at_store(&given, rank, size, seconds, &comm_);
  if (calls.error) {
    std::rethrow_exception(calls.error);
  }
  Check(code);
}

void BeginToEnd() {
  ending = getpid();
  muster_free_at_exit(nullptr);  // what is asked for first comes last: after the interpreter's end
}

void EndInTime(CommunicatorPtr comm, std::shared_ptr<void> held) {
  if (ending != getpid()) {
    return;
  }
  muster_free_at_exit(comm->get());
  // Never destroyed: what they hold is used until the process is gone.
  static auto& kept = *new Kept;
  const std::lock_guard<std::mutex> lock(kept.mutex);
  kept.groups.emplace_back(std::move(comm), std::move(held));
}

}  // namespace muster_torch
