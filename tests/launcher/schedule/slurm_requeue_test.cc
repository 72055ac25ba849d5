#include "launcher/schedule/slurm_requeue.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

// Parts of what Slurm 22.05 prints.
constexpr char kJob[] =
    "JobId=17 JobName=train.sbatch UserId=ann(1000) Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 "
    "Requeue=1 RunTime=00:00:05\n";
constexpr char kConfig[] =
    "SlurmctldTimeout        = 120 sec\n"
    "SlurmdSyslogDebug       = (null)\n"
    "SlurmdTimeout           = 300 sec\n"
    "SlurmdUser              = root(0)\n";

TEST(SlurmRequeue, TheJobSaysWhether) {
  EXPECT_TRUE(MayBeRequeued(kJob));
  EXPECT_TRUE(MayBeRequeued("   Requeue=1\n   Restarts=0"));
  EXPECT_FALSE(MayBeRequeued("JobId=17 Requeue=0"));
  EXPECT_FALSE(MayBeRequeued("JobId=17 Requeue=10 NoRequeue=1"));
  EXPECT_FALSE(MayBeRequeued(""));
}

TEST(SlurmRequeue, TheConfigurationSaysWhen) {
  EXPECT_EQ(NodeIsDownWithin(kConfig), absl::Seconds(530));
  EXPECT_EQ(NodeIsDownWithin("SlurmdTimeout = 0 sec\n"), std::nullopt);
  for (const char* nonsense :
       {"", "SlurmdTimeout", "SlurmdTimeout = soon", "SlurmdTimeout = -1 sec",
        "SlurmdTimeout = 99999999999 sec", "XSlurmdTimeout = 5 sec"}) {
    EXPECT_EQ(NodeIsDownWithin(nonsense), std::nullopt) << nonsense;
  }
}

}  // namespace
}  // namespace muster
