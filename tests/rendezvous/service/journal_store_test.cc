// What a journal makes of a store that is slow, refuses, or belongs to another master by now.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/service/journal.h"
#include "tests/proto/wire/test_loop.h"
#include "tests/rendezvous/service/fake_store.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class JournalStoreTest : public testing::Test {
 protected:
  ~JournalStoreTest() override { journal_.reset(); }
  void Open(const JournalLimits& limits = JournalLimits()) {
    journal_ = *Journal::On(
        loop_.get(), store_, [this] { superseded_ = true; }, limits);
  }
  void Write(uint64_t file, const std::string& bytes) {
    journal_->Write(file, false, bytes, [this, bytes](const absl::Status& status) {
      done_.push_back(absl::StrCat(bytes, ": ", status.message()));
    });
  }
  std::vector<std::string> Batches() {
    const MutexLock lock(store_->mutex);
    return store_->batches;
  }

  TestLoop loop_;
  const std::shared_ptr<FakeStore> store_ = std::make_shared<FakeStore>();
  std::unique_ptr<Journal> journal_;
  std::vector<std::string> done_;
  bool superseded_ = false;
};

TEST_F(JournalStoreTest, WhatComesWhileItIsBusyIsOneBatch) {
  std::promise<void> open;
  store_->gate = open.get_future().share();
  Open();
  for (const char* bytes : {"a", "b", "c"}) {
    Write(1, bytes);
  }
  EXPECT_THAT(done_, IsEmpty());  // J1
  open.set_value();
  loop_.Until([&] { return done_.size() == 3; }, "the store");
  EXPECT_THAT(done_, ElementsAre("a: ", "b: ", "c: "));
  EXPECT_THAT(Batches(), ElementsAre("1a ", "1b 1c "));
}

TEST_F(JournalStoreTest, PassesOnWhatTheStoreRefuses) {
  store_->answer = absl::ResourceExhaustedError("it is full");
  Open();
  Write(1, "a");
  loop_.Until([&] { return done_.size() == 1; }, "the store");
  EXPECT_THAT(done_, ElementsAre("a: it is full"));
}

// J2
TEST_F(JournalStoreTest, OneThatHangsFailsWhatWaitsAndWhatComesUntilItAnswers) {
  std::promise<void> open;
  store_->gate = open.get_future().share();
  Open({.write_max = absl::Milliseconds(5)});
  Write(1, "a");
  Write(1, "b");
  journal_->Remove(2);
  loop_.Until([&] { return done_.size() == 2; }, "its deadline");
  Write(1, "c");
  EXPECT_THAT(done_, ElementsAre(HasSubstr("a: the fake took nothing for"),
                                 HasSubstr("b: the fake"), HasSubstr("c: the fake")));
  open.set_value();
  loop_.Until([&] { return Batches().size() == 2; }, "what is to be removed");
  EXPECT_THAT(Batches(), ElementsAre("1a ", "2 "));
}

TEST_F(JournalStoreTest, AFileGetsNoMoreThanAMasterReads) {
  JournalRecord record;
  record.round.emplace();
  store_->stored = {
      {9, "found", absl::StrCat(*EncodeHeader(JournalHeader()), *EncodeRecord(record))}};
  const size_t found = store_->stored[0].bytes.size();
  Open({.file_bytes_max = found + 4});
  Write(1, std::string(found + 4, 'a'));
  Write(9, "1234");
  Write(9, "5");
  EXPECT_THAT(done_, ElementsAre(HasSubstr("5: its journal has more than ")));
  Write(1, "b");
  journal_->Write(1, /*anew=*/true, "c", [this](const absl::Status& status) {
    done_.push_back(absl::StrCat("c: ", status.message()));
  });
  loop_.Until([&] { return done_.size() == 5; }, "the store");
  EXPECT_THAT(done_[1], HasSubstr("b: its journal has more than "));
  EXPECT_THAT(done_[2], EndsWith("a: "));
  EXPECT_THAT(done_[3], "1234: ");
  EXPECT_THAT(done_[4], "c: ");
}

// J6
TEST_F(JournalStoreTest, AWriteThatIsTooLongForAllIsRefusedToItsFileAlone) {
  Open({.write_bytes_max = 4});
  Write(1, "12345");
  Write(2, "1234");
  EXPECT_THAT(done_, ElementsAre(HasSubstr("12345: one write of its journal has 5 bytes, the limit "
                                           "is 4: the job has too many nodes")));
  loop_.Until([&] { return done_.size() == 2; }, "the store");
  EXPECT_THAT(Batches(), ElementsAre("21234 "));
}

// J6: others go before it, but nothing of its own file.
TEST_F(JournalStoreTest, WhatFindsNoRoomInABatchWaitsAlone) {
  std::promise<void> open;
  store_->gate = open.get_future().share();
  Open({.write_bytes_max = 4});
  Write(1, "a");
  Write(2, "bb");
  Write(1, "ccc");
  Write(1, "d");
  Write(3, "ee");
  open.set_value();
  loop_.Until([&] { return done_.size() == 5; }, "the store");
  EXPECT_THAT(Batches(), ElementsAre("1a ", "2bb 3ee ", "1ccc 1d "));
  EXPECT_THAT(done_, ElementsAre("a: ", "bb: ", "ee: ", "ccc: ", "d: "));
}

// J5
TEST_F(JournalStoreTest, WhatCannotBeRemovedIsTriedAgain) {
  store_->answer = absl::UnavailableError("later");
  Open({.remove_again = absl::Milliseconds(1)});
  journal_->Remove(1);
  loop_.Until([&] { return Batches().size() >= 3; }, "the third try");
}

TEST_F(JournalStoreTest, WhatIsRemovedIsNotTriedAgain) {
  Open({.remove_again = absl::ZeroDuration()});
  journal_->Remove(2);
  for (size_t i = 1; i <= 3; ++i) {
    Write(3, "a");
    loop_.Until([&] { return done_.size() == i; }, "the store");
  }
  EXPECT_THAT(Batches(), ElementsAre("2 ", "3a ", "3a ", "3a "));
}

// J4
TEST_F(JournalStoreTest, OneOfAnotherMasterAnswersNoMore) {
  store_->superseded = true;
  Open();
  Write(1, "a");
  loop_.Until([&] { return superseded_; }, "the news");
  Write(1, "b");
  EXPECT_THAT(done_, IsEmpty());
  EXPECT_THAT(Batches(), ElementsAre("1a "));
}

}  // namespace
}  // namespace muster
