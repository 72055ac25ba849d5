// Host files of five launchers, and --hosts.
#include "launcher/schedule/hostfile.h"

#include "launcher/schedule/hostlist.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

// What goes on to ssh and to the count of workers.
void CheckHosts(const std::vector<HostEntry>& hosts) {
  CHECK(!hosts.empty() && hosts.size() <= kNodesMax);
  for (const HostEntry& host : hosts) {
    CHECK(CheckHostName(host.name).ok());
    CHECK(host.user.empty() || host.user[0] != '-');  // ssh would take it for an option
    CHECK(host.slots >= 1 && host.slots <= kWorkersPerNodeMax);
  }
  CHECK(!DescribeHosts(hosts).empty());
}

}  // namespace

std::vector<std::string> Seeds() {
  return {"node0\nnode1 # the second\n\nnode0\n",
          "node0 slots=4 max_slots=8\nnode1 slots = 2\nnode2\n",
          "node0:4 binding=user:0\nme@node1:2\n",
          "node0 16 all.q UNDEFINED\nnode1 16\n",
          "node[01-03],gpu[1-2] slots=2 user=me port=2222\n",
          "a:4,user@b,[::1]:2,node[0-3]:8",
          "::1\nfe80::1%eth0 slots=1\n",
          "a@b@c",
          "+n0",
          "h slots=0",
          "h slots=2 max_slots=1",
          "h port=0",
          "h word",
          "a:4 slots=4",
          "me@a\nyou@a\n"};
}

void Run(absl::string_view bytes) {
  if (const auto hosts = ParseHostFile(bytes, "hosts"); hosts.ok()) {
    CheckHosts(*hosts);
  }
  if (const auto hosts = ParseHostList(bytes); hosts.ok()) {
    CheckHosts(*hosts);
  }
}

}  // namespace muster::fuzz
