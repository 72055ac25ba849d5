// --on-exit: a rule as text in, a value out; and what else the user says about restarts, as text.
// Pure; thread-safe.
//
// A rule is MATCH:ACTION. MATCH is code=3,64-78, signal=SIGBUS,SIGSEGV, oom or node-lost; ACTION is
// stop, restart, restart-free or replace-node.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/options.h"
#include "proto/base/restart_rules.h"

namespace muster {

absl::StatusOr<ExitRule> ParseExitRule(const OptionValue& value);

// Option and value of each of the rules: what the nodes of a typed job must agree on.
std::vector<std::pair<std::string, std::string>> RestartRulesTexts(const RestartRules& rules);

}  // namespace muster
