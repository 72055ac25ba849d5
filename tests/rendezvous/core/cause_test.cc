#include "rendezvous/core/cause.h"

#include <gtest/gtest.h>

#include <csignal>
#include <optional>
#include <string>
#include <vector>

namespace muster {
namespace {

struct End {
  uint32_t rank = 0;
  int32_t code = 1;
  int because_of = -1;
  bool stopped = false;
  absl::Duration ran_for = absl::Seconds(60);
};

// In the order in which they were seen.
std::vector<ExitRecord> Records(const std::vector<End>& ends) {
  std::vector<ExitRecord> out;
  for (const End& end : ends) {
    ExitRecord record;
    record.exit.rank = Rank{end.rank};
    record.exit.code = end.code;
    record.exit.stopped_by_us = end.stopped;
    record.exit.ran_for = end.ran_for;
    if (end.because_of >= 0) {
      record.exit.because_of = Rank{static_cast<uint32_t>(end.because_of)};
    }
    record.seen = absl::UnixEpoch() + absl::Seconds(static_cast<int64_t>(out.size()));
    out.push_back(std::move(record));
  }
  return out;
}

struct Case {
  const char* name;
  std::vector<End> ends;
  uint32_t want;  // the rank at which the blame ends that begins with the first of `ends`
};

class RootTest : public testing::TestWithParam<Case> {};

TEST_P(RootTest, IsWhereTheBlameEnds) {
  const std::vector<ExitRecord> exits = Records(GetParam().ends);
  EXPECT_EQ(RootOf(exits, exits.front()).exit.rank.value, GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Blame, RootTest,
    testing::Values(
        Case{"none", {{0}, {1, 3}}, 0}, Case{"one", {{0, 1, 1}, {1, 3}}, 1},
        Case{"a_chain", {{0, 1, 1}, {1, 1, 2}, {2, 1, 3}, {3, 5}}, 3},
        Case{"whoever_stands_first", {{0, 1, 2}, {1, 7}, {2, 3}}, 2},
        Case{"not_known_to_have_ended", {{0, 1, 9}, {1, 3}}, 0},
        Case{"ended_well", {{0, 1, 1}, {1, 0}}, 0},
        Case{"was_stopped", {{0, 1, 1}, {1, 3, -1, /*stopped=*/true}}, 0},
        Case{"a_chain_to_somebody_unknown", {{0, 1, 1}, {1, 1, 9}}, 1},
        Case{"its_replacement", {{0, 1, 1}, {1, 1, 2, false, absl::Milliseconds(500)}, {2, 3}}, 0},
        Case{"told_later", {{0, 1, 1}, {1, 1, 2, false, absl::Milliseconds(1500)}, {2, 3}}, 2},
        Case{"itself", {{0, 1, 0}}, 0}, Case{"each_other", {{0, 1, 1}, {1, 1, 0}}, 0},
        Case{"into_a_circle", {{0, 1, 1}, {1, 1, 2}, {2, 1, 1}}, 0}),
    [](const testing::TestParamInfo<Case>& one) { return std::string(one.param.name); });

TEST(FirstCause, ASignalComesBeforeAnErrorFileBeforeACode) {
  std::vector<ExitRecord> exits = Records({{0, 0}, {1, 3, -1, /*stopped=*/true}, {2}, {3}, {4}});
  EXPECT_EQ(FirstCause(exits)->exit.rank, Rank{2});
  exits[3].exit.error_before = absl::Milliseconds(1);
  EXPECT_EQ(FirstCause(exits)->exit.rank, Rank{3});
  // Later to end, and earlier to fail.
  exits[4].exit.error_before = absl::Hours(1);
  EXPECT_EQ(FirstCause(exits)->exit.rank, Rank{4});
  EXPECT_EQ(EarliestFailure(exits)->exit.rank, Rank{4});
  EXPECT_EQ(FailedAt(exits[4]), exits[4].seen - absl::Hours(1));
  exits[4].exit.error_before.reset();
  exits[4].exit.kind = ExitKind::kSignaled;
  exits[4].exit.code = SIGSEGV;
  EXPECT_EQ(FirstCause(exits)->exit.rank, Rank{4});
  EXPECT_EQ(EarliestFailure(exits)->exit.rank, Rank{2});
  EXPECT_EQ(FirstCause(Records({{0, 0}})), nullptr);
}

}  // namespace
}  // namespace muster
