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
  exits_.clear();
  is_first_ = round.node_rank == NodeRank{0};
  const uint32_t restarts = std::exchange(restarts_, round.restart_count);
  const std::string told = std::exchange(told_, round.because);
  return restarts == round.restart_count && told == round.because ? "" : round.because;
}

JobReport OwnEnds::Report(const JobOutcome& outcome) const {
  JobReport out;
  out.ended = true;
  out.exit_code = outcome.exit_code;
  out.headline = outcome.headline;
  out.exits = exits_;
  for (const ExitRecord& record : exits_) {
    if (IsSuccess(record.exit)) {
      out.ended_well.push_back(record.exit.rank.value);
    }
    if (IsFailure(record.exit) && absl::StartsWith(outcome.headline, ExitSentence(record))) {
      out.cause = CauseKind::kWorker;
      out.first = record;
    }
  }
  return out;
}

JobReport OwnEnds::ForFile(const JobOutcome& outcome) const {
  JobReport out = Report(outcome);
  out.restarts = restarts_;
  return out;
}

}  // namespace muster
