#include "launcher/stop_countdown.h"

#include <gtest/gtest.h>

#include <csignal>

namespace muster {
namespace {

TEST(StopProgressTest, ASchedulersSignalIsTheTimeToSave) {
  EXPECT_EQ(StopProgress(SIGTERM, 3, absl::Seconds(41)),
            "waiting for 3 workers (checkpointing?), 41 s left");
  EXPECT_EQ(StopProgress(SIGUSR1, 1, absl::Milliseconds(4900)),
            "waiting for 1 worker (checkpointing?), 5 s left");
  EXPECT_EQ(StopProgress(SIGTERM, 2, absl::Seconds(150)),
            "waiting for 2 workers (checkpointing?), 2 min 30 s left");
}

TEST(StopBeginsTest, SaysWhatIsStoppedAndWhenItIsKilled) {
  EXPECT_EQ(StopBegins(SIGTERM, 3, absl::Seconds(25)),
            "SIGTERM: stopping 3 workers; what still runs in 25.0 s is killed");
  EXPECT_EQ(StopBegins(SIGINT, 1, absl::Milliseconds(-10)),
            "SIGINT: stopping 1 worker; what still runs in 0 ms is killed; Ctrl-C again kills now");
  EXPECT_EQ(StopBegins(SIGTERM, 0, absl::Seconds(25)), "SIGTERM: stopping the job");
}

TEST(StopProgressTest, CtrlCIsNot) {
  EXPECT_EQ(StopProgress(SIGINT, 32, absl::Seconds(9)), "waiting for 32 workers, 9 s left");
}

}  // namespace
}  // namespace muster
