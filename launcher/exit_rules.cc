#include "launcher/exit_rules.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/option_values.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

absl::StatusOr<std::vector<uint32_t>> ParseCodes(const OptionValue& value, absl::string_view text) {
  const auto codes = ParseRanks({value.name, text});
  if (!codes.ok() || codes->front() < 1 || codes->back() > kExitCodeMax) {
    return WantError(value,
                     absl::StrCat("exit codes of 1..", kExitCodeMax, ", as in code=3,64-78"));
  }
  return *codes;
}

absl::StatusOr<std::vector<uint32_t>> ParseSignals(const OptionValue& value,
                                                   absl::string_view text) {
  std::vector<uint32_t> signals;
  for (const absl::string_view name : absl::StrSplit(text, ',')) {
    const int signo = SignalNumber(name);
    if (signo == 0) {
      return WantError(value, "names of signals, as in signal=SIGBUS,SIGSEGV");
    }
    signals.push_back(static_cast<uint32_t>(signo));
  }
  std::sort(signals.begin(), signals.end());
  return signals;
}

std::string Limit(const std::optional<uint32_t>& limit) {
  return limit.has_value() ? absl::StrCat(*limit) : "none";
}

}  // namespace

absl::StatusOr<ExitRule> ParseExitRule(const OptionValue& value) {
  const size_t colon = value.text.rfind(':');
  if (colon == absl::string_view::npos) {
    return WantError(value,
                     "MATCH:ACTION, as in code=75:restart-free, signal=SIGBUS:replace-node, "
                     "oom:stop or node-lost:restart");
  }
  ExitRule rule;
  const absl::string_view match = value.text.substr(0, colon);
  const std::pair<absl::string_view, absl::string_view> pair =
      absl::StrSplit(match, absl::MaxSplits('=', 1));
  if (absl::StartsWith(match, "code=")) {
    ASSIGN_OR_RETURN(rule.values, ParseCodes(value, pair.second));
  } else if (absl::StartsWith(match, "signal=")) {
    rule.match = ExitMatch::kSignal;
    ASSIGN_OR_RETURN(rule.values, ParseSignals(value, pair.second));
  } else if (match == "oom" || match == "node-lost") {
    rule.match = match == "oom" ? ExitMatch::kOom : ExitMatch::kNodeLost;
  } else {
    return WantError(value, "code=..., signal=..., oom or node-lost in front of the colon");
  }
  const absl::string_view action = value.text.substr(colon + 1);
  for (const ExitAction one : {ExitAction::kStop, ExitAction::kRestart, ExitAction::kRestartFree,
                               ExitAction::kReplaceNode}) {
    if (action == ExitActionName(one)) {
      rule.action = one;
      return rule;
    }
  }
  return WantError(value, "stop, restart, restart-free or replace-node behind the colon");
}

std::vector<std::pair<std::string, std::string>> RestartRulesTexts(const RestartRules& rules) {
  const std::string on_exit = absl::StrJoin(
      rules.on_exit, " ",
      [](std::string* out, const ExitRule& rule) { absl::StrAppend(out, ExitRuleText(rule)); });
  return {{"--restart-window", ShortDuration(rules.window)},
          {"--restarts-per-rank", Limit(rules.of_rank)},
          {"--restarts-per-node", Limit(rules.of_node)},
          {"--restart-wait", ShortDuration(rules.wait_first)},
          {"--restart-wait-max", ShortDuration(rules.wait_max)},
          {"--bad-node-after", absl::StrCat(rules.bad_node_after)},
          {"--bad-node-for", ShortDuration(rules.bad_node_for)},
          {"--on-exit", on_exit}};
}

}  // namespace muster
