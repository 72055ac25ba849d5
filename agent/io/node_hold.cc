#include "agent/io/node_hold.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/io/abstract_address.h"
#include "agent/io/small_file.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr size_t kBootIdBytes = 36;  // without the end of its line
constexpr int kWaitersMax = 16;      // a starter has one agent at a time on its way to a node

absl::Status Unavailable(const char* what) {
  return absl::UnavailableError(
      absl::StrCat("cannot see whether an earlier agent of this job lives here: ", what, ": ",
                   std::strerror(errno)));
}

// Until the holder's end, which ends the connection, or `until`.
absl::Status AwaitHolder(const AbstractAddress& address, absl::Time until, absl::Duration within) {
  const UniqueFd holder(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!holder.valid()) {
    return Unavailable("socket");
  }
  if (connect(holder.get(), address.get(), address.size()) != 0) {
    return errno == ECONNREFUSED ? absl::OkStatus() : Unavailable("connect");
  }
  ucred who{};
  socklen_t size = sizeof(who);
  if (getsockopt(holder.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) {
    return Unavailable("getsockopt");
  }
  if (who.uid != getuid()) {
    return absl::UnavailableError(absl::StrCat("process ", who.pid, " of user id ", who.uid,
                                               " has taken the name of this job's agent"));
  }
  pollfd fd = {holder.get(), POLLIN, 0};
  while (fd.revents == 0) {
    const absl::Duration left = until - BootNow();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrCat(
          "an earlier agent of this job (process ", who.pid, ") or its shepherd still lives here ",
          ShortDuration(within), " later: no worker was started"));
    }
    if (poll(&fd, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) < 0 && errno != EINTR) {
      return Unavailable("poll");
    }
  }
  return absl::OkStatus();
}

// By a caller that holds `name`.
Hold HoldOf(const std::string& name) {
  struct stat network {};
  const std::string boot = ReadHead("/proc/sys/kernel/random/boot_id", kBootIdBytes);
  if (boot.empty() || stat("/proc/self/ns/net", &network) != 0) {
    return {};
  }
  return {absl::StrCat(boot, "/", network.st_ino, "/", getuid(), "/", name),
          static_cast<uint64_t>(absl::ToUnixNanos(BootNow()))};
}

}  // namespace

absl::StatusOr<NodeHold> TakeNodeHold(const std::string& name, absl::Duration within) {
  if (name.empty() || name.size() > kHoldNameBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("hold: want 1..", kHoldNameBytesMax, " characters, got ", name.size()));
  }
  const AbstractAddress address(absl::StrCat("muster-hold/", getuid(), "/", name));
  const absl::Time until = BootNow() + within;
  UniqueFd mine(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!mine.valid()) {
    return Unavailable("socket");
  }
  while (bind(mine.get(), address.get(), address.size()) != 0) {
    if (errno != EADDRINUSE) {
      return Unavailable("bind");
    }
    if (absl::Status status = AwaitHolder(address, until, within); !status.ok()) {
      return status;
    }
  }
  if (listen(mine.get(), kWaitersMax) != 0) {
    return Unavailable("listen");
  }
  return NodeHold{std::move(mine), HoldOf(name)};
}

}  // namespace muster
