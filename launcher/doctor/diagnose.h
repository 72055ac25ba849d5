// What `launch doctor` makes of what the probes saw: one row for each check, or for each place
// where it turned up something. Pure.
//
// Rules (cited by tests):
//  D1 a check about which nothing is to be said has one row that says what was found to be well;
//     where nobody looked it has none;
//  D2 each row that is not well says what to do about it;
//  D3 the order is that of the checks, then of the nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "agent/probe/node_checks.h"
#include "agent/probe/probe_lines.h"
#include "proto/base/port_range.h"

namespace muster {

// How launch starts a node's agent: as a child, over ssh, or by a scheduler's command.
enum class StartMeans : uint8_t { kChild, kSsh, kStep };

struct AgentStart {
  StartMeans means = StartMeans::kSsh;
  std::string by_hand;     // a command that tells whether it can be done
  std::string words;       // what was said when it failed; "" = nothing
  bool succeeded = false;  // then the words are those of the probe's own end
};

// One node as the doctor heard of it. Times are the doctor's wall clock, seconds since 1970.
struct ExaminedNode {
  std::string name;  // as the user's list has it
  AgentStart start;
  std::optional<ProbeFacts> facts;
  double facts_at = 0;  // when they came
  double plan_at = 0;   // when the plan was sent
  std::optional<ProbeResults> results;
  double results_at = 0;
};

struct Examination {
  // The first `in_plan` are those of the plan, each in the place of its rank; the others never
  // started.
  std::vector<ExaminedNode> nodes;
  uint32_t in_plan = 0;
  bool several_machines = false;  // else what they see of each other is not a network
  PortRange ports;                // --port-range
};

struct DoctorRow {
  std::string check;
  Health health = Health::kWell;
  std::string where;  // "node1", "node0 -> node1"; "" = all of them
  std::string seen;
  std::string fix;  // "" where all is well
};

std::vector<DoctorRow> Diagnose(const Examination& examined);

absl::string_view HealthName(Health health);  // "ok", "warn", "bad"

}  // namespace muster
