// Owners of libuv handles: a destructor closes, and a callback never comes after it. Loop thread
// only, but for UvAsync::Send. The loop has to run once more to free what was closed. Unref(): the
// handle alone does not keep the loop running.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"

namespace muster {

// A handle and its callback; lives until libuv has closed it, so a callback may destroy its own
// owner.
template <typename T>
struct UvBox {
  T handle{};
  std::function<void(int events)> callback;
};

template <typename T>
struct UvCloser {
  void operator()(UvBox<T>* box) const {
    box->handle.data = box;
    uv_close(reinterpret_cast<uv_handle_t*>(&box->handle), [](uv_handle_t* handle) {
      std::unique_ptr<UvBox<T>>(static_cast<UvBox<T>*>(handle->data));
    });
  }
};
template <typename T>
using UvOwned = std::unique_ptr<UvBox<T>, UvCloser<T>>;

template <typename T>
void UvUnref(const UvOwned<T>& box) {
  uv_unref(reinterpret_cast<uv_handle_t*>(&box->handle));
}

template <typename T>
UvOwned<T> MakeUvOwned(std::function<void(int)>&& callback) {
  auto box = std::make_unique<UvBox<T>>();
  box->callback = std::move(callback);
  box->handle.data = box.get();
  return UvOwned<T>(box.release());
}

class UvTimer {
 public:
  UvTimer(uv_loop_t* loop, std::function<void()> callback)
      : box_(MakeUvOwned<uv_timer_t>([callback = std::move(callback)](int) { callback(); })) {
    CHECK(uv_timer_init(loop, &box_->handle) == 0);
  }
  // Once, after `wait`, rounded up to a millisecond; replaces the earlier one.
  void StartAfter(absl::Duration wait) { Start(Milliseconds(wait), 0); }
  void StartEvery(absl::Duration period) { Start(Milliseconds(period), Milliseconds(period)); }
  void StartAt(absl::Time when) {
    if (when == absl::InfiniteFuture()) {
      Stop();
    } else {
      StartAfter(when - BootNow());
    }
  }
  void Stop() { uv_timer_stop(&box_->handle); }
  void Unref() { UvUnref(box_); }
  bool active() const {
    return uv_is_active(reinterpret_cast<const uv_handle_t*>(&box_->handle)) != 0;
  }

 private:
  static uint64_t Milliseconds(absl::Duration wait) {
    const int64_t ms = absl::ToInt64Milliseconds(wait + absl::Nanoseconds(999999));
    return ms > 0 ? static_cast<uint64_t>(ms) : 0;
  }
  void Start(uint64_t first_ms, uint64_t repeat_ms) {
    uv_update_time(box_->handle.loop);
    uv_timer_start(
        &box_->handle,
        [](uv_timer_t* timer) { static_cast<UvBox<uv_timer_t>*>(timer->data)->callback(0); },
        first_ms, repeat_ms);
  }

  UvOwned<uv_timer_t> box_;
};

// Readiness of a descriptor that is the caller's and outlives this.
class UvPoll {
 public:
  UvPoll(uv_loop_t* loop, int fd, std::function<void(int events)> callback)
      : box_(MakeUvOwned<uv_poll_t>(std::move(callback))) {
    CHECK(uv_poll_init(loop, &box_->handle, fd) == 0);
  }
  // False for what is always ready: files, some devices.
  static bool Watchable(uv_loop_t* loop, int fd) {
    auto box = std::make_unique<UvBox<uv_poll_t>>();
    if (uv_poll_init(loop, &box->handle, fd) != 0) {
      return false;
    }
    const UvOwned<uv_poll_t> initialised(box.release());  // so it has to be closed
    return true;
  }
  void Start(int events) {
    // An error of the descriptor comes as readiness for all that can be asked, for it may be how
    // the far end's close shows; the next call on it says which. Nothing more comes until Start.
    uv_poll_start(&box_->handle, events, [](uv_poll_t* poll, int status, int got) {
      static_cast<UvBox<uv_poll_t>*>(poll->data)
          ->callback(status == 0 ? got : UV_READABLE | UV_WRITABLE | UV_DISCONNECT);
    });
  }
  void Stop() { uv_poll_stop(&box_->handle); }
  // False also after an error.
  bool active() const {
    return uv_is_active(reinterpret_cast<const uv_handle_t*>(&box_->handle)) != 0;
  }
  void Unref() { UvUnref(box_); }

 private:
  UvOwned<uv_poll_t> box_;
};

class UvSignal {
 public:
  UvSignal(uv_loop_t* loop, int signo, std::function<void()> callback)
      : box_(MakeUvOwned<uv_signal_t>([callback = std::move(callback)](int) { callback(); })) {
    CHECK(uv_signal_init(loop, &box_->handle) == 0);
    uv_signal_start(
        &box_->handle,
        [](uv_signal_t* signal, int) {
          static_cast<UvBox<uv_signal_t>*>(signal->data)->callback(0);
        },
        signo);
  }
  void Unref() { UvUnref(box_); }

 private:
  UvOwned<uv_signal_t> box_;
};

// Once per turn of the loop, before it waits.
class UvPrepare {
 public:
  UvPrepare(uv_loop_t* loop, std::function<void()> callback)
      : box_(MakeUvOwned<uv_prepare_t>([callback = std::move(callback)](int) { callback(); })) {
    CHECK(uv_prepare_init(loop, &box_->handle) == 0);
    uv_prepare_start(&box_->handle, [](uv_prepare_t* prepare) {
      static_cast<UvBox<uv_prepare_t>*>(prepare->data)->callback(0);
    });
  }
  void Unref() { UvUnref(box_); }

 private:
  UvOwned<uv_prepare_t> box_;
};

// Turns of the loop until over(); false when nothing is left in the loop that could bring it about.
// (uv_run(UV_RUN_ONCE) alone goes on to wait although a timer has just brought it about.)
template <typename Over>
bool UvRunUntil(uv_loop_t* loop, Over over) {
  UvPrepare look(loop, [loop, &over] {
    if (over()) {
      uv_stop(loop);
    }
  });
  look.Unref();
  while (!over()) {
    if (uv_run(loop, UV_RUN_ONCE) == 0) {
      return over();
    }
  }
  return true;
}

// Every turn of the loop, which does not wait while it is started.
class UvIdle {
 public:
  UvIdle(uv_loop_t* loop, std::function<void()> callback)
      : box_(MakeUvOwned<uv_idle_t>([callback = std::move(callback)](int) { callback(); })) {
    CHECK(uv_idle_init(loop, &box_->handle) == 0);
  }
  void Start() {
    uv_idle_start(&box_->handle,
                  [](uv_idle_t* idle) { static_cast<UvBox<uv_idle_t>*>(idle->data)->callback(0); });
  }
  void Stop() { uv_idle_stop(&box_->handle); }

 private:
  UvOwned<uv_idle_t> box_;
};

class UvAsync {
 public:
  UvAsync(uv_loop_t* loop, std::function<void()> callback)
      : box_(MakeUvOwned<uv_async_t>([callback = std::move(callback)](int) { callback(); })) {
    const int error = uv_async_init(loop, &box_->handle, [](uv_async_t* async) {
      static_cast<UvBox<uv_async_t>*>(async->data)->callback(0);
    });
    CHECK(error == 0);
  }
  // Any thread; calls may coalesce.
  void Send() { uv_async_send(&box_->handle); }
  void Ref() { uv_ref(reinterpret_cast<uv_handle_t*>(&box_->handle)); }
  void Unref() { UvUnref(box_); }

 private:
  UvOwned<uv_async_t> box_;
};

}  // namespace muster
