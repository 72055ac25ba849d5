#include "agent/io/file_giver.h"

#include <sys/sendfile.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/base/clock.h"
#include "proto/base/peer_socket.h"

namespace muster {
namespace {

constexpr size_t kBytesATurn = 1u << 20;

}  // namespace

FileGiver::FileGiver(FileGiverOptions options)
    : options_(std::move(options)), last_came_(BootNow()) {}

void FileGiver::Watch(std::vector<pollfd>& fds) const {
  const bool room = takers_.size() < options_.takers_max;
  fds.push_back({options_.listening.get(), static_cast<int16_t>(room ? POLLIN : 0), 0});
  for (const Taker& taker : takers_) {
    const bool sends = !taker.out.empty() || taker.greeting->Done();
    const bool reads = taker.greeting->Wants() > 0;
    fds.push_back({taker.socket.get(),
                   static_cast<int16_t>((sends ? POLLOUT : 0) | (reads ? POLLIN : 0)), 0});
  }
}

void FileGiver::Go(const pollfd* fds) {
  const bool calls = fds->revents != 0;
  const absl::Time now = BootNow();
  for (auto taker = takers_.begin(); taker != takers_.end();) {
    ++fds;
    const bool stays = GoOn(*taker, fds->revents) && now - taker->moved < options_.stall_max;
    taker = stays ? std::next(taker) : takers_.erase(taker);
  }
  if (calls) {
    Accept();
  }
}

void FileGiver::Accept() {
  UniqueFd socket(
      accept4(options_.listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  std::unique_ptr<Greeting> greeting = socket.valid() ? options_.greet() : nullptr;
  if (greeting == nullptr) {
    return;
  }
  SetPeerOptions(socket.get());
  last_came_ = BootNow();
  takers_.push_back({std::move(socket), std::move(greeting), "", 0, last_came_});
}

bool FileGiver::GoOn(Taker& taker, short events) {
  if (events == 0) {
    return true;
  }
  if (!taker.greeting->Done() && !Talk(taker)) {
    return false;
  }
  return Flush(taker) && (!taker.greeting->Done() || !taker.out.empty() || SendBytes(taker));
}

bool FileGiver::Talk(Taker& taker) {
  while (taker.greeting->Wants() > 0) {
    char bytes[512];
    const size_t room = std::min(sizeof(bytes), taker.greeting->Wants());
    const ssize_t n = recv(taker.socket.get(), bytes, room, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      return true;
    }
    if (n <= 0 || !taker.greeting->Take({bytes, static_cast<size_t>(n)})) {
      return false;
    }
    taker.moved = BootNow();
    taker.out += taker.greeting->TakeOutput();
  }
  return true;
}

bool FileGiver::Flush(Taker& taker) {
  while (!taker.out.empty()) {
    const ssize_t n =
        send(taker.socket.get(), taker.out.data(), taker.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    taker.out.erase(0, static_cast<size_t>(n));
  }
  return true;
}

// The other side closes when it has them all.
bool FileGiver::SendBytes(Taker& taker) {
  auto at = static_cast<off_t>(taker.sent);
  const ssize_t n = sendfile(taker.socket.get(), options_.file, &at,
                             std::min<uint64_t>(options_.bytes - taker.sent, kBytesATurn));
  if (n < 0) {
    return errno == EAGAIN || errno == EINTR;
  }
  taker.sent += static_cast<uint64_t>(n);
  taker.moved = BootNow();
  if (taker.sent < options_.bytes) {
    return n > 0;
  }
  if (options_.on_given) {
    options_.on_given();
  }
  return false;
}

}  // namespace muster
