#include "launcher/signal_fold.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

namespace muster {
namespace {

constexpr std::optional<NodeId> kLaunch;
constexpr std::optional<NodeId> kA = NodeId{1};
constexpr std::optional<NodeId> kB = NodeId{2};

struct Heard {
  double at_s;
  std::optional<NodeId> by;
  int signo = SIGUSR1;
};
struct Case {
  const char* name;
  std::vector<Heard> heard;
  std::string want;  // a letter each: n = new, s = the same as before
};

class SignalFoldTest : public testing::TestWithParam<Case> {};

TEST_P(SignalFoldTest, TellsSentOnceFromSentAgain) {
  SignalFold fold;
  std::string got;
  for (const Heard& one : GetParam().heard) {
    const absl::Time at = absl::UnixEpoch() + absl::Seconds(one.at_s);
    got += fold.IsNew(one.signo, one.by, at) ? 'n' : 's';
  }
  EXPECT_EQ(got, GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Signals, SignalFoldTest,
    testing::Values(Case{"one", {{0, kA}}, "n"},
                    Case{"agents_of_a_step", {{0, kA}, {0.1, kB}}, "ns"},
                    Case{"launch_and_agents", {{0, kA}, {0.1, kLaunch}, {0.2, kB}}, "nss"},
                    Case{"twice", {{0, kA}, {0.1, kB}, {1, kA}, {1.1, kB}}, "nsns"},
                    Case{"twice_at_launch", {{0, kLaunch}, {0.1, kLaunch}}, "nn"},
                    Case{"one_press", {{0, kLaunch, SIGINT}, {0.05, kLaunch, SIGINT}}, "ns"},
                    Case{"two_presses", {{0, kLaunch, SIGINT}, {0.15, kLaunch, SIGINT}}, "nn"},
                    Case{"much_later", {{0, kA}, {60, kB}}, "nn"},
                    Case{"then_both_again", {{0, kA}, {60, kB}, {60.1, kA}}, "nns"},
                    Case{"another", {{0, kA}, {0, kB, SIGUSR2}, {0, kA, SIGUSR2}}, "nns"}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace muster
