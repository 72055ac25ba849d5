// Output up, stdin down, over real gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/limits.h"
#include "rendezvous/service/master_server.h"
#include "tests/rendezvous/service/test_agent.h"

namespace muster {
namespace {

// A master and one agent over a socketpair, both running.
class StreamsTest : public testing::Test {
 protected:
  void SetUp() override {
    MasterOptions options;
    options.users = OneSecret("s");
    options.job.job_id = "job";
    options.on_chunk = [this](const std::string& job, NodeId node, OutputChunk&& chunk,
                              std::function<void()> taken) {
      EXPECT_EQ(job, "job");
      EXPECT_EQ(node, master_->FindJob("job")->members.at(0).node);
      got_bytes_ += chunk.bytes.size();
      got_.push_back(std::move(chunk));
      if (hold_) {
        held_.push_back(std::move(taken));
      } else {
        taken();
      }
    };
    options.on_lost = [this](const std::string& job, NodeId node, const std::string& why) {
      EXPECT_EQ(job, "job");
      EXPECT_EQ(node, master_->FindJob("job")->members.at(0).node);
      lost_.push_back(why);
    };
    options.on_stdin_room = [this](const std::string&) { ++room_news_; };
    master_ = std::make_unique<MasterServer>(loop_.get(), std::move(options));
    auto [ours, theirs] = SocketPair();
    link_.Reset(dup(ours.get()));
    master_->AdoptConnection(std::move(ours), "10.0.0.1");
    MasterClientOptions client;
    client.socket = std::move(theirs);
    client.secret = "s";
    client.job_id = "job";
    Join join;
    join.key = "list/0";
    join.hostname = "host0";
    join.workers = 2;
    join.life = 5;
    join.store_port = 4000;
    agent_ = std::make_unique<TestAgent>(loop_.get(), std::move(client), std::move(join));
    OutputLink::Callbacks callbacks;
    callbacks.on_writable = [this] { ++writable_; };
    callbacks.on_stdin = [this](const std::string& bytes, bool eof) {
      stdin_ += bytes;
      stdin_ += eof ? "<eof>" : "";
    };
    callbacks.on_window = [this](uint16_t rows, uint16_t columns) {
      window_ = std::to_string(rows) + "x" + std::to_string(columns);
    };
    callbacks.on_closed = [this](std::string why) { closed_.push_back(std::move(why)); };
    agent_->client().output().Start(std::move(callbacks));
    agent_->Start();
    loop_.Until([&] { return agent_->running && Room() > 0; }, "round and stream");
  }
  void TearDown() override {
    agent_->Stop();
    loop_.Until([&] { return agent_->stopped; }, "the agent's stop");
    agent_.reset();
    bool down = false;
    master_->Shutdown([&down] { down = true; });
    loop_.Until([&] { return down; }, "the master's shutdown");
    master_.reset();
    for (const auto& taken : held_) {
      taken();  // late, and harmless
    }
  }
  size_t Room() const { return master_->StdinRoom("job", StdinTo{Rank{0}}); }
  OutputLink& output() { return agent_->client().output(); }

