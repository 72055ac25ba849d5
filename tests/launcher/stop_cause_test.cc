#include "launcher/stop_cause.h"

#include <gtest/gtest.h>

#include <csignal>

namespace muster {
namespace {

constexpr absl::Time kNow = absl::FromUnixSeconds(1700000000);

JobSpec InSlurm(absl::Time ends) {
  JobSpec spec;
  spec.slurm.emplace();
  spec.slurm->name = "Slurm job 17";
  spec.slurm->ends = ends;
  return spec;
}

JobSpec InPbsUntil(absl::Time ends, absl::Duration walltime) {
  JobSpec spec;
  spec.pbs = PbsJob{"PBS job 21.node0", walltime, ends};
  return spec;
}

JobSpec InPod(bool indexed) {
  JobSpec spec;
  spec.in_pod = !indexed;
  if (indexed) {
    spec.pod = PodPlace{"train", 0, ""};
  }
  return spec;
}

struct Case {
  const char* name;
  JobSpec spec;
  const char* want;
};

class SigtermTest : public testing::TestWithParam<Case> {};

TEST_P(SigtermTest, IsWhatIsKnownOfIt) {
  EXPECT_EQ(StopCause(GetParam().spec, SIGTERM, StopBy::kSignal, kNow), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Places, SigtermTest,
    testing::Values(
        Case{"nowhere", JobSpec(), "stopped by the user (SIGTERM)"},
        Case{"pbs", InPbsUntil(absl::InfiniteFuture(), absl::InfiniteDuration()),
             "launch was sent SIGTERM in PBS job 21.node0; PBS sends it at qdel and the walltime, "
             "and so may a script (kill, timeout)"},
        Case{"pbs_over", InPbsUntil(kNow, absl::Seconds(15)),
             "PBS job 21.node0 was ended by PBS (SIGTERM): its walltime of 15.0 s is over"},
        Case{"pbs_all_but_over", InPbsUntil(kNow + absl::Seconds(5), absl::Hours(3)),
             "PBS job 21.node0 was ended by PBS (SIGTERM): its walltime of 3 h is over"},
        Case{"pbs_before", InPbsUntil(kNow + absl::Seconds(6), absl::Hours(3)),
             "launch was sent SIGTERM in PBS job 21.node0; PBS sends it at qdel, and so may a "
             "script (kill, timeout): of its "
             "walltime of 3 h, 6.0 s are left"},
        Case{"slurm", InSlurm(absl::InfiniteFuture()),
             "launch was sent SIGTERM in Slurm job 17; Slurm sends it at scancel, a requeue, "
             "preemption, the loss of a node and the time limit, and so may a script (kill, "
             "timeout)"},
        Case{"slurm_over", InSlurm(kNow - absl::Seconds(20)),
             "Slurm job 17 was ended by Slurm (SIGTERM): its time limit is over"},
        Case{"slurm_before", InSlurm(kNow + absl::Hours(3)),
             "launch was sent SIGTERM in Slurm job 17; Slurm sends it at scancel, a requeue, "
             "preemption and the loss of a node, and so may a script (kill, timeout): of its time "
             "limit, 3 h are left"},
        Case{"indexed_job", InPod(true),
             "launch was sent SIGTERM in Job train; Kubernetes sends it at the deletion of a "
             "pod, its eviction and the deadline, and so may a script (kill, timeout)"},
        Case{"pod", InPod(false),
             "launch was sent SIGTERM in this pod; Kubernetes sends it at the deletion of a "
             "pod, its eviction and the deadline, and so may a script (kill, timeout)"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(StopCauseTest, OtherSignalsAndCommandsAreTheUsers) {
  const JobSpec spec = InSlurm(kNow);
  EXPECT_EQ(StopCause(spec, SIGINT, StopBy::kSignal, kNow), "stopped by the user (SIGINT)");
  EXPECT_EQ(StopCause(spec, SIGTERM, StopBy::kCommand, kNow), "stopped by the user (SIGTERM)");
}

TEST(StopCauseTest, OfAnotherNodesSignalTheTimeIsNotKnown) {
  EXPECT_EQ(
      StopCause(InSlurm(kNow), SIGTERM, StopBy::kSignal, absl::InfinitePast()),
      "launch was sent SIGTERM in Slurm job 17; Slurm sends it at scancel, a requeue, "
      "preemption, the loss of a node and the time limit, and so may a script (kill, timeout)");
}

}  // namespace
}  // namespace muster
