#include "rendezvous/etcd/etcd_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/rendezvous/etcd/fake_etcd.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using What = JournalTask::What;

constexpr char kLeader[] = "/muster/x/lead/leader";

class EtcdStoreTest : public testing::Test {
 protected:
  EtcdStoreTest() { Lead(); }

  // Another master takes the lead.
  std::unique_ptr<EtcdStore> Lead(absl::Duration write_max = kEtcdWriteMax) {
    EtcdClient client(place_);
    right_ = {right_.epoch + 1, {kLeader, 0}};
    const absl::StatusOr<int64_t> revision =
        client.Change({{}, {{kLeader, absl::StrCat(right_.epoch), 0}}, {}}, absl::Seconds(10));
    right_.guard.mod_revision = revision.value();
    return std::make_unique<EtcdStore>(place_, right_, write_max);
  }
  // The files, as "NUMBER BYTES".
  static std::vector<std::string> Read(EtcdStore& store) {
    const absl::StatusOr<std::vector<StoredFile>> files = store.ReadAll();
    EXPECT_TRUE(files.ok()) << files.status();
    std::vector<std::string> out;
    for (const StoredFile& file : *files) {
      out.push_back(absl::StrCat(file.file, " ", file.bytes));
    }
    return out;
  }
  static absl::Status Do(EtcdStore& store, What what, uint64_t file,
                         const std::string& bytes = "") {
    std::vector<JournalTask> tasks = {{what, file, bytes, absl::OkStatus()}};
    EXPECT_TRUE(store.Do(tasks));
    return tasks[0].status;
  }
  std::vector<std::string> ReadByNext() { return Read(*Lead()); }

  FakeEtcd etcd_;
  const EtcdPlace place_ = {{etcd_.member()}, "x"};
  LeadRight right_;
};

TEST_F(EtcdStoreTest, TheNextOneFindsWhatWasWritten) {
  const auto store = Lead();
  EXPECT_THAT(Read(*store), IsEmpty());
  EXPECT_TRUE(Do(*store, What::kReplace, 1, "one").ok());
  EXPECT_TRUE(Do(*store, What::kReplace, 2, "two").ok());
  EXPECT_TRUE(Do(*store, What::kAppend, 1, "!").ok());
  EXPECT_THAT(ReadByNext(), ElementsAre("1 one!", "2 two"));
}

// T1
TEST_F(EtcdStoreTest, NothingOfOneThatHasLostTheLeadGetsIn) {
  const auto before = Lead();
  EXPECT_THAT(Read(*before), IsEmpty());
  EXPECT_TRUE(Do(*before, What::kReplace, 1, "one").ok());
  const auto now = Lead();
  for (const What what : {What::kReplace, What::kAppend, What::kRemove}) {
    std::vector<JournalTask> tasks = {{what, 1, "late", absl::OkStatus()}};
    EXPECT_FALSE(before->Do(tasks));
  }
  EXPECT_TRUE(absl::IsAborted(before->ReadAll().status()));
  EXPECT_THAT(Read(*now), ElementsAre("1 one"));
}

// T1
TEST_F(EtcdStoreTest, AChangeWhoseAnswerIsLostHappensOnce) {
  const auto store = Lead();
  EXPECT_THAT(Read(*store), IsEmpty());
  etcd_.LoseAnswers(1);
  EXPECT_TRUE(Do(*store, What::kReplace, 1, "one").ok());
  etcd_.LoseAnswers(2);
  EXPECT_TRUE(Do(*store, What::kAppend, 1, "!").ok());
  EXPECT_THAT(ReadByNext(), ElementsAre("1 one!"));
}

TEST_F(EtcdStoreTest, GoesOnBehindAChangeOfWhichItNeverHeard) {
  const auto store = Lead(absl::Milliseconds(200));
  EXPECT_THAT(Read(*store), IsEmpty());
  etcd_.LoseAnswers(1 << 20);
  const absl::Status unheard = Do(*store, What::kReplace, 1, "one");
  EXPECT_TRUE(absl::IsDeadlineExceeded(unheard)) << unheard;
  etcd_.LoseAnswers(0);
  EXPECT_TRUE(Do(*store, What::kReplace, 2, "two").ok());
  EXPECT_TRUE(Do(*store, What::kRemove, 1).ok());
  EXPECT_THAT(ReadByNext(), ElementsAre("2 two"));
}

