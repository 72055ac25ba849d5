// The journal: what is written is found again, and what is damaged is not taken for it.
#include "rendezvous/service/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/wire/journal.pb.h"
#include "tests/proto/wire/test_loop.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

JournalHeader Header(const std::string& key = "alice/job") {
  JournalHeader header;
  header.key = key;
  header.job_id = "job";
  header.clock = "this boot";
  header.terms.nodes_max = 7;
  return header;
}

DurableNode Node(uint32_t id) {
  DurableNode node;
  node.node = NodeId{id};
  node.incarnation = Incarnation{uint64_t{1} << 50};
  node.join.key = absl::StrCat("list/", id);
  node.join.key_is_exact = true;
  node.join.life = 4711 + id;
  node.join.hostname = absl::StrCat("host", id);
  node.join.address = "10.0.0.1";
  node.join.workers = 2;
  node.join.ranks = {1, 0};
  node.store_port = 4000;
  node.rank_kept = NodeRank{0};
  return node;
}

JournalRecord RoundRecord() {
  JournalRecord record;
  record.at = absl::FromUnixNanos(123456789);
  DurableRound& round = record.round.emplace();
  round.round = {5, 3};
  round.members = {Node(2)};
  round.others = {Node(1)};
  round.node_ids = 2;
  round.incarnations = 77;
  round.agreed = {{{"--nnodes", "7"}}, "host2"};
  round.chain = {5, 2};
  round.started_in = {3, 0};
  round.members[0].since = {5, 2};
  round.members[0].signals_before = 8;
  round.members[0].exits_before = 9;
  DurableProgress& progress = record.progress.emplace();
  progress.phase = JobPhase::kRunning;
  progress.signals = {{3, 10}};
  progress.restarts = 4;
  progress.used.job = 3;
  progress.used.by_rank = {{Rank{1}, 2}, {Rank{5}, 1}};
  progress.used.by_node = {{NodeId{1}, 3}};
  progress.failures = {{NodeId{2}, 2}};
  progress.set_aside = {{NodeId{1}, {absl::FromUnixNanos(99), "3 failures began there"}}};
  progress.short_rounds = 2;
  progress.not_before = absl::FromUnixNanos(77);
  progress.restart_text = "restart 3 of 5";
  progress.lived = absl::Milliseconds(300);
  progress.begun = absl::FromUnixNanos(42);
  progress.round_began = absl::FromUnixNanos(66);
  progress.stop_began = absl::FromUnixNanos(67);
  progress.paused_since = absl::FromUnixNanos(88);
  progress.regroupings = 1;
  record.wall_at = absl::FromUnixNanos(55);
  progress.history = {"round 5.1: x", "round 5.2: y"};
  return record;
}

JournalRecord ExitRecord() {
  JournalRecord record;
  record.at = absl::FromUnixNanos(223456789);
  Beat& beat = record.exits.emplace_back();
  beat.node = NodeId{2};
  beat.round = {5, 3};
  beat.exits_from = 1;
  WorkerExit exit;
  exit.rank = Rank{1};
  exit.kind = ExitKind::kSignaled;
  exit.code = 11;
  exit.stderr_tail = std::string("not \xff UTF-8\0", 12);
  beat.exits = {exit};
  record.losses = {{NodeId{1}, true, "asked to"}};
  record.lost_nodes = {{"host1", "node host1 left", {0}, absl::FromUnixNanos(9)}};
  DurableProgress& progress = record.progress.emplace();
  progress.phase = JobPhase::kEnding;
  progress.stop_reason = StopReason::kWorker;
  progress.stop_signal = 15;
  progress.stop_grace = absl::Seconds(30);
  progress.stop_is_final = true;
  progress.next = {{1, 4},
                   {{2, "node host2 was lost"}},
                   2,
                   {"rank 1 ended", "host2 was lost"},
                   RestartsUsed{3, {{Rank{1}, 1}}, {{NodeId{2}, 2}}}};
  progress.paid_for = {7};
  progress.user_signo = 2;
  progress.lost_id = NodeId{1};
  progress.lost_node = "host1";
  progress.lost_headline = "it is lost";
  progress.ended = true;
  progress.exit_code = 139;
  progress.cause = CauseKind::kWorker;
  progress.headline = "rank 1 was ended";
  progress.blamed_node = "host9";
  progress.first = Rank{1};
  return record;
}

