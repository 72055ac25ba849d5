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

TEST(StopProgressTest, CtrlCIsNot) {
  EXPECT_EQ(StopProgress(SIGINT, 32, absl::Seconds(9)), "waiting for 32 workers, 9 s left");
}

}  // namespace
}  // namespace muster
