// `launch restart`: the round that runs is stopped for another one, because the user says so.
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "rendezvous/core/machine.h"

namespace muster {
namespace {

absl::Status MayRestartNow(const Machine& m) {
  const RoundState& s = m.state;
  if (s.phase == JobPhase::kGathering) {
    return absl::FailedPreconditionError("no round runs now: the next one is on its way");
  }
  if (s.phase == JobPhase::kStopping && !s.stop_is_final) {
    return absl::FailedPreconditionError(
        absl::StrCat("round ", s.round.ToString(), " is being stopped already"));
  }
  if (s.phase != JobPhase::kRunning) {
    return absl::FailedPreconditionError("the job ends");
  }
  if (!EnoughMayCome(m)) {
    return absl::FailedPreconditionError(absl::StrCat(Plural(s.live, "node is", "nodes are"),
                                                      " left, a round needs ", m.config.nodes_min));
  }
  if (s.report.restarts >= kRestartsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a job is started again at most ", kRestartsMax, " times"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> RestartRound(Machine& m) {
  RETURN_IF_ERROR(MayRestartNow(m));
  std::string answer =
      absl::StrCat("round ", m.state.round.ToString(), " is stopped, and another one follows");
  StopForUserRestart(m);
  return answer;
}

void OnRestart(Machine& m, const RestartAsked& asked) {
  const absl::StatusOr<std::string> done = RestartRound(m);
  m.out.push_back(OrderAnswered{asked.ask, done.ok(),
                                done.ok() ? *done : std::string(done.status().message())});
}

}  // namespace muster
