#include "agent/io/cpu_claim_sockets.h"

#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/core/cpu_claims.h"
#include "agent/io/abstract_address.h"
#include "agent/io/small_file.h"
#include "proto/base/clock.h"
#include "proto/base/env_names.h"
#include "proto/base/log.h"

namespace muster {
namespace {

constexpr size_t kUnixSocketsBytesMax = 4u << 20;  // some 50,000 sockets
constexpr long kTurnPauseNs = 1'000'000;

UniqueFd Socket() { return UniqueFd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

// 0, or why not. A name that another has is EADDRINUSE.
int Bind(const UniqueFd& socket, const std::string& name) {
  const AbstractAddress address(name);
  return bind(socket.get(), address.get(), address.size()) == 0 ? 0 : errno;
}

// One of this user's agents has it at a time, until it closes the socket given back; each where the
// system has no such names. Invalid: not had within the time.
UniqueFd TakeTurn(absl::Duration within) {
  const std::string name = absl::StrCat("muster-cpus-turn/", geteuid());
  const absl::Time until = BootNow() + within;
  UniqueFd turn = Socket();
  while (turn.valid() && Bind(turn, name) == EADDRINUSE) {
    if (BootNow() >= until) {
      return UniqueFd();
    }
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
  const CpuSet chosen = choose(taken);
  if (!turn.valid() && !chosen.empty()) {
    LogWarning(absl::StrCat("CPUs ", chosen.Text(), " were chosen while another job of yours on ",
                            "this machine chose its own: both may have the same"));
  }
  for (const std::string& name : ClaimNames(geteuid(), static_cast<uint32_t>(getpid()), chosen)) {
    UniqueFd socket = Socket();
    if (socket.valid() && Bind(socket, name) == 0) {
      sockets_.push_back(std::move(socket));
    }
  }
}

}  // namespace muster
