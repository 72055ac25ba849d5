#include "launcher/meet_at_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

RendezvousPoint Point(const char* nonce, const char* job_id = "default", const char* build = "b") {
  RendezvousPoint point;
  point.job_id = job_id;
  point.build = build;
  point.host = "far";
  point.address = "::1";
  point.port = 4000;
  point.nonce = nonce;
  return point;
}

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

Meeting New() { return Meeting("/shared/job", Point("own"), At(0), absl::Seconds(600)); }

std::string Error(const absl::StatusOr<Move>& move) { return std::string(move.status().message()); }

TEST(Meeting, NoFileIsPublishedAndAMasterJoined) {
  Meeting meeting = New();
  EXPECT_EQ(meeting.Next(std::nullopt, Answer::kSilence, At(0)).value(), Move::kPublish);
  EXPECT_EQ(meeting.Next(Point("a"), Answer::kRefused, At(0.1)).value(), Move::kWait);
  EXPECT_EQ(meeting.Next(Point("a"), Answer::kMaster, At(0.2)).value(), Move::kJoin);
}

TEST(Meeting, ARefusalIsAskedAgainBeforeItCounts) {
  Meeting meeting = New();
  EXPECT_EQ(meeting.Next(Point("a"), Answer::kRefused, At(0)).value(), Move::kWait);
  EXPECT_EQ(meeting.Next(Point("a"), Answer::kStranger, At(1.9)).value(), Move::kWait);
  EXPECT_EQ(meeting.Next(Point("a"), Answer::kRefused, At(2)).value(), Move::kReplace);
}

TEST(Meeting, AnotherFileIsAnotherMaster) {
  Meeting meeting = New();
  EXPECT_EQ(meeting.Next(Point("a"), Answer::kRefused, At(0)).value(), Move::kWait);
  EXPECT_EQ(meeting.Next(Point("b"), Answer::kRefused, At(5)).value(), Move::kWait);
  EXPECT_EQ(meeting.Next(Point("b"), Answer::kRefused, At(7)).value(), Move::kReplace);
}

TEST(Meeting, SilenceProvesNothingAndIsTold) {
  Meeting meeting = New();
  EXPECT_EQ(meeting.Next(Point("a"), Answer::kRefused, At(0)).value(), Move::kWait);
  EXPECT_EQ(meeting.Next(Point("a"), Answer::kSilence, At(9)).value(), Move::kWait);
  EXPECT_EQ(meeting.Next(Point("a"), Answer::kRefused, At(9.5)).value(), Move::kWait);
  EXPECT_EQ(meeting.TakeNote(Point("a"), At(9.9)), "");
  EXPECT_THAT(meeting.TakeNote(Point("a"), At(10)), HasSubstr("far ([::1]:4000)"));
  EXPECT_EQ(meeting.TakeNote(Point("a"), At(11)), "");
}

TEST(Meeting, AnotherJobOrBuildIsNamed) {
  Meeting meeting = New();
  EXPECT_THAT(Error(meeting.Next(Point("a", "x"), Answer::kMaster, At(0))),
              AllOf(HasSubstr("job 'x'"), HasSubstr("job 'default'"), HasSubstr("--rdzv-id")));
  EXPECT_THAT(Error(meeting.Next(Point("a", "x", "c"), Answer::kStranger, At(0))),
              AllOf(HasSubstr("muster c"), HasSubstr("this is b"), HasSubstr("same build")));
  // Where nothing listens it does not matter whose the file was.
  EXPECT_TRUE(meeting.Next(Point("a", "x", "c"), Answer::kRefused, At(0)).ok());
}

// Whatever is tried again and again, there is an end.
TEST(Meeting, EveryWaitHasItsDeadline) {
  Meeting meeting = New();
  EXPECT_EQ(meeting.Next(Point("a"), Answer::kRefused, At(0)).value(), Move::kWait);
  EXPECT_EQ(meeting.Next(Point("a"), Answer::kRefused, At(599)).value(), Move::kReplace);
  EXPECT_THAT(Error(meeting.Next(Point("a"), Answer::kRefused, At(600))),
              AllOf(HasSubstr("/shared/job.replaces-*"), HasSubstr("10m")));
  EXPECT_THAT(Error(meeting.Next(Point("a"), Answer::kSilence, At(600))), HasSubstr("remove"));
  EXPECT_THAT(Error(meeting.Next(std::nullopt, Answer::kSilence, At(600))),
              HasSubstr("neither be read nor made"));
  EXPECT_EQ(meeting.Next(Point("a"), Answer::kMaster, At(601)).value(), Move::kJoin);
}

}  // namespace
}  // namespace muster
