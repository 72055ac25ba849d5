#include "launcher/own_ends.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/core/cause.h"

namespace muster {

void OwnEnds::Ended(const std::string& hostname, const WorkerExit& exit) {
  ExitRecord& record = exits_.emplace_back();
  record.hostname = hostname;
  record.exit = exit;
}

std::string OwnEnds::RoundBegan(const Assignment& round) {
  const std::vector<ExitRecord> before = std::exchange(exits_, {});
  if (std::exchange(restarts_, round.restart_count) >= round.restart_count) {
    return "";
  }
  const ExitRecord* cause = FirstCause(before);
  const std::string restart = absl::StrCat(
      "restart ", round.restart_count,
      round.restart_count <= round.restarts_max ? absl::StrCat(" of ", round.restarts_max) : "");
  return cause == nullptr ? absl::StrCat(restart, ": the cause is not of this node")
                          : absl::StrCat(ExitSentence(*cause), "; ", restart);
}

JobReport OwnEnds::Report(const JobOutcome& outcome) const {
  JobReport out;
  out.ended = true;
  out.exit_code = outcome.exit_code;
  out.headline = outcome.headline;
  out.exits = exits_;
  for (const ExitRecord& record : exits_) {
    if (IsFailure(record.exit) && absl::StartsWith(outcome.headline, ExitSentence(record))) {
      out.cause = CauseKind::kWorker;
      out.first = record;
    }
  }
  return out;
}

}  // namespace muster
