// The end of the job: all nodes are told, and what is known of it is put into its report.
#include <string>
#include <utility>

#include "rendezvous/core/machine.h"

namespace muster {
namespace {

// Of the nodes of the last round; of one that is lost what it had said until then.
void KeepUses(RoundState& s) {
  for (const Member& member : s.members) {
    const auto node = s.nodes.find(member.node);
    if (node != s.nodes.end() && node->second.use.workers > 0) {
      s.report.uses.push_back({node->second.join.hostname, node->second.use});
    }
  }
}

}  // namespace

void EndJob(Machine& m, int32_t exit_code, CauseKind cause, std::string headline) {
  RoundState& s = m.state;
  s.phase = JobPhase::kEnding;
  Resume(m);
  s.last_call_at = s.next_tell = absl::InfiniteFuture();
  s.report.ended = true;
  s.report.exit_code = exit_code;
  s.report.restarts_used = s.used.job;
  s.report.restarts_max = m.config.restarts_max;
  s.report.cause = cause;
  s.report.headline = std::move(headline);
  KeepUses(s);
  s.pending.clear();
  s.ready.clear();
  for (const auto& [id, node] : s.nodes) {
    if (node.IsLive()) {
      s.pending.insert(id);
    }
  }
  SendToAll(m);
  MaybeEnded(m);
}

void MaybeEnded(Machine& m) {
  if (m.state.phase == JobPhase::kEnding && m.state.pending.empty()) {
    m.state.phase = JobPhase::kEnded;
    m.out.push_back(JobEnded{});
  }
}

}  // namespace muster
