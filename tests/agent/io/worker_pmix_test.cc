#include "agent/io/worker_pmix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The test is the helper.
class WorkerPmixTest : public LoopTest {
 protected:
  WorkerPmixTest() {
    EXPECT_NE(mkdtemp(root_.data()), nullptr);
    world_.name = "w";
    world_.folder = root_ + "/mpi-1";
    world_.hosts = {"here"};
    world_.ranks = {{0, 1}};
    world_.apps = {0, 0};
  }
  ~WorkerPmixTest() override {
    pmix_.EndRound();
    EXPECT_EQ(rmdir(root_.c_str()), 0) << "files were left in it";
  }

  void Begin() {
    pmix_.BeginRound(world_);
    EXPECT_EQ(Heard(), PmixMessage(PmixServe{world_}));
  }
  void Serve() {
    Begin();
    Say(PmixReady{{{"A=0"}, {"A=1"}}});
    ASSERT_TRUE(RunUntil([this] { return !ready_.empty(); }));
    EXPECT_THAT(ready_, ElementsAre("A=0 A=1"));
  }
  void Say(const PmixMessage& message) { SayBytes(*EncodePmix(message)); }
  void SayBytes(const std::string& bytes) {
    ASSERT_EQ(send(helper_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  PmixMessage Heard() {
    absl::StatusOr<std::optional<PmixMessage>> next;
    RunUntil([&] {
      char bytes[4096];
      const ssize_t n = recv(helper_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
      heard_.Put({bytes, n > 0 ? static_cast<size_t>(n) : 0});
      next = heard_.Next();
      return !next.ok() || next->has_value();
    });
    EXPECT_TRUE(next.ok() && next->has_value()) << next.status();
    return next.ok() && next->has_value() ? **std::move(next) : PmixMessage(PmixFailed{});
  }
  MpiEnd Ended(uint32_t local) { return pmix_.WorkerEnded(LocalRank{local}, true); }

  std::string root_ = "/tmp/worker-pmix-XXXXXX";
  PmixWorld world_;
  UniqueFd helper_;
  PmixReader heard_;
  bool no_helper_ = false;
  bool helper_says_and_dies_ = false;
  std::vector<std::string> ready_;
  std::vector<std::string> entered_;
  std::vector<std::string> sought_;
  std::vector<std::string> told_;
  std::vector<LocalRank> killed_;
  WorkerPmix pmix_{
      &loop_,
      {.start =
           [this](UniqueFd socket) {
             helper_ = std::move(socket);
             if (no_helper_) {
               pmix_.HelperFailed("exec muster-pmix: none");
             }
             if (helper_says_and_dies_) {
               Say(PmixFailed{"no libpmix"});
               helper_.Reset();
             }
           },
       .on_ready =
           [this](const absl::StatusOr<std::vector<std::vector<std::string>>>& variables) {
             ready_.push_back(variables.ok()
                                  ? absl::StrCat((*variables)[0][0], " ", (*variables)[1][0])
                                  : std::string(variables.status().message()));
           },
       .enter = [this](std::string bytes) { entered_.push_back(std::move(bytes)); },
       .seek = [this](uint32_t node,
                      uint32_t rank) { sought_.push_back(absl::StrCat(rank, " on ", node)); },
       .tell =
           [this](uint32_t rank, const absl::StatusOr<std::string>& bytes) {
             told_.push_back(absl::StrCat(rank, ": ", bytes.value_or("none")));
           },
       .kill = [this](LocalRank worker) { killed_.push_back(worker); }}};
};

TEST_F(WorkerPmixTest, ARoundFromItsWorldToItsEnd) {
  EXPECT_FALSE(pmix_.serving());
  Serve();
  EXPECT_TRUE(pmix_.serving());
  struct stat st {};
  EXPECT_EQ(stat(pmix_.folder().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777u, 0700u);
  std::ofstream(pmix_.folder() + "/left") << "by an MPI";
  Say(PmixInit{LocalRank{0}});
  Say(PmixFence{"cards"});
  ASSERT_TRUE(RunUntil([this] { return !entered_.empty(); }));
  EXPECT_THAT(entered_, ElementsAre("cards"));
  pmix_.Fenced(std::string(1 << 20, 'x'));  // more than the socket takes at once
  EXPECT_EQ(Heard(), PmixMessage(PmixFenced{true, std::string(1 << 20, 'x')}));
  pmix_.EndRound();
  EXPECT_FALSE(pmix_.serving());
  EXPECT_NE(stat(world_.folder.c_str(), &st), 0);
}

TEST_F(WorkerPmixTest, WhatRanksHavePutGoesBothWays) {
  world_.hosts = {"here", "there"};
  world_.ranks = {{0, 1}, {2}};
  world_.apps = {0, 0, 0};
  Serve();
  Say(PmixWant{2});
  ASSERT_TRUE(RunUntil([this] { return !sought_.empty(); }));
  EXPECT_THAT(sought_, ElementsAre("2 on 1"));
  pmix_.Found(2, std::string("card"));
  EXPECT_EQ(Heard(), PmixMessage(PmixFound{2, true, "card"}));
  pmix_.Show(1);
  EXPECT_EQ(Heard(), PmixMessage(PmixShow{LocalRank{1}}));
  Say(PmixShown{LocalRank{1}, true, "other"});
  ASSERT_TRUE(RunUntil([this] { return !told_.empty(); }));
  EXPECT_THAT(told_, ElementsAre("1: other"));
}

TEST_F(WorkerPmixTest, WhatWasSaidLastIsHeardBeforeAnEnd) {
  Serve();
  Say(PmixInit{LocalRank{0}});
  Say(PmixInit{LocalRank{1}});
  Say(PmixFinalized{LocalRank{0}});
  EXPECT_EQ(Ended(0).kind, MpiEnd::Kind::kFinalized);
  EXPECT_EQ(Ended(1).kind, MpiEnd::Kind::kInside);
}

TEST_F(WorkerPmixTest, WhoAbortsIsKilledAMomentLater) {
  Serve();
  Say(PmixInit{LocalRank{1}});
  Say(PmixAborted{LocalRank{1}, 7, ""});
  ASSERT_TRUE(RunUntil([this] { return !killed_.empty(); }));
  EXPECT_THAT(killed_, ElementsAre(LocalRank{1}));
  EXPECT_EQ(Ended(1).code, 7);
}

TEST_F(WorkerPmixTest, AHelperThatDiesBeforeItIsReady) {
  Begin();
  helper_.Reset();
  ASSERT_TRUE(RunUntil([this] { return !ready_.empty(); }));
  EXPECT_THAT(ready_,
              ElementsAre(HasSubstr("no PMIx server: its process, muster-pmix, has ended")));
}

TEST_F(WorkerPmixTest, WhatAHelperThatDiesSaidLastIsHeard) {
  helper_says_and_dies_ = true;
  pmix_.BeginRound(world_);
  EXPECT_THAT(ready_, ElementsAre(HasSubstr("no PMIx server: no libpmix"))) << "nobody heard us";
}

TEST_F(WorkerPmixTest, AHelperThatDiesLater) {
  Serve();
  Say(PmixInit{LocalRank{0}});
  helper_.Reset();
  ASSERT_TRUE(RunUntil([this] { return !killed_.empty(); }));
  EXPECT_THAT(killed_, ElementsAre(LocalRank{0}));
}

TEST_F(WorkerPmixTest, AHelperThatCannotBeStarted) {
  no_helper_ = true;
  pmix_.BeginRound(world_);
  EXPECT_THAT(ready_, ElementsAre(HasSubstr("no PMIx server: exec muster-pmix: none")));
}

TEST_F(WorkerPmixTest, NoFolderForItsFiles) {
  world_.folder = root_ + "/not/there";
  pmix_.BeginRound(world_);
  EXPECT_THAT(ready_, ElementsAre(HasSubstr("no folder")));
}

TEST_F(WorkerPmixTest, BytesThatAreNoMessage) {
  Begin();
  SayBytes(std::string(16, '\xff'));
  ASSERT_TRUE(RunUntil([this] { return !ready_.empty(); }));
  EXPECT_THAT(ready_, ElementsAre(HasSubstr("it sent a message of 4294967295 bytes")));
}

TEST_F(WorkerPmixTest, BehindClosingNothingIsSaid) {
  Serve();
  Say(PmixInit{LocalRank{0}});
  Say(PmixAborted{LocalRank{0}, 3, ""});
  pmix_.Closing();
  EXPECT_EQ(Ended(0).code, 3) << "but what had come is known";
  EXPECT_THAT(killed_, IsEmpty());
}

TEST(FindPmixHelperTest, BesideUsOrOnPath) {
  std::string folder = "/tmp/find-pmix-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string none = FindPmixHelper(folder.c_str()).status().message().data();
  EXPECT_THAT(none, HasSubstr("nor on PATH: install Muster there"));
  const std::string file = folder + "/muster-pmix";
  std::ofstream(file) << "";
  chmod(file.c_str(), 0755);
  EXPECT_EQ(FindPmixHelper(absl::StrCat("relative:", folder).c_str()).value_or(""), file);
  unlink(file.c_str());
  rmdir(folder.c_str());
}

}  // namespace
}  // namespace muster
