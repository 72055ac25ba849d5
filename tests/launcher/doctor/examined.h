// What probes that found nothing wrong have said, for tests to change.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "launcher/doctor/diagnose.h"

namespace muster {

inline ExaminedNode HealthyNode(uint32_t rank, uint32_t nodes) {
  ExaminedNode node;
  node.name = absl::StrCat("node", rank);
  ProbeFacts& facts = node.facts.emplace();
  facts.rank = rank;
  facts.world_size = nodes;
  facts.build = "1.0";
  facts.hostname = node.name;
  facts.address = absl::StrCat("10.0.0.", rank + 1);
  facts.interface = "eth0";
  facts.addresses = {facts.address};
  facts.port = 40000;
  facts.own_name = {node.name, {facts.address}, "", 0};
  facts.somaxconn = 4096;
  facts.ephemeral_low = 32768;
  facts.ephemeral_high = 60999;
  facts.nofile = 65536;
  const uint64_t room = uint64_t{64} << 30;
  facts.shm = {"/dev/shm", "", "", room, room};
  facts.tmp = {"/tmp", "", "", room, room};
  facts.folder = {"/home/a", "", "", room, room};
  facts.cpus_mask = facts.cpus_here = 8;
  facts.python_version = "3.11.2";
  facts.torch_version = "2.6.0";
  facts.sent_at = 1000;
  node.facts_at = 1000.1;
  node.plan_at = 1000.2;
  ProbeResults& results = node.results.emplace();
  results.rank = rank;
  results.received_at = 1000.3;
  results.sent_at = 1001;
  node.results_at = 1001.1;
  for (const uint32_t peer : PeersToTry(rank, nodes)) {
    results.pairs.push_back({peer, "", "", facts.address, 1e-4, 1e9});
    results.names.push_back(
        {absl::StrCat("node", peer), {absl::StrCat("10.0.0.", peer + 1)}, "", 0});
  }
  return node;
}

inline Examination HealthyNodes(uint32_t nodes) {
  Examination out;
  for (uint32_t rank = 0; rank < nodes; ++rank) {
    out.nodes.push_back(HealthyNode(rank, nodes));
  }
  out.in_plan = nodes;
  out.several_machines = nodes > 1;
  return out;
}

}  // namespace muster