TEST_F(EtcdStoreTest, WhatCouldNotBeRemovedIsRemovedWithWhatComesNext) {
  const auto store = Lead();
  EXPECT_THAT(Read(*store), IsEmpty());
  EXPECT_TRUE(Do(*store, What::kReplace, 1, "one").ok());
  etcd_.Refuse({grpc::StatusCode::RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded"});
  for (const auto& [what, file] : {std::pair(What::kRemove, 1), {What::kReplace, 2}}) {
    const absl::Status refused = Do(*store, what, static_cast<uint64_t>(file), "x");
    EXPECT_THAT(std::string(refused.message()), HasSubstr("database space exceeded"));
  }
  etcd_.Refuse(grpc::Status::OK);
  EXPECT_TRUE(Do(*store, What::kReplace, 3, "three").ok());
  EXPECT_THAT(ReadByNext(), ElementsAre("3 three"));
}

// T2
TEST_F(EtcdStoreTest, AFullEtcdRemovesWhatHasEnded) {
  const auto store = Lead();
  // Of the same lead: a full etcd takes no other.
  const auto next = [this] { return std::make_unique<EtcdStore>(place_, right_); };
  EXPECT_THAT(Read(*store), IsEmpty());
  for (uint64_t file = 1; file <= 3; ++file) {
    EXPECT_TRUE(Do(*store, What::kReplace, file, "x").ok());
  }
  etcd_.BeFull();
  EXPECT_FALSE(Do(*store, What::kAppend, 1, "!").ok());
  EXPECT_TRUE(Do(*store, What::kRemove, 1).ok());
  EXPECT_THAT(Read(*next()), ElementsAre("2 x", "3 x"));
  // Also in a batch of which another part is refused.
  std::vector<JournalTask> tasks = {{What::kAppend, 3, "!", absl::OkStatus()},
                                    {What::kRemove, 2, "", absl::OkStatus()}};
  EXPECT_TRUE(store->Do(tasks));
  EXPECT_FALSE(tasks[0].status.ok());
  EXPECT_TRUE(tasks[1].status.ok()) << tasks[1].status;
  EXPECT_THAT(Read(*next()), ElementsAre("3 x"));
}

// T1, T2
TEST_F(EtcdStoreTest, ARemovalWhoseAnswerIsLostLeavesWhatComesNext) {
  const auto store = Lead();
  EXPECT_THAT(Read(*store), IsEmpty());
  EXPECT_TRUE(Do(*store, What::kReplace, 1, "one").ok());
  etcd_.LoseAnswers(2);
  EXPECT_TRUE(Do(*store, What::kRemove, 1).ok());
  EXPECT_TRUE(Do(*store, What::kReplace, 1, "again").ok());
  EXPECT_THAT(ReadByNext(), ElementsAre("1 again"));
}

// T2
TEST_F(EtcdStoreTest, NothingThatWasGivenUpHappensBehindARemoval) {
  const auto store = Lead(absl::Milliseconds(200));
  EXPECT_THAT(Read(*store), IsEmpty());
  etcd_.LoseAnswers(1 << 20);
  EXPECT_TRUE(absl::IsDeadlineExceeded(Do(*store, What::kReplace, 1, "one")));
  etcd_.LoseAnswers(0);
  EtcdClient client(place_);
  const auto revision = [&client] {
    return client.Read("/muster/x/change", absl::Seconds(10))->front().mod_revision;
  };
  const int64_t given_up = revision();
  EXPECT_TRUE(Do(*store, What::kRemove, 1).ok());
  EXPECT_GT(revision(), given_up);  // so its guard does not hold any more
  EXPECT_THAT(ReadByNext(), IsEmpty());
}

// T1
TEST_F(EtcdStoreTest, NothingIsRemovedByOneThatHasLostTheLead) {
  const auto before = Lead();
  EXPECT_THAT(Read(*before), IsEmpty());
  EXPECT_TRUE(Do(*before, What::kReplace, 1, "one").ok());
  EXPECT_THAT(ReadByNext(), ElementsAre("1 one"));
  std::vector<JournalTask> tasks = {{What::kRemove, 1, "", absl::OkStatus()}};
  EXPECT_FALSE(before->Do(tasks));
  EXPECT_THAT(ReadByNext(), ElementsAre("1 one"));
}

}  // namespace
}  // namespace muster
