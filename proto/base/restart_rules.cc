#include "proto/base/restart_rules.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/text.h"

namespace muster {
namespace {

std::string MatchText(const ExitRule& rule) {
  switch (rule.match) {
    case ExitMatch::kCode:
      return absl::StrCat("code=", RangeList(rule.values, kExitCodeMax));
    case ExitMatch::kSignal:
      return absl::StrCat("signal=",
                          absl::StrJoin(rule.values, ",", [](std::string* out, uint32_t signo) {
                            absl::StrAppend(out, SignalName(static_cast<int>(signo)));
                          }));
    case ExitMatch::kOom:
      return "oom";
    case ExitMatch::kNodeLost:
      return "node-lost";
  }
  return "?";
}

}  // namespace

std::string ExitActionName(ExitAction action) {
  switch (action) {
    case ExitAction::kStop:
      return "stop";
    case ExitAction::kRestart:
      return "restart";
    case ExitAction::kRestartFree:
      return "restart-free";
    case ExitAction::kReplaceNode:
      return "replace-node";
  }
  return "?";
}

std::string ExitRuleText(const ExitRule& rule) {
  return absl::StrCat(MatchText(rule), ":", ExitActionName(rule.action));
}

}  // namespace muster