std::string Whole(const std::string& key = "alice/job") {
  return absl::StrCat(*EncodeHeader(Header(key)), *EncodeRecord(RoundRecord()),
                      *EncodeRecord(ExitRecord()));
}

TEST(JournalCodec, WhatIsWrittenIsRead) {
  const absl::StatusOr<JournalFile> file = DecodeJournal(Whole());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->good_bytes, Whole().size());
  EXPECT_EQ(file->header.key, "alice/job");
  EXPECT_EQ(file->header.terms, Header().terms);
  ASSERT_THAT(file->records, SizeIs(2));
  EXPECT_EQ(file->records[0].at, RoundRecord().at);
  EXPECT_EQ(file->records[0].progress, RoundRecord().progress);
  const DurableRound& round = *file->records[0].round;
  EXPECT_EQ(round.round, (RoundId{5, 3}));
  EXPECT_EQ(round.agreed, RoundRecord().round->agreed);
  EXPECT_EQ(round.chain, RoundRecord().round->chain);
  EXPECT_EQ(round.started_in, RoundRecord().round->started_in);
  EXPECT_EQ(round.members[0].since, RoundRecord().round->members[0].since);
  EXPECT_EQ(round.members[0].signals_before, 8u);
  EXPECT_EQ(round.members[0].exits_before, 9u);
  EXPECT_EQ(round.members[0].incarnation, Node(2).incarnation);
  EXPECT_EQ(round.members[0].join.ranks, Node(2).join.ranks);
  EXPECT_EQ(round.others[0].rank_kept, Node(1).rank_kept);
  EXPECT_EQ(file->records[1].progress, ExitRecord().progress);
  EXPECT_EQ(file->records[1].lost_nodes, ExitRecord().lost_nodes);
  EXPECT_TRUE(file->records[1].losses[0].left);
  EXPECT_EQ(file->records[1].exits[0].exits[0].stderr_tail,
            ExitRecord().exits[0].exits[0].stderr_tail);
  // All of it: what was read is written as it was.
  EXPECT_EQ(absl::StrCat(*EncodeHeader(file->header), *EncodeRecord(file->records[0]),
                         *EncodeRecord(file->records[1])),
            Whole());
}

TEST(JournalCodec, WhatWasCutOffDoesNotCount) {
  const std::string whole = Whole();
  const size_t first = EncodeHeader(Header())->size() + EncodeRecord(RoundRecord())->size();
  for (size_t size = 0; size < whole.size(); ++size) {
    const absl::StatusOr<JournalFile> file = DecodeJournal(whole.substr(0, size));
    ASSERT_EQ(file.ok(), size >= first) << size;
    if (file.ok()) {
      EXPECT_EQ(file->good_bytes, first);
      EXPECT_THAT(file->records, SizeIs(1));
    }
  }
  const absl::StatusOr<JournalFile> zeros = DecodeJournal(whole + std::string(100, '\0'));
  ASSERT_TRUE(zeros.ok()) << zeros.status();
  EXPECT_EQ(zeros->good_bytes, whole.size());
}

TEST(JournalCodec, ADamagedByteIsNeverBelieved) {
  const std::string whole = Whole();
  const size_t last = whole.size() - EncodeRecord(ExitRecord())->size();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    const absl::StatusOr<JournalFile> file = DecodeJournal(damaged);
    // Of the last record the payload may be what a crash left of it.
    const bool may_be_torn = at >= last + 12;
    EXPECT_EQ(file.ok(), may_be_torn) << at;
    if (file.ok()) {
      EXPECT_THAT(file->records, SizeIs(1)) << at;
    } else {
      EXPECT_THAT(std::string(file.status().message()), HasSubstr("damaged at byte ")) << at;
    }
  }
}

