#include "agent/io/worker_stdin.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/base/limits.h"
#include "proto/base/rng.h"
#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

class WorkerStdinTest : public LoopTest {
 protected:
  WorkerStdinTest()
      : in_(std::make_unique<WorkerStdin>(&loop_, [this](size_t bytes) { taken_ += bytes; })) {}
  ~WorkerStdinTest() override { in_.reset(); }
  size_t taken_ = 0;
  std::unique_ptr<WorkerStdin> in_;
};

std::string Noise(size_t size) {
  SplitMix64 rng(size);
  std::string out(size, '\0');
  for (char& byte : out) {
    byte = static_cast<char>(rng.Below(256));
  }
  return out;
}

TEST_F(WorkerStdinTest, WhatCameBeforeTheWorkerIsKept) {
  in_->Put("early ", false);
  EXPECT_EQ(taken_, 0u);
  UniqueFd reader = in_->Open();
  in_->Put("late", true);
  EXPECT_EQ(ReadToEnd(reader.get()), "early late");
  EXPECT_EQ(taken_, 10u);
}

TEST_F(WorkerStdinTest, EndBeforeTheWorker) {
  in_->Put("all", true);
  UniqueFd reader = in_->Open();
  EXPECT_EQ(ReadToEnd(reader.get()), "all");
  UniqueFd empty = in_->Open();
  in_->CloseAll();
  EXPECT_EQ(taken_, 3u);
}

TEST_F(WorkerStdinTest, WorkersReadAtTheirOwnPace) {
  const std::string bytes = Noise(kStdinWindow);
  std::vector<UniqueFd> readers;
  readers.reserve(3);
  std::vector<std::string> got(3);
  for (int i = 0; i < 3; ++i) {
    readers.push_back(in_->Open());
  }
  in_->Put(bytes, false);
  EXPECT_LT(taken_, bytes.size());  // the pipes are full
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] { got[i] = ReadToEnd(readers[i].get()); });
  }
  EXPECT_TRUE(RunUntil([&] { return taken_ == bytes.size(); }));
  in_->Put("end", true);
  EXPECT_TRUE(RunUntil([&] { return taken_ == bytes.size() + 3; }));
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::string& one : got) {
    EXPECT_TRUE(one == bytes + "end");
  }
}

// A worker that does not read holds nobody up once it is gone.
TEST_F(WorkerStdinTest, GoneWorkersTakeEverything) {
  UniqueFd first = in_->Open();
  UniqueFd second = in_->Open();
  const std::string bytes = Noise(kStdinWindow);
  in_->Put(bytes, false);
  first.Reset();
  RunReady();
  EXPECT_LT(taken_, bytes.size());
  second.Reset();
  ASSERT_TRUE(RunUntil([&] { return taken_ == bytes.size(); }));
  in_->Put("more", false);
  EXPECT_EQ(taken_, bytes.size() + 4);
}

TEST_F(WorkerStdinTest, NextRoundGetsWhatComesNext) {
  UniqueFd reader = in_->Open();
  in_->Put(Noise(kStdinWindow), false);
  in_->CloseAll();
  EXPECT_EQ(taken_, kStdinWindow);  // what the old round left is dropped
  in_->Put("kept", false);
  EXPECT_EQ(taken_, kStdinWindow);
  UniqueFd next = in_->Open();
  in_->Put("", true);
  EXPECT_EQ(ReadToEnd(next.get()), "kept");
  EXPECT_EQ(taken_, kStdinWindow + 4);
}

TEST_F(WorkerStdinTest, WorkerSeesAnOrdinaryPipe) {
  const UniqueFd reader = in_->Open();
  EXPECT_EQ(fcntl(reader.get(), F_GETFL) & O_NONBLOCK, 0);
  EXPECT_NE(fcntl(reader.get(), F_GETFD) & FD_CLOEXEC, 0);
}

}  // namespace
}  // namespace muster
