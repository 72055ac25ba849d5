// The shipper with real agents' ends (agent/io/ship_taker.h), each in a thread, and with ends that
// misbehave.
#include "launcher/ship/shipper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "agent/io/ship_taker.h"
#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Ends {
  UniqueFd launch;
  UniqueFd agent;
};

Ends MakeEnds() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// An agent in a thread.
class Agent {
 public:
  Agent(UniqueFd channel, const ShipTerms& terms, const std::string& root,
        const std::string& secret = "s")
      : channel_(std::move(channel)), result_(absl::UnknownError("not yet")) {
    ShipTakerOptions options;
    options.terms = terms;
    options.in = options.out = channel_.get();
    options.root = root;
    options.address = "127.0.0.1";
    options.only_there = true;
    options.secret = secret;
    options.job_id = "job";
    thread_ = std::thread([this, options] { result_ = TakeShipped(options); });
  }
  ~Agent() { thread_.join(); }
  const absl::StatusOr<ShippedFolder>& Join() {
    thread_.join();
    thread_ = std::thread([] {});
    return result_;
  }

 private:
  UniqueFd channel_;
  absl::StatusOr<ShippedFolder> result_;
  std::thread thread_;
};

class ShipperTest : public LoopTest {
 protected:
  ShipperTest() {
    std::string name = absl::StrCat(::testing::TempDir(), "/muster-shipper-XXXXXX");
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::ofstream(folder_ + "/data") << std::string(3'000'000, 'x');
    std::ofstream(folder_ + "/run") << "#!/bin/sh\n";
    std::filesystem::create_directory(folder_ + "/nodes");
  }
  ~ShipperTest() override { std::filesystem::remove_all(folder_); }

  void Start(size_t expected = 0, absl::Duration silence_max = kShipSilenceMax) {
    absl::StatusOr<ShipScan> scan = ScanShip({folder_ + "/data", folder_ + "/run"});
    ASSERT_TRUE(scan.ok()) << scan.status();
    absl::StatusOr<ShipArchive> archive = PackShip(*scan);
    ASSERT_TRUE(archive.ok()) << archive.status();
    Shipper::Callbacks callbacks;
    callbacks.on_done = [this](size_t index, UniqueFd socket) { done_[index] = std::move(socket); };
    callbacks.on_failed = [this](size_t index, const std::string& why) { failed_[index] = why; };
    callbacks.name = [](size_t index) { return absl::StrCat("node", index); };
    shipper_.emplace(&loop_, *std::move(archive), expected, std::move(callbacks), silence_max);
  }

  std::unique_ptr<Agent> Add(size_t index, const std::string& secret = "s") {
    Ends ends = MakeEnds();
    auto agent = std::make_unique<Agent>(std::move(ends.agent), shipper_->terms(),
                                         folder_ + "/nodes", secret);
    shipper_->Add(index, std::move(ends.launch));
    return agent;
  }

  size_t Left() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(folder_ + "/nodes"), {}));
  }

  std::string folder_;
  std::optional<Shipper> shipper_;
  std::map<size_t, UniqueFd> done_;
  std::map<size_t, std::string> failed_;
};

TEST_F(ShipperTest, D1AllGetTheFiles) {
  Start();
  std::vector<std::unique_ptr<Agent>> agents;
  for (size_t i = 0; i < 9; ++i) {
    agents.push_back(Add(i));
  }
  ASSERT_TRUE(RunUntil([this] { return done_.size() + failed_.size() == 9; }));
  EXPECT_THAT(failed_, IsEmpty());
  for (const auto& agent : agents) {
    const absl::StatusOr<ShippedFolder>& folder = agent->Join();
    ASSERT_TRUE(folder.ok()) << folder.status();
    std::ifstream in(folder->path() + "/data");
    std::ostringstream text;
    text << in.rdbuf();
    EXPECT_EQ(text.str(), std::string(3'000'000, 'x'));
    EXPECT_EQ(std::filesystem::status(folder->path()).permissions(),
              std::filesystem::perms::owner_all);
    folder->Remove();
  }
  EXPECT_EQ(Left(), 0u);
}