// As a store writes what came while it was busy: one frame, so that a crash leaves all or nothing.
TEST(JournalCodec, OfABatchNothingCountsUnlessAllIsThere) {
  const std::string record = *EncodeRecord(ExitRecord());
  const std::string batch = JoinFrames({record, record, record});
  const std::string before = Whole();
  const absl::StatusOr<JournalFile> file = DecodeJournal(before + batch + record);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->records, SizeIs(6));
  EXPECT_EQ(*EncodeRecord(file->records[4]), record);
  for (size_t from = 0; from < batch.size(); ++from) {
    for (const size_t size : {size_t{1}, size_t{100}, batch.size()}) {
      std::string torn = before + batch;
      const size_t end = std::min(from + size, batch.size());
      // Sectors that were not written: of that at the end of what was confirmed, all of ours.
      const size_t first = (before.size() + from) / 512 * 512;
      const size_t last = (before.size() + end + 511) / 512 * 512;
      for (size_t at = std::max(first, before.size()); at < std::min(last, torn.size()); ++at) {
        torn[at] = '\0';
      }
      const absl::StatusOr<JournalFile> left = DecodeJournal(torn);
      ASSERT_TRUE(left.ok()) << from << "+" << size << ": " << left.status();
      EXPECT_EQ(left->good_bytes, before.size());
      EXPECT_THAT(left->records, SizeIs(2));
    }
    std::string damaged =
        absl::StrCat(before, batch, record);  // it was confirmed: there is another behind it
    damaged[before.size() + from] = static_cast<char>(damaged[before.size() + from] ^ 4);
    EXPECT_TRUE(absl::IsDataLoss(DecodeJournal(damaged).status())) << from;
  }
  std::string zeroed = before + batch + record;
  std::fill_n(zeroed.begin() + static_cast<std::ptrdiff_t>(before.size()), 600, '\0');
  EXPECT_TRUE(absl::IsDataLoss(DecodeJournal(zeroed).status()));
}

TEST(JournalCodec, AnotherBuildIsRefusedByName) {
  v1::JournalHeader wire;
  wire.set_format(1);
  wire.set_build("0.0.9-other");
  const absl::StatusOr<JournalFile> file = DecodeJournal(*FrameJournal(wire.SerializeAsString()));
  EXPECT_TRUE(absl::IsFailedPrecondition(file.status()));
  EXPECT_THAT(std::string(file.status().message()),
              HasSubstr("muster 0.0.9-other wrote it (format 1), this is "));
}

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    char name[] = "/tmp/muster-journal-XXXXXX";
    folder_ = std::string(mkdtemp(name)) + "/journal";
  }
  ~JournalTest() override {
    journal_.reset();
    std::filesystem::remove_all(std::filesystem::path(folder_).parent_path());
  }
  absl::Status Open(uint32_t epoch = 1) {
    journal_.reset();
    absl::StatusOr<std::unique_ptr<Journal>> opened = Journal::Open(loop_.get(), folder_, epoch);
    if (!opened.ok()) {
      return opened.status();
    }
    journal_ = *std::move(opened);
    return absl::OkStatus();
  }
  void Write(uint64_t file, bool anew, const std::string& bytes) {
    journal_->Write(file, anew, bytes,
                    [this](const absl::Status& status) { done_.push_back(status.ok()); });
  }
  void Wait(size_t count) {
    loop_.Until([&] { return done_.size() >= count; }, "the disk");
  }
  std::string Path(uint64_t file) const { return absl::StrCat(folder_, "/job-", file); }

  TestLoop loop_;
  std::string folder_;
  std::unique_ptr<Journal> journal_;
  std::vector<bool> done_;
};

