#include "agent/core/master_silence.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

using Masters = MasterSilence::Masters;

constexpr absl::Duration kMax = absl::Seconds(5);
constexpr absl::Duration kForEver = absl::InfiniteDuration();

Admitted WithJournal(absl::Duration lease) {
  Admitted admitted;
  admitted.journal = true;
  admitted.lease = lease;
  return admitted;
}

Directive Wants(Wanted wanted, bool paused = false) {
  Directive directive;
  directive.wanted = wanted;
  directive.paused = paused;
  return directive;
}

TEST(MasterSilence, OneOfSeveralIsLeftWhateverItSays) {
  MasterSilence silence(Masters::kSeveral, kMax);
  EXPECT_EQ(silence.max(), kMax);
  silence.Heard(WithJournal(absl::Seconds(30)));
  silence.Heard(Wants(Wanted::kRun, /*paused=*/true));
  EXPECT_EQ(silence.max(), kMax);
}

TEST(MasterSilence, ASingleOneIsLeftWhereItHasAJournal) {
  MasterSilence silence(Masters::kOne, kMax);
  EXPECT_EQ(silence.max(), kForEver);
  silence.Heard(Admitted());
  EXPECT_EQ(silence.max(), kForEver);
  silence.Heard(WithJournal(absl::Seconds(30)));
  EXPECT_EQ(silence.max(), absl::Seconds(15));
  silence.Up();  // and has not admitted us yet
  EXPECT_EQ(silence.max(), absl::Seconds(15));
  silence.Heard(WithJournal(absl::Seconds(2)));
  EXPECT_EQ(silence.max(), kMax);
  silence.Heard(Admitted());
  EXPECT_EQ(silence.max(), kForEver);
}

TEST(MasterSilence, InAPauseAndAtTheEndItMayBeSilent) {
  MasterSilence silence(Masters::kOne, kMax);
  silence.Heard(WithJournal(absl::Seconds(30)));
  silence.Heard(Wants(Wanted::kRun, /*paused=*/true));
  EXPECT_EQ(silence.max(), kForEver);
  silence.Heard(Wants(Wanted::kRun));
  EXPECT_EQ(silence.max(), absl::Seconds(15));
  silence.Heard(Wants(Wanted::kEnd));
  EXPECT_EQ(silence.max(), kForEver);
  silence.Up();  // nothing is known of a pause any more
  EXPECT_EQ(silence.max(), absl::Seconds(15));
}

TEST(MasterSilence, WhereThereIsNoOtherNothingIsLeft) {
  MasterSilence silence(Masters::kNoOther, kMax);
  silence.Heard(WithJournal(absl::Seconds(30)));
  EXPECT_EQ(silence.max(), kForEver);
}

}  // namespace
}  // namespace muster
