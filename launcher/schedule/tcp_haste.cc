#include "launcher/schedule/tcp_haste.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"

namespace muster {
namespace {

constexpr absl::Duration kHastenFor = absl::Seconds(2);
constexpr absl::Duration kHastenEvery = absl::Milliseconds(4);  // against the kernel's 40
// A child that calls by way of another has no connection: it is looked for ever more seldom.
constexpr absl::Duration kLookAfterMax = absl::Milliseconds(64);

bool IsConnection(const UniqueFd& fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return getsockopt(fd.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         info.tcpi_state != TCP_CLOSE && info.tcpi_state != TCP_LISTEN;
}

void SetFlag(const UniqueFd& socket, int option) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, option, &on, sizeof on);
}

UniqueFd ConnectionOf(pid_t pid) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(
      opendir(absl::StrCat("/proc/", pid, "/fd").c_str()), closedir);
  if (!process.valid() || folder == nullptr) {
    return {};
  }
  while (const dirent* entry = readdir(folder.get())) {
    int number = 0;
    if (!absl::SimpleAtoi(entry->d_name, &number) || number <= STDERR_FILENO) {
      continue;
    }
    UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_getfd, process.get(), number, 0)));
    if (fd.valid() && IsConnection(fd)) {
      return fd;
    }
  }
  return {};
}

}  // namespace

void TcpHaste::Add(pid_t child) {
  children_[child].until = BootNow() + kHastenFor;
  if (!timer_.active()) {
    timer_.StartEvery(kHastenEvery);
  }
}

void TcpHaste::Drop(pid_t child) { children_.erase(child); }

void TcpHaste::HastenAll() {
  const absl::Time now = BootNow();
  for (auto it = children_.begin(); it != children_.end();) {
    if (now >= it->second.until) {
      it = children_.erase(it);
    } else {
      Hasten(it->first, it->second, now);
      ++it;
    }
  }
  if (children_.empty()) {
    timer_.Stop();
  }
}

// The kernel takes the wish to acknowledge at once for the next few only, so it is told again.
void TcpHaste::Hasten(pid_t child, Connection& connection, absl::Time now) {
  if (connection.socket.valid() && !IsConnection(connection.socket)) {
    connection.socket.Reset();  // one address did not answer; the child tries the next
  }
  if (!connection.socket.valid() && now >= connection.look_at) {
    connection.look_after = std::min(connection.look_after + kHastenEvery, kLookAfterMax);
    connection.look_at = now + connection.look_after;
    connection.socket = ConnectionOf(child);
    if (connection.socket.valid()) {
      SetFlag(connection.socket, TCP_NODELAY);
    }
  }
  if (connection.socket.valid()) {
    SetFlag(connection.socket, TCP_QUICKACK);
  }
}

}  // namespace muster
