#include "agent/io/program_giver.h"

#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "proto/base/clock.h"
#include "proto/base/proof_text.h"

namespace muster {
namespace {

constexpr size_t kBytesATurn = 256u << 10;  // the loop has other work

// What the process has but for standard ones and these; on an old kernel it keeps the rest.
void CloseOthers(int one, int other) {
  const auto [low, high] = std::minmax({static_cast<unsigned>(one), static_cast<unsigned>(other)});
  for (const auto& [first, last] :
       {std::pair{3u, low - 1}, std::pair{low + 1, high - 1}, std::pair{high + 1, ~0u}}) {
    if (first <= last) {
      syscall(SYS_close_range, first, last, 0u);
    }
  }
}

}  // namespace

bool GiveBeside(ProgramGiverOptions options) {
  const pid_t agent = getpid();
  const pid_t child = fork();
  if (child != 0) {
    return child > 0;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != agent) {
    _exit(0);
  }
  prctl(PR_SET_NAME, "muster-giver");
  CloseOthers(options.listening.get(), options.program.get());
  uv_loop_t loop;
  uv_loop_init(&loop);
  const ProgramGiver giver(&loop, std::move(options));
  UvTimer until_killed(&loop, [] {});  // the agent has no use for the news that this has ended
  until_killed.StartEvery(absl::Hours(1));
  uv_run(&loop, UV_RUN_DEFAULT);
  _exit(0);
}

ProgramGiver::ProgramGiver(uv_loop_t* loop, ProgramGiverOptions options)
    : loop_(loop),
      options_(std::move(options)),
      called_(BootNow()),
      door_(std::make_unique<UvPoll>(loop, options_.listening.get(), [this](int) { Accept(); })),
      every_while_(loop, [this] { LookAround(); }) {
  struct stat info {};
  bytes_ = fstat(options_.program.get(), &info) == 0 ? info.st_size : 0;
  door_->Start(UV_READABLE);
  door_->Unref();
  every_while_.StartEvery(std::min(options_.stall_max, options_.idle_max) / 4);
  every_while_.Unref();
}

void ProgramGiver::Accept() {
  UniqueFd socket(
      accept4(options_.listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) {
    return;
  }
  called_ = BootNow();
  takers_.push_front({std::move(socket), nullptr, "", false, 0, called_});
  const auto taker = takers_.begin();
  taker->poll = std::make_unique<UvPoll>(loop_, taker->socket.get(), [this, taker](int) {
    if (!GoOn(*taker)) {
      Drop(taker);
    }
  });
  taker->poll->Start(UV_READABLE);
  taker->poll->Unref();
  if (takers_.size() >= options_.takers_max) {
    door_->Stop();
  }
}

bool ProgramGiver::GoOn(Taker& taker) { return taker.gets ? Give(taker) : Listen(taker); }

// Until the whole token is there.
bool ProgramGiver::Listen(Taker& taker) {
  char bytes[256];
  const ssize_t n = recv(taker.socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  if (n < 0) {
    return errno == EAGAIN || errno == EINTR;
  }
  taker.said.append(bytes, static_cast<size_t>(n));
  const size_t wanted = options_.token.size() + 1;
  if (n == 0 || taker.said.size() > wanted) {
    return false;
  }
  if (taker.said.size() == wanted) {
    if (!ConstantTimeEqual(taker.said, options_.token + "\n")) {
      return false;
    }
    taker.gets = true;
    taker.poll->Start(UV_WRITABLE);
  }
  return true;
}

bool ProgramGiver::Give(Taker& taker) {
  off_t at = taker.sent;
  const auto left = static_cast<uint64_t>(bytes_ - taker.sent);
  const ssize_t n = sendfile(taker.socket.get(), options_.program.get(), &at,
                             std::min<uint64_t>(left, kBytesATurn));
  if (n < 0) {
    return errno == EAGAIN || errno == EINTR;
  }
  taker.moved = BootNow();
  taker.sent += n;
  if (taker.sent == bytes_ && options_.on_given) {
    options_.on_given();
  }
  return n > 0 && taker.sent < bytes_;
}

void ProgramGiver::LookAround() {
  const absl::Time now = BootNow();
  for (auto taker = takers_.begin(); taker != takers_.end();) {
    const auto one = taker++;
    if (now - one->moved >= options_.stall_max) {
      Drop(one);
    }
  }
  if (takers_.empty() && now - called_ >= options_.idle_max) {
    every_while_.Stop();
    door_.reset();
    options_.listening.Reset();
  }
}

void ProgramGiver::Drop(Takers::iterator taker) {
  takers_.erase(taker);
  if (door_ != nullptr) {
    door_->Start(UV_READABLE);
    door_->Unref();
  }
}

}  // namespace muster
