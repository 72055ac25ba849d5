#include "launcher/meet_at_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "agent/io/torch_store_port.h"
#include "proto/base/clock.h"
#include "proto/base/connect_tcp.h"
#include "rendezvous/service/listener.h"
#include "tests/proto/wire/test_loop.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

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

class FileMeetingTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "/muster-meet-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path() const { return folder_ + "/job1"; }
  static RendezvousPoint Here() {
    RendezvousPoint point = Point("ab");
    point.address = "127.0.0.1";
    return point;
  }
  absl::StatusOr<std::unique_ptr<FileMeeting>> Meet(PortRange ports = {}) {
    return MeetAtFile(loop_.get(), Path(), Here(), ports, absl::Seconds(20));
  }
  static absl::Status Connect(uint16_t port) {
    return ConnectTcp("127.0.0.1", absl::StrCat(port), BootNow() + absl::Seconds(5)).status();
  }

  TestLoop loop_;
  std::string folder_;
};

TEST_F(FileMeetingTest, WhoSeesTheFileIsNotRefused) {
  absl::Status connected = absl::UnknownError("no file was seen");
  std::thread other([&connected, path = Path()] {
    const RendezvousFile file(path);
    for (const absl::Time late = BootNow() + absl::Seconds(20); BootNow() < late;) {
      const absl::StatusOr<std::optional<RendezvousPoint>> there = file.Read();
      if (there.ok() && there->has_value()) {
        connected = Connect((*there)->port);
        return;
      }
    }
  });
  const absl::StatusOr<std::unique_ptr<FileMeeting>> meeting = Meet();
  other.join();
  ASSERT_TRUE(meeting.ok()) << meeting.status();
  EXPECT_TRUE((*meeting)->serves());
  EXPECT_TRUE(connected.ok()) << connected;
}

TEST_F(FileMeetingTest, TheMasterListensInPlaceOfTheLobby) {
  const absl::StatusOr<std::unique_ptr<FileMeeting>> meeting = Meet();
  ASSERT_TRUE(meeting.ok()) << meeting.status();
  const uint16_t port = (*meeting)->point().port;
  EXPECT_TRUE(Connect(port).ok());
  (*meeting)->CloseLobby();
  EXPECT_FALSE(Connect(port).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(ReservePort("", port).status()));  // nobody gets it by chance
  Listener master(loop_.get(), Listener::Callbacks());
  EXPECT_EQ(master.Listen(absl::StrCat("[::]:", port), PortRange()).value(), port);
  EXPECT_TRUE(Connect(port).ok());
  master.Close();
}

// In a small range the port that we reserve may be that of a master that is gone: while the file is
// not ours, nothing may listen there.
TEST_F(FileMeetingTest, ADeadJobsPortThatIsOursNowStillLooksDead) {
  RendezvousPoint dead = Here();
  dead.port = ReservePort("", 0)->port;  // free again
  ASSERT_TRUE(RendezvousFile(Path()).Publish(dead).value());
  const absl::StatusOr<std::unique_ptr<FileMeeting>> meeting = Meet({dead.port, dead.port});
  ASSERT_TRUE(meeting.ok()) << meeting.status();
  EXPECT_TRUE((*meeting)->serves());
  EXPECT_EQ((*meeting)->point().port, dead.port);
}

TEST(WhoSeesTheFileTest, AsksOfDisksAndMemoryOfThisMachine) {
  EXPECT_THAT(WhoSeesTheFile("/dev/shm"),
              StartsWith("/dev/shm is on a file system of this machine (tmpfs): do the other"));
  EXPECT_EQ(WhoSeesTheFile("/proc/self/stat"), "");
  EXPECT_EQ(WhoSeesTheFile("/no/such"), "");
}

}  // namespace
}  // namespace muster
