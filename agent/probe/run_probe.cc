#include "agent/probe/run_probe.h"

#include <poll.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "agent/io/node_facts.h"
#include "agent/io/torch_store_port.h"
#include "agent/probe/machine_facts.h"
#include "agent/probe/name_facts.h"
#include "agent/probe/pair_client.h"
#include "agent/probe/pair_server.h"
#include "agent/probe/probe_lines.h"
#include "agent/probe/program_probe.h"
#include "proto/base/await_fd.h"
#include "proto/base/build_info.h"
#include "proto/base/clock.h"
#include "proto/base/env_names.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

constexpr absl::Duration kNamesWithin = absl::Seconds(4);
// Until the slowest node has said its facts, and the doctor has put the plan together.
constexpr absl::Duration kPlanWithin = absl::Seconds(90);
// Until the last one has tried us; the doctor ends its job, and us, before.
constexpr absl::Duration kOthersWithin = absl::Seconds(60);
constexpr size_t kPlanBytesMax = 4u << 20;

double Unix() { return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()); }

uint32_t NumberOf(const char* name) {
  const char* text = std::getenv(name);
  uint32_t number = 0;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number : 0;
}

std::string UserName() {
  const passwd* entry = getpwuid(geteuid());
  return entry == nullptr ? absl::StrCat("uid ", geteuid()) : entry->pw_name;
}

absl::Status WriteLine(std::string line) {
  line.push_back('\n');
  for (size_t sent = 0; sent < line.size();) {
    const ssize_t n = write(STDOUT_FILENO, line.data() + sent, line.size() - sent);
    if (n < 0 && errno != EINTR) {
      return absl::UnavailableError("nobody reads what the probe says");
    }
    sent += n > 0 ? static_cast<size_t>(n) : 0;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadPlanLine(absl::Time deadline) {
  std::string text;
  while (text.empty() || text.back() != '\n') {
    if (absl::Status ready = AwaitFd(STDIN_FILENO, POLLIN, deadline, "the plan"); !ready.ok()) {
      return ready;
    }
    char bytes[4096];
    const ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (n == 0 || (n < 0 && errno != EINTR) || text.size() > kPlanBytesMax) {
      return absl::UnavailableError("stdin ends before the plan does");
    }
    text.append(bytes, n > 0 ? static_cast<size_t>(n) : 0);
  }
  return text;
}

ProbeFacts ReadFacts(const ProbeRequest& request) {
  ProbeFacts facts;
  facts.rank = NumberOf(kEnvRank);
  facts.world_size = NumberOf(kEnvWorldSize);
  facts.build = std::string(BuildName());
  facts.hostname = Hostname();
  facts.user = UserName();
  ReadAddressFacts(request, facts);
  ReadNetworkFacts("", std::getenv, facts);
  facts.own_name = ResolveNames({facts.hostname}, BootNow() + kNamesWithin).front();
  ReadLimitFacts("", facts);
  ReadCpuFacts("", facts);
  facts.shm = ReadDiskFacts("/dev/shm");
  const char* tmp = std::getenv("TMPDIR");
  facts.tmp = ReadDiskFacts(tmp == nullptr || tmp[0] == '\0' ? "/tmp" : tmp);
  facts.folder = ReadDiskFacts(request.folder);
  ReadProgramFacts(request, facts);
  ReadGpuFacts(facts);
  return facts;
}

ProbeResults TryOthers(const ProbePlan& plan, uint32_t rank) {
  ProbeResults results;
  results.rank = rank;
  std::vector<ProbePeer> peers;
  std::vector<std::string> names;
  for (const uint32_t other : PeersToTry(rank, static_cast<uint32_t>(plan.nodes.size()))) {
    const ProbePeer& peer = plan.nodes[other];
    names.push_back(peer.name);
    if (!peer.address.empty() && peer.port != 0) {
      peers.push_back(peer);
    }
  }
  results.names = ResolveNames(names, BootNow() + kNamesWithin);
  results.pairs = TryPeers(peers, plan.word);
  return results;
}

absl::Status Probe(const std::string& request_line) {
  ASSIGN_OR_RETURN(const ProbeRequest request, ParseProbeRequest(request_line));
  ProbeFacts facts = ReadFacts(request);
  absl::StatusOr<BoundPort> listener =
      BindStorePort("", 0, PortRange{request.port_low, request.port_high});
  if (listener.ok()) {
    facts.port = listener->port;
  } else {
    facts.port_error = std::string(listener.status().message());
  }
  facts.sent_at = Unix();
  RETURN_IF_ERROR(WriteLine(ToLine(facts)));

  ASSIGN_OR_RETURN(const std::string plan_line, ReadPlanLine(BootNow() + kPlanWithin));
  const double received_at = Unix();
  ASSIGN_OR_RETURN(const ProbePlan plan, ParseProbePlan(plan_line));
  if (facts.rank >= plan.nodes.size()) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", facts.rank, " is not in the plan"));
  }
  if (listener.ok()) {
    RETURN_IF_ERROR(ServePairs(std::move(listener->fd), plan.word));
  }
  ProbeResults results = TryOthers(plan, facts.rank);
  results.received_at = received_at;
  results.sent_at = Unix();
  RETURN_IF_ERROR(WriteLine(ToLine(results)));
  return AwaitFd(STDIN_FILENO, POLLIN, BootNow() + kOthersWithin, "the end of the tries");
}

}  // namespace

int RunProbe(const std::string& request) {
  const absl::Status status = Probe(request);
  if (!status.ok()) {
    LogError(absl::StrCat("probe: ", status.message()));
    return 1;
  }
  return 0;
}

}  // namespace muster
