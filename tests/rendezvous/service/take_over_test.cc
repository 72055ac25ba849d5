// What a master makes of the journal of one before it.
#include <gtest/gtest.h>

#include <memory>
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

// Two machines may lead in turns: what the second appends has the first one's times before it.
TEST(TakeOver, WhatAnotherMachineHasWrittenGoesOnInOurClock) {
  TestLoop loop;
  MasterOptions options;
  options.users = OneSecret("the secret");
  options.many_jobs = true;
  MasterServer master(loop.get(), std::move(options));
  const absl::Time before = BootNow();
  const auto store = std::make_shared<FakeStore>();
  store->stored = {{1, "job-1",
                    absl::StrCat(*EncodeHeader({"job", "job", "another boot", {}}),
                                 *EncodeRecord(RoundRecord(before + absl::Hours(1000))))}};
  const std::unique_ptr<Journal> journal = *Journal::On(loop.get(), store);
  EXPECT_EQ(*master.Lead(journal.get(), [] { return true; }), 1u);
  loop.Until([&] { return journal->idle(); }, "the disk");
  {
    const MutexLock lock(store->mutex);
    ASSERT_FALSE(store->batches.empty());
    const absl::StatusOr<JournalFile> file =
        DecodeJournal(absl::string_view(store->batches[0]).substr(1));  // behind its number
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->header.clock, journal->clock());
    ASSERT_EQ(file->records.size(), 1u);
    EXPECT_GE(file->records[0].at, before);
    EXPECT_LT(file->records[0].at, before + absl::Hours(1));
    EXPECT_EQ(file->records[0].progress->begun, file->records[0].at - absl::Minutes(9));
  }
  bool down = false;
  master.Shutdown([&down] { down = true; });
  loop.Until([&] { return down; }, "the master's shutdown");
}

}  // namespace
}  // namespace muster