TEST_F(JournalTest, TheNextOneFindsWhatWasWritten) {
  ASSERT_TRUE(Open().ok());
  EXPECT_THAT(journal_->TakeFound(), IsEmpty());
  const uint64_t file = journal_->NewFile();
  const std::string begin = absl::StrCat(*EncodeHeader(Header()), *EncodeRecord(RoundRecord()));
  Write(file, true, "displaced");
  Write(file, true, begin);
  Write(file, false, *EncodeRecord(ExitRecord()));
  EXPECT_THAT(done_, IsEmpty());  // J1
  Wait(3);
  EXPECT_THAT(done_, ElementsAre(true, true, true));
  struct stat info {};
  ASSERT_EQ(stat(Path(file).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  std::ofstream(Path(9) + ".new") << "half of it";
  ASSERT_TRUE(Open().ok());
  const std::vector<Journal::Found> found = journal_->TakeFound();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].file, file);
  EXPECT_FALSE(found[0].same_clock);
  EXPECT_THAT(found[0].content.records, SizeIs(2));
  EXPECT_GT(journal_->NewFile(), file);
  EXPECT_FALSE(std::filesystem::exists(Path(9) + ".new"));  // F1
}

TEST_F(JournalTest, WhatIsWrongWithItsFolderIsSaidOnce) {
  const std::string before = folder_;
  folder_ = before + "/there/is/none";
  EXPECT_EQ(Open().message(), folder_ + ": No such file or directory");
  folder_ = before;
}

TEST_F(JournalTest, WhatCameWhileItWasBusyIsOneFrame) {
  ASSERT_TRUE(Open().ok());
  const std::string begin = absl::StrCat(*EncodeHeader(Header()), *EncodeRecord(RoundRecord()));
  const std::string record = *EncodeRecord(ExitRecord());
  Write(1, true, begin);  // the first batch
  for (int i = 0; i < 3; ++i) {
    Write(1, false, record);
  }
  Wait(4);
  EXPECT_THAT(done_, ElementsAre(true, true, true, true));
  EXPECT_EQ(std::filesystem::file_size(Path(1)),
            begin.size() + JoinFrames({record, record, record}).size());
  ASSERT_TRUE(Open().ok());
  EXPECT_THAT(journal_->TakeFound()[0].content.records, SizeIs(4));
}

TEST_F(JournalTest, EachMasterHasAHigherEpoch) {
  ASSERT_TRUE(Open(100).ok());
  EXPECT_EQ(journal_->epoch(), 100u);
  ASSERT_TRUE(Open(100).ok());
  EXPECT_EQ(journal_->epoch(), 101u);
  ASSERT_TRUE(Open(7).ok());  // the wall clock was set back
  EXPECT_EQ(journal_->epoch(), 102u);
}

TEST_F(JournalTest, OneMasterHasTheFolder) {
  ASSERT_TRUE(Open().ok());
  const auto second = Journal::Open(loop_.get(), folder_, 1);
  EXPECT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use by another"));
}

TEST_F(JournalTest, WhatIsRemovedIsGoneAndOfTwoTheNewerCounts) {
  ASSERT_TRUE(Open().ok());
  Write(1, true, Whole());
  Write(2, true, Whole());
  Write(3, true, Whole("bob/job"));
  journal_->Remove(3);
  Write(4, false, "to a file that is not there");
  Wait(4);
  EXPECT_THAT(done_, ElementsAre(true, true, true, false));
  ASSERT_TRUE(Open().ok());
  const std::vector<Journal::Found> found = journal_->TakeFound();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].file, 2u);
  EXPECT_FALSE(std::filesystem::exists(Path(1)));
}

TEST_F(JournalTest, ATornTailIsCutOffAndDamageIsNamed) {
  ASSERT_TRUE(Open().ok());
  Write(1, true, Whole() + "torn");
  Wait(1);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(std::filesystem::file_size(Path(1)), Whole().size());
  std::ofstream(Path(1), std::ios::app) << std::string(100, 'x');
  Write(2, true, Whole("bob/job"));
  Wait(2);
  ASSERT_TRUE(Open().ok());
  EXPECT_THAT(journal_->TakeDamaged(), ElementsAre(absl::DataLossError(absl::StrCat(
                                           Path(1), ": damaged at byte ", Whole().size()))));
  EXPECT_THAT(journal_->TakeFound(), SizeIs(1));
  EXPECT_EQ(journal_->NewFile(), 3u);
  EXPECT_TRUE(std::filesystem::exists(Path(1)));
}

}  // namespace
}  // namespace muster