TEST_F(ShipperTest, NothingBehindTheLastWordIsRead) {
  Start();
  Ends ends = MakeEnds();
  const UniqueFd look(fcntl(ends.agent.get(), F_DUPFD_CLOEXEC, 3));
  Agent agent(std::move(ends.agent), shipper_->terms(), folder_ + "/nodes");
  shipper_->Add(0, std::move(ends.launch));
  ASSERT_TRUE(RunUntil([this] { return done_.size() == 1; }));
  ASSERT_EQ(write(done_[0].get(), "gRPC", 4), 4);
  const absl::StatusOr<ShippedFolder>& folder = agent.Join();
  ASSERT_TRUE(folder.ok());
  EXPECT_EQ(ReadBytes(look.get(), 4), "gRPC");
  folder->Remove();
}

// It may speak gRPC as soon as it has said its last word, and may have said that it works before it
// hears that it is to go on.
TEST_F(ShipperTest, NothingBehindTheAgentsLastWordIsRead) {
  Start();
  Ends ends = MakeEnds();
  shipper_->Add(0, std::move(ends.launch));
  const size_t bytes = std::strlen("take\n") + shipper_->terms().bytes;
  size_t got = 0;
  ASSERT_TRUE(RunUntil([&] {
    std::string piece(bytes - got, '\0');
    const ssize_t n = recv(ends.agent.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    got += n > 0 ? static_cast<size_t>(n) : 0;
    return got == bytes;
  }));
  const auto say = [&](absl::string_view words) {
    EXPECT_EQ(write(ends.agent.get(), words.data(), words.size()),
              static_cast<ssize_t>(words.size()));
  };
  say("have 127.0.0.1 1\n");
  ASSERT_TRUE(RunUntil([this] { return shipper_->holders() == 1; }));
  say("working\ngoes on\nPRI * HTTP/2.0");
  ASSERT_TRUE(RunUntil([this] { return done_.size() == 1; }));
  EXPECT_EQ(ReadBytes(done_[0].get(), 14), "PRI * HTTP/2.0");
}

// One that does not know the secret is sent to another agent, is refused there, and gets the files
// from launch.
TEST_F(ShipperTest, WhoIsRefusedByOthersIsSentThemByLaunch) {
  Start();
  const auto first = Add(0);
  const auto second = Add(1);
  const auto stranger = Add(2, "another");
  ASSERT_TRUE(RunUntil([this] { return done_.size() + failed_.size() == 3; }));
  EXPECT_THAT(failed_, IsEmpty());
  for (Agent* agent : {first.get(), second.get(), stranger.get()}) {
    ASSERT_TRUE(agent->Join().ok()) << agent->Join().status();
    agent->Join()->Remove();
  }
}

TEST_F(ShipperTest, WithoutRoomTheAgentFailsAndLeavesNothing) {
  Start();
  Ends ends = MakeEnds();
  Agent agent(std::move(ends.agent), shipper_->terms(), "/proc/none");
  shipper_->Add(3, std::move(ends.launch));
  ASSERT_TRUE(RunUntil([this] { return failed_.size() == 1; }));
  EXPECT_THAT(failed_[3], HasSubstr("/proc/none: No such file or directory"));
  EXPECT_FALSE(agent.Join().ok());
}

TEST_F(ShipperTest, LaunchGoesAway) {
  Start();
  Ends ends = MakeEnds();
  Agent agent(std::move(ends.agent), shipper_->terms(), folder_ + "/nodes");
  ends.launch.Reset();
  EXPECT_TRUE(absl::IsCancelled(agent.Join().status())) << agent.Join().status();
  EXPECT_EQ(Left(), 0u);
}

TEST_F(ShipperTest, D2NobodyGoesOnWhileAnotherWantsThem) {
  Start();
  Ends slow = MakeEnds();  // has them not yet, and does not read
  shipper_->Add(0, std::move(slow.launch));
  const auto quick = Add(1);
  for (int i = 0; i < 5; ++i) {
    uv_run(&loop_, UV_RUN_ONCE);
  }
  EXPECT_THAT(done_, IsEmpty());
  slow.agent.Reset();  // its end is its starter's to tell
  ASSERT_TRUE(RunUntil([this] { return done_.size() == 1; }));
  EXPECT_THAT(failed_, IsEmpty());
  ASSERT_TRUE(quick->Join().ok());
  quick->Join()->Remove();
}

TEST_F(ShipperTest, D2NorWhileAnotherIsExpected) {
  Start(/*expected=*/3);
  const auto first = Add(0);
  ASSERT_TRUE(RunUntil([this] { return shipper_->holders() == 1; }));
  const auto second = Add(1);
  ASSERT_TRUE(RunUntil([this] { return shipper_->holders() == 2; }));
  EXPECT_THAT(done_, IsEmpty());
  shipper_->NotComing(2);
  ASSERT_TRUE(RunUntil([this] { return done_.size() == 2; }));
  first->Join()->Remove();
  second->Join()->Remove();
}

TEST_F(ShipperTest, D2WhoIsStartedAgainIsNotYetAnother) {
  Start(/*expected=*/2);
  Ends killed = MakeEnds();
  shipper_->Add(0, std::move(killed.launch));
  killed.agent.Reset();
  RunReady();
  const auto again = Add(0);
  ASSERT_TRUE(RunUntil([this] { return shipper_->holders() == 1; }));
  RunReady();
  EXPECT_THAT(done_, IsEmpty());
  shipper_->NotComing(1);
  ASSERT_TRUE(RunUntil([this] { return done_.size() == 1; }));
  again->Join()->Remove();
}

TEST_F(ShipperTest, D3SilenceIsAFailure) {
  Start(0, absl::Milliseconds(1));
  Ends ends = MakeEnds();
  shipper_->Add(0, std::move(ends.launch));
  ASSERT_TRUE(RunUntil([this] { return failed_.size() == 1; }));
  EXPECT_THAT(failed_[0], HasSubstr("its agent has said nothing for 1 ms"));
}

TEST_F(ShipperTest, AfterTheJobTheChannelsAreClosed) {
  Start(/*expected=*/3);
  const auto has_them = Add(0);
  ASSERT_TRUE(RunUntil([this] { return shipper_->holders() == 1; }));
  shipper_->Stop();
  const auto late = Add(1);
  EXPECT_TRUE(absl::IsCancelled(has_them->Join().status()));
  EXPECT_TRUE(absl::IsCancelled(late->Join().status()));
  EXPECT_EQ(Left(), 0u);
}

TEST_F(ShipperTest, StrangeWordsAreAFailure) {
  Start();
  for (const char* words : {"hello\n", "have 127.0.0.1 0\n"}) {
    failed_.clear();
    Ends ends = MakeEnds();
    shipper_->Add(0, std::move(ends.launch));
    ASSERT_GT(write(ends.agent.get(), words, std::strlen(words)), 0);
    ASSERT_TRUE(RunUntil([this] { return failed_.size() == 1; }));
    EXPECT_THAT(failed_[0], HasSubstr("unknown words")) << words;
  }
  failed_.clear();
  Ends ends = MakeEnds();
  shipper_->Add(0, std::move(ends.launch));
  const std::string twice = "have 127.0.0.1 1\nhave 127.0.0.1 1\n";
  ASSERT_GT(write(ends.agent.get(), twice.data(), twice.size()), 0);
  ASSERT_TRUE(RunUntil([this] { return failed_.size() == 1; }));
  EXPECT_THAT(failed_[0], HasSubstr("that it was not told to get"));
}

}  // namespace
}  // namespace muster
