#include "agent/io/worker_pmi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/core/pmi1_wire.h"
#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class WorkerPmiTest : public LoopTest {
 protected:
  WorkerPmiTest() {
    Pmi1Round round;
    round.kvsname = "job";
    round.world_size = 2;
    round.mapping = "(vector,(0,1,2))";
    round.appnums = {0, 0};
    pmi_.BeginRound(std::move(round));
    for (uint32_t i = 0; i < 2; ++i) {
      absl::StatusOr<UniqueFd> end = pmi_.Open(LocalRank{i});
      EXPECT_TRUE(end.ok()) << end.status();
      ends_.push_back(*std::move(end));
    }
  }

  void Say(size_t worker, const std::string& bytes) {
    ASSERT_EQ(send(ends_[worker].get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  // What that worker has been sent, once it ends with `last`; "closed" at its end.
  std::string Heard(size_t worker, const std::string& last = "\n") {
    std::string heard;
    RunUntil([&] {
      char bytes[4096];
      const ssize_t n = recv(ends_[worker].get(), bytes, sizeof(bytes), MSG_DONTWAIT);
      heard += n > 0 ? std::string(bytes, static_cast<size_t>(n)) : n == 0 ? "closed" : "";
      return heard.ends_with(last) || heard.ends_with("closed");
    });
    return heard;
  }

  std::vector<std::string> entered_;
  std::vector<LocalRank> killed_;
  WorkerPmi pmi_{&loop_,
                 {.enter = [this](std::string pairs) { entered_.push_back(std::move(pairs)); },
                  .kill = [this](LocalRank worker) { killed_.push_back(worker); }}};
  std::vector<UniqueFd> ends_;
};

TEST_F(WorkerPmiTest, LinesMayComeInPiecesAndSeveralAtOnce) {
  Say(0, "cmd=init pmi_version=1 pmi_sub");
  Say(1, "cmd=get_universe_size\ncmd=get_appnum\n");
  EXPECT_EQ(Heard(1, "appnum=0\n"), "cmd=universe_size rc=0 size=2\ncmd=appnum rc=0 appnum=0\n");
  Say(0, "version=1\n");
  EXPECT_EQ(Heard(0), "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n");
}

TEST_F(WorkerPmiTest, WhoHasCalledInitHasCome) {
  EXPECT_FALSE(pmi_.HasCome(LocalRank{0}));
  Say(0, "cmd=init pmi_version=1 pmi_subversion=1\n");
  EXPECT_THAT(Heard(0), HasSubstr("rc=0"));
  EXPECT_TRUE(pmi_.HasCome(LocalRank{0}));
  EXPECT_FALSE(pmi_.HasCome(LocalRank{1}));
  EXPECT_FALSE(pmi_.HasCome(LocalRank{7}));
}

TEST_F(WorkerPmiTest, WhoAsksForASecondWorldIsKilled) {
  Say(0, "cmd=init pmi_version=1 pmi_subversion=1\ncmd=init pmi_version=1 pmi_subversion=1\n");
  ASSERT_TRUE(RunUntil([this] { return !killed_.empty(); }));
  EXPECT_THAT(killed_, ElementsAre(LocalRank{0}));
  EXPECT_EQ(pmi_.WorkerEnded(LocalRank{0}, false).kind, MpiEnd::Kind::kRefused);
}

TEST_F(WorkerPmiTest, ABarrierIsEnteredByAllAndLeftTogether) {
  Say(0, "cmd=put kvsname=job key=a value=b\ncmd=barrier_in\n");
  EXPECT_THAT(Heard(0), HasSubstr("put_result rc=0"));
  EXPECT_THAT(entered_, IsEmpty());
  Say(1, "cmd=barrier_in\n");
  ASSERT_TRUE(RunUntil([this] { return !entered_.empty(); }));
  ASSERT_EQ(entered_.size(), 1u);
  pmi_.Fenced(entered_[0]);
  EXPECT_THAT(Heard(0), HasSubstr("cmd=barrier_out"));
  EXPECT_THAT(Heard(1), HasSubstr("cmd=barrier_out"));
  Say(1, "cmd=get kvsname=job key=a\n");
  EXPECT_THAT(Heard(1), HasSubstr("value=b"));
}

// However much of it comes at once, one warning is enough; the others are not concerned.
TEST_F(WorkerPmiTest, WhoSpeaksAnotherLanguageIsCutOffAtItsFirstLine) {
  testing::internal::CaptureStderr();
  Say(0, "GET / HTTP/1.1\nHost: here\ncmd=get_appnum\n");
  EXPECT_EQ(Heard(0), "closed");
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t first = said.find("local rank 0 does not speak PMI-1");
  ASSERT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("does not speak", first + 40), std::string::npos) << said;
  Say(1, "cmd=get_appnum\n");
  EXPECT_THAT(Heard(1), HasSubstr("rc=0"));
}

TEST_F(WorkerPmiTest, ALineWithoutAnEndIsNotKept) {
  testing::internal::CaptureStderr();
  Say(0, std::string(kPmi1LineMax + 1, 'x'));
  EXPECT_EQ(Heard(0), "closed");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the limit is 4096"));
}

TEST_F(WorkerPmiTest, WhoAbortsAndStaysIsKilled) {
  Say(1, "cmd=abort exitcode=7\n");
  ASSERT_TRUE(RunUntil([this] { return !killed_.empty(); }));
  EXPECT_THAT(killed_, ElementsAre(LocalRank{1}));
  EXPECT_EQ(pmi_.WorkerEnded(LocalRank{1}, /*well=*/false).code, 7);
}

TEST_F(WorkerPmiTest, WhoGoesOnSayingThatItAbortsIsKilledAllTheSame) {
  ASSERT_TRUE(RunUntil([this] {
    send(ends_[1].get(), "cmd=abort exitcode=7\n", 21, MSG_DONTWAIT);
    return !killed_.empty();
  }));
  EXPECT_THAT(killed_, ElementsAre(LocalRank{1}));
}

// A child of it has its end of the socket, and asks on.
TEST_F(WorkerPmiTest, WhoseChildGoesOnHasEnded) {
  std::atomic<size_t> sent = 0;
  std::atomic<bool> stop = false;
  std::thread child([&] {
    std::string lines;
    while (lines.size() < (64u << 10)) {
      lines += "cmd=get_appnum\n";
    }
    for (ssize_t n = 0; n >= 0 && !stop; sent += static_cast<size_t>(n)) {
      n = send(ends_[0].get(), lines.data(), lines.size(), MSG_NOSIGNAL);
    }
  });
  while (sent < (64u << 10)) {
    std::this_thread::yield();
  }
  EXPECT_EQ(pmi_.WorkerEnded(LocalRank{0}, /*well=*/false).kind, MpiEnd::Kind::kNoMpi);
  stop = true;
  child.join();
}

TEST_F(WorkerPmiTest, WhoAbortsAndEndsIsNot) {
  Say(1, "cmd=abort exitcode=7\n");
  EXPECT_EQ(pmi_.WorkerEnded(LocalRank{1}, /*well=*/false).kind, MpiEnd::Kind::kAborted);
  Say(0, "cmd=get_appnum\n");
  EXPECT_THAT(Heard(0), HasSubstr("rc=0"));
  EXPECT_THAT(killed_, IsEmpty());
}

// The last words of a process are still in the socket when it has ended.
TEST_F(WorkerPmiTest, WhatWasSaidBeforeTheEndCounts) {
  Say(0, "cmd=init pmi_version=1 pmi_subversion=1\ncmd=finalize\n");
  Say(1, "cmd=init pmi_version=1 pmi_subversion=1\n");
  ends_.clear();
  EXPECT_EQ(pmi_.WorkerEnded(LocalRank{0}, /*well=*/false).kind, MpiEnd::Kind::kFinalized);
  EXPECT_EQ(pmi_.WorkerEnded(LocalRank{1}, /*well=*/false).kind, MpiEnd::Kind::kInside);
}

TEST_F(WorkerPmiTest, AfterTheRoundNobodyHasAnMpi) {
  pmi_.EndRound();
  EXPECT_EQ(Heard(0), "closed");
  EXPECT_EQ(pmi_.WorkerEnded(LocalRank{0}, /*well=*/false).kind, MpiEnd::Kind::kNoMpi);
}

}  // namespace
}  // namespace muster
