#include "agent/io/cpu_claim_sockets.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/core/cpu_claims.h"
#include "agent/io/small_file.h"
#include "proto/base/clock.h"
#include "proto/base/env_names.h"

namespace muster {
namespace {

constexpr size_t kUnixSocketsBytesMax = 4u << 20;  // some 50,000 sockets
constexpr long kTurnPauseNs = 1'000'000;

UniqueFd Socket() { return UniqueFd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

// 0, or why not. A name that another has is EADDRINUSE.
int Bind(const UniqueFd& socket, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 ? 0 : errno;
}

// One of this user's agents has it at a time.
UniqueFd TakeTurn(absl::Duration within) {
  const std::string name = absl::StrCat("muster-cpus-turn/", geteuid());
  const absl::Time until = BootNow() + within;
  UniqueFd turn = Socket();
  while (turn.valid() && Bind(turn, name) == EADDRINUSE && BootNow() < until) {
    const timespec pause = {0, kTurnPauseNs};
    nanosleep(&pause, nullptr);
  }
  return turn;
}

}  // namespace

void CpuClaimSockets::Choose(absl::FunctionRef<CpuSet(const CpuSet& taken)> choose) {
  if (std::getenv(kEnvAgentFd) != nullptr) {
    choose({});
    return;
  }
  const UniqueFd turn = TakeTurn(kTurnWithin);
  sockets_.clear();
  const CpuSet taken = ClaimedCpus(geteuid(), ReadHead("/proc/net/unix", kUnixSocketsBytesMax));
  for (const std::string& name :
       ClaimNames(geteuid(), static_cast<uint32_t>(getpid()), choose(taken))) {
    UniqueFd socket = Socket();
    if (socket.valid() && Bind(socket, name) == 0) {
      sockets_.push_back(std::move(socket));
    }
  }
}

}  // namespace muster
