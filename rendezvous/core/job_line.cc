#include "rendezvous/core/job_line.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/text.h"
#include "rendezvous/core/machine.h"
#include "rendezvous/core/why_waiting.h"

namespace muster {
namespace {

std::string OfRound(const RoundState& state) {
  std::vector<std::string> names;
  names.reserve(state.members.size());
  for (const Member& member : state.members) {
    const auto node = state.nodes.find(member.node);
    names.push_back(node == state.nodes.end() ? "?" : node->second.join.hostname);
  }
  const uint32_t restarts = state.report.restarts;
  return absl::StrCat(Plural(state.world_size, "worker", "workers"), " on ",
                      Plural(state.members.size(), "node", "nodes"), " (",
                      FewNames(std::move(names)), ")", restarts == 0 ? "" : "; ",
                      restarts == 0 ? "" : Plural(restarts, "restart", "restarts"));
}

}  // namespace

std::string JobLine(const RoundConfig& config, const RoundState& state, absl::Time now) {
  switch (state.phase) {
    case JobPhase::kGathering:
      return WhyWaiting(config, state, now);
    case JobPhase::kRunning:
      return absl::StrCat("round ", state.round.ToString(), state.paused ? ", paused," : "",
                          " for ", ShortDuration(now - state.round_began), ": ", OfRound(state));
    case JobPhase::kStopping:
      return absl::StrCat("round ", state.round.ToString(), " is being stopped for ",
                          ShortDuration(now - state.stop_began), ": ", WhyStopping(state), "; ",
                          OfRound(state));
    case JobPhase::kEnding:
    case JobPhase::kEnded:
      return absl::StrCat("ends with ", state.report.exit_code,
                          state.report.headline.empty() ? "" : ": ", state.report.headline);
  }
  return "";
}

}  // namespace muster