  TestLoop loop_;
  UniqueFd link_;  // the master's end once more, to break it
  std::unique_ptr<MasterServer> master_;
  std::unique_ptr<TestAgent> agent_;
  std::vector<OutputChunk> got_;
  size_t got_bytes_ = 0;
  bool hold_ = false;
  std::deque<std::function<void()>> held_;
  int writable_ = 0;
  int room_news_ = 0;
  std::string window_;
  std::string stdin_;
  std::vector<std::string> closed_;
  std::vector<std::string> lost_;
};

OutputChunk ChunkOf(uint32_t rank, std::string bytes) {
  OutputChunk chunk;
  chunk.rank = rank;
  chunk.local_rank = rank;
  chunk.bytes = std::move(bytes);
  return chunk;
}

TEST_F(StreamsTest, ChunksComeInOrderAndUnchanged) {
  std::vector<OutputChunk> sent;
  for (uint32_t i = 0; i < 200; ++i) {
    OutputChunk chunk = ChunkOf(i % 2, absl::StrCat("line ", i, std::string(i, '\xff'), "\n"));
    chunk.stream = static_cast<uint8_t>(1 + i % 2);
    chunk.split = i % 3 == 0;
    chunk.ends_line = i % 5 != 0;
    sent.push_back(chunk);
    ASSERT_TRUE(output().Send(chunk));
  }
  bool done = false;
  output().Finish([&] { done = true; });
  loop_.Until([&] { return done; }, "the finish");
  EXPECT_EQ(got_, sent);  // all were shown when `done` came
}

TEST_F(StreamsTest, ASlowConsumerStopsTheSenderAndLosesNothing) {
  hold_ = true;
  size_t sent = 0;
  bool full = false;
  const auto fill = [&] {
    OutputChunk chunk = ChunkOf(0, std::string(100000, 'x'));
    while (output().Send(chunk)) {
      sent += 100000;
      chunk = ChunkOf(0, std::string(100000, 'x'));
    }
    full = true;
  };
  fill();
  ASSERT_TRUE(full);  // bounded, though nothing was taken
  // What the consumer does not take is not read on: only so much is on the way.
  loop_.Until([&] { return held_.size() == 1; }, "the first chunk");
  EXPECT_EQ(got_.size(), 1u);
  // While it stands still, beats still pass.
  const uint64_t answered = agent_->directives.size();
  agent_->SendBeat();
  loop_.Until([&] { return agent_->directives.size() > answered; }, "an answer to the beat");
  EXPECT_EQ(got_.size(), 1u);
  while (got_bytes_ < sent) {
    ASSERT_EQ(held_.size(), 1u);  // one at a time (M4)
    const auto taken = std::move(held_.front());
    held_.pop_front();
    taken();
    loop_.Until([&] { return !held_.empty() || got_bytes_ >= sent; }, "the next chunk");
  }
  EXPECT_EQ(got_bytes_, sent);
  EXPECT_GE(writable_, 1);
}

// Unbuffered single bytes: what a chunk costs beside its text counts, in memory and in a message.
TEST_F(StreamsTest, ABurstOfTinyChunksFitsItsMessages) {
  constexpr size_t kChunksMax = 2u << 20;
  size_t sent = 0;
  while (sent < kChunksMax) {
    OutputChunk chunk = ChunkOf(1, "\n");
    if (!output().Send(chunk)) {
      break;
    }
    ++sent;
  }
  EXPECT_LT(sent * sizeof(OutputChunk), 2u << 20);
  loop_.Until([&] { return got_.size() == sent || !closed_.empty(); }, "all of them");
  EXPECT_THAT(closed_, testing::IsEmpty());
}

TEST_F(StreamsTest, FinishWaitsForTheConsumer) {
  hold_ = true;
  OutputChunk chunk = ChunkOf(1, "last words\n");
  ASSERT_TRUE(output().Send(chunk));
  bool done = false;
  output().Finish([&] { done = true; });
  loop_.Until([&] { return held_.size() == 1; }, "the chunk");
  const uint64_t answered = agent_->directives.size();
  agent_->SendBeat();
  loop_.Until([&] { return agent_->directives.size() > answered; }, "an answer to the beat");
  EXPECT_FALSE(done);
  held_.front()();
  loop_.Until([&] { return done; }, "the finish");
}

TEST_F(StreamsTest, FinishLastsNoLongerThanTheLink) {
  hold_ = true;
  OutputChunk chunk = ChunkOf(1, "x\n");
  ASSERT_TRUE(output().Send(chunk));
  bool done = false;
  output().Finish([&] { done = true; });
  loop_.Until([&] { return held_.size() == 1; }, "the chunk");
  EXPECT_FALSE(done);
  shutdown(link_.get(), SHUT_RDWR);
  loop_.Until([&] { return done; }, "the finish, with the link");
}

TEST_F(StreamsTest, ALossIsToldOnceAndBeforeTheEnd) {
  OutputChunk chunk = ChunkOf(1, "x\n");
  ASSERT_TRUE(output().Send(chunk));
  output().StdinTaken(1);
  loop_.Until([&] { return got_.size() == 1; }, "the chunk");
  output().Lost("/logs/caf\xe9: No space left on device");  // a path is bytes
  output().Lost("another one");
  output().StdinTaken(1);
  bool done = false;
  output().Finish([&] { done = true; });
  loop_.Until([&] { return done; }, "the finish");
  EXPECT_THAT(lost_, testing::ElementsAre("/logs/caf\xe9: No space left on device"));
}

TEST_F(StreamsTest, ALossOfAJobThatShowsNothingIsTold) {
  output().Lost("/logs: No space left on device");
  bool done = false;
  output().Finish([&] { done = true; });
  loop_.Until([&] { return done; }, "the finish");
  EXPECT_THAT(lost_, testing::ElementsAre("/logs: No space left on device"));
}

TEST_F(StreamsTest, StdinHasAWindow) {
  EXPECT_EQ(Room(), kStdinWindow);
  EXPECT_TRUE(master_->SendStdin("job", StdinTo{Rank{0}}, std::string(kStdinWindow, 'i'), false));
  EXPECT_EQ(Room(), 0u);
  EXPECT_FALSE(master_->SendStdin("job", StdinTo{Rank{0}}, "x", false));
  loop_.Until([&] { return stdin_.size() == kStdinWindow; }, "the bytes");
  room_news_ = 0;
  output().StdinTaken(1000);
  loop_.Until([&] { return room_news_ > 0; }, "the credit");
  EXPECT_EQ(Room(), 1000u);
  stdin_.clear();
  EXPECT_TRUE(master_->SendStdin("job", StdinTo{}, "all", true));
  loop_.Until([&] { return stdin_ == "all<eof>"; }, "the rest");
}

TEST_F(StreamsTest, TheSizeOfTheTerminalGoesToItsRank) {
  EXPECT_TRUE(master_->SendWindow("job", Rank{0}, 41, 101));
  loop_.Until([&] { return window_ == "41x101"; }, "the size");
  EXPECT_FALSE(master_->SendWindow("job", Rank{2}, 41, 101));
}

TEST_F(StreamsTest, StdinOfNobody) {
  EXPECT_EQ(master_->StdinRoom("job", StdinTo{Rank{2}}), 0u);
  EXPECT_EQ(master_->StdinRoom("other", StdinTo{}), 0u);
  EXPECT_FALSE(master_->SendStdin("job", StdinTo{Rank{2}}, "x", false));
}

}  // namespace
}  // namespace muster
