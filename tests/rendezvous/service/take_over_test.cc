// What a master makes of the journal of one before it.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/mutex.h"
#include "rendezvous/service/journal.h"
#include "rendezvous/service/journal_codec.h"
#include "rendezvous/service/master_server.h"
#include "tests/rendezvous/service/fake_store.h"
#include "tests/rendezvous/service/test_agent.h"

namespace muster {
namespace {

// A round of one node that began nine minutes before `at`.
JournalRecord RoundRecord(absl::Time at) {
  JournalRecord record;
  record.at = at;
  DurableRound& round = record.round.emplace();
  round.round = round.chain = {5, 1};
  DurableNode& node = round.members.emplace_back();
  node.node = NodeId{1};
  node.incarnation = Incarnation{1};
  node.join.key = "list/0";
  node.join.workers = 1;
  DurableProgress& progress = record.progress.emplace();
  progress.phase = JobPhase::kRunning;
  progress.begun = progress.round_began = at - absl::Minutes(9);
  return record;
}

class TakeOver : public testing::Test {
 protected:
  ~TakeOver() override {
    bool down = false;
    master_->Shutdown([&down] { down = true; });
    loop_.Until([&] { return down; }, "the master's shutdown");
  }
  // With what the journal's store holds.
  absl::StatusOr<size_t> Lead(bool many_jobs) {
    MasterOptions options;
    options.users = OneSecret("the secret");
    options.many_jobs = many_jobs;
    options.job.job_id = "job";
    master_.emplace(loop_.get(), std::move(options));
    journal_ = *Journal::On(loop_.get(), store_);
    return master_->Lead(journal_.get(), [] { return true; });
  }
  static std::string FileOf(const std::string& key, const JournalRecord& record) {
    return absl::StrCat(*EncodeHeader({key, key, "another boot", {}}), *EncodeRecord(record));
  }

  TestLoop loop_;
  const std::shared_ptr<FakeStore> store_ = std::make_shared<FakeStore>();
  std::unique_ptr<Journal> journal_;
  std::optional<MasterServer> master_;
};

// Two machines may lead in turns: what the second appends has the first one's times before it.
TEST_F(TakeOver, WhatAnotherMachineHasWrittenGoesOnInOurClock) {
  const absl::Time before = BootNow();
  store_->stored = {{1, "job-1", FileOf("job", RoundRecord(before + absl::Hours(1000)))}};
  EXPECT_EQ(*Lead(true), 1u);
  loop_.Until([&] { return journal_->idle(); }, "the disk");
  const MutexLock lock(store_->mutex);
  ASSERT_FALSE(store_->batches.empty());
  const absl::StatusOr<JournalFile> file =
      DecodeJournal(absl::string_view(store_->batches[0]).substr(1));  // behind its number
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->header.clock, journal_->clock());
  ASSERT_EQ(file->records.size(), 1u);
  EXPECT_GE(file->records[0].at, before);
  EXPECT_LT(file->records[0].at, before + absl::Hours(1));
  EXPECT_EQ(file->records[0].progress->begun, file->records[0].at - absl::Minutes(9));
}

// --timeout counts on where the writer of before had another boot.
TEST_F(TakeOver, TheTimeSinceTheLastRecordCounts) {
  JournalRecord record = RoundRecord(BootNow() + absl::Hours(1000));
  record.wall_at = absl::Now() - absl::Minutes(20);
  store_->stored = {{1, "job-1", FileOf("job", record)}};
  EXPECT_EQ(*Lead(true), 1u);
  const absl::Duration runs = BootNow() - master_->FindJob("job")->begun;
  EXPECT_GE(runs, absl::Minutes(29));
  EXPECT_LT(runs, absl::Minutes(30));
}

// It is there for nodes that come late, and does not go on.
TEST_F(TakeOver, AJobThatHasEndedIsNotCounted) {
  JournalRecord ended = RoundRecord(BootNow());
  ended.progress->phase = JobPhase::kEnded;
  ended.progress->ended = true;
  store_->stored = {{1, "job-1", FileOf("ended", ended)},
                    {2, "job-2", FileOf("job", RoundRecord(BootNow()))}};
  EXPECT_EQ(*Lead(true), 1u);
  EXPECT_NE(master_->FindJob("ended"), nullptr);
}

// The bytes of the one, and the records of the other, say nothing.
TEST_F(TakeOver, ADaemonGoesOnWithoutTheJobsThatAreDamaged) {
  JournalRecord loss;
  loss.at = BootNow();
  loss.losses.push_back({NodeId{7}, false, "of no member"});
  store_->stored = {{1, "job-1", "?"},
                    {2, "job-2", FileOf("senseless", loss)},
                    {3, "job-3", FileOf("job", RoundRecord(BootNow()))}};
  EXPECT_EQ(*Lead(true), 1u);
  EXPECT_NE(master_->FindJob("job"), nullptr);
  EXPECT_EQ(master_->FindJob("senseless"), nullptr);
}

TEST_F(TakeOver, WhoHasOneJobIsTold) {
  store_->stored = {{1, "job-1", "?"}};
  EXPECT_EQ(Lead(false).status(),
            absl::DataLossError("job-1: damaged at byte 0; remove it to give its job up"));
}

}  // namespace
}  // namespace muster
