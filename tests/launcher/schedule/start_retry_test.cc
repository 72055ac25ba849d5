#include "launcher/schedule/start_retry.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

constexpr StartRetries kRetries = {
    .tries = 3, .if_dropped = 8, .first_wait = absl::Milliseconds(500)};

TEST(StartLossOf, GoesByTheWordsOfSsh) {
  EXPECT_EQ(StartLossOf({}), StartLoss::kOther);
  EXPECT_EQ(StartLossOf({"ssh: connect to host a port 22: Connection refused"}), StartLoss::kOther);
  // After the login: a shell's or an agent's end.
  EXPECT_EQ(StartLossOf({"Connection to a closed by remote host."}), StartLoss::kOther);
  EXPECT_EQ(StartLossOf({"kex_exchange_identification: read: Connection reset by peer",
                         "Connection reset by 10.0.0.1 port 22"}),
            StartLoss::kDropped);
  EXPECT_EQ(StartLossOf({"ssh_exchange_identification: Connection closed by remote host"}),
            StartLoss::kDropped);
  // Behind a jump host.
  EXPECT_EQ(StartLossOf({"channel 0: open failed: connect failed: Connection refused",
                         "stdio forwarding failed",
                         "kex_exchange_identification: Connection closed by remote host"}),
            StartLoss::kOther);
  EXPECT_EQ(StartLossOf({"me@a: Permission denied (publickey)."}), StartLoss::kLasting);
  // The jump host refuses the key, so that the second ssh sees nothing.
  EXPECT_EQ(StartLossOf({"me@jump: Permission denied (publickey).",
                         "kex_exchange_identification: Connection closed by remote host"}),
            StartLoss::kLasting);
}

TEST(RetryAfter, GrowsToABoundAndIsNotTheSameForAll) {
  const auto wait = [](int tried, double unit) {
    return RetryAfter(kRetries, StartLoss::kDropped, tried, unit);
  };
  EXPECT_EQ(wait(1, 0), absl::Milliseconds(250));
  EXPECT_EQ(wait(1, 1), absl::Milliseconds(750));
  EXPECT_EQ(wait(3, 0.5), absl::Seconds(2));
  EXPECT_EQ(wait(4, 0.5), absl::Seconds(4));
  EXPECT_EQ(wait(7, 0.5), absl::Seconds(4));
  EXPECT_EQ(wait(7, 1), absl::Seconds(6));
}

TEST(RetryAfter, EndsByWhatWasLost) {
  EXPECT_FALSE(RetryAfter(kRetries, StartLoss::kLasting, 1, 0.5).has_value());
  EXPECT_TRUE(RetryAfter(kRetries, StartLoss::kOther, 2, 0.5).has_value());
  EXPECT_FALSE(RetryAfter(kRetries, StartLoss::kOther, 3, 0.5).has_value());
  // Dropped, and then refused: the host has gone.
  EXPECT_FALSE(RetryAfter(kRetries, StartLoss::kOther, 5, 0.5).has_value());
  EXPECT_TRUE(RetryAfter(kRetries, StartLoss::kDropped, 7, 0.5).has_value());
  EXPECT_FALSE(RetryAfter(kRetries, StartLoss::kDropped, 8, 0.5).has_value());
  EXPECT_FALSE(RetryAfter({}, StartLoss::kDropped, 1, 0.5).has_value());
}

}  // namespace
}  // namespace muster
