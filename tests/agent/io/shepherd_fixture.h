// A shepherd with what it says of its workers.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/io/process_tree.h"
#include "agent/io/shepherd.h"
#include "agent/io/shepherd_client.h"
#include "tests/agent/io/loop_test.h"

namespace muster {

inline constexpr char kPath[] = "PATH=/usr/local/bin:/usr/bin:/bin";

// Holds stdout in a session of its own, by a child that a double fork hid, and in the background;
// says so, and stays.
inline constexpr char kEvasiveScript[] =
    "setsid sleep 1000 &\n"
    "(setsid sh -c 'sleep 1000 & echo 1; exec sleep 1000' &)\n"
    "(trap '' TERM HUP INT; echo 2; sleep 1000; sleep 1000) &\n"
    "echo 3\n"
    "exec sleep 1000\n";

class ShepherdTest : public LoopTest {
 protected:
  ShepherdTest() { getrlimit(RLIMIT_NOFILE, &files_); }
  ~ShepherdTest() override {
    client_.reset();
    EXPECT_TRUE(Descendants().empty());
  }

  ShepherdClient& Start(SilentIo silent = SilentIo::kStays) {
    client_.reset();  // a process has one shepherd: the next would inherit the first one's socket
    absl::StatusOr<ShepherdProcess> process =
        ForkShepherd({{RLIMIT_NOFILE, files_}}, nullptr, silent);
    EXPECT_TRUE(process.ok() && process->AwaitShepherd().ok());
    ShepherdClient::Callbacks callbacks;
    callbacks.on_spawned = [this](uint32_t rank, pid_t pid) {
      EXPECT_TRUE(pids_.emplace(rank, pid).second) << "spawned twice: " << rank;
    };
    callbacks.on_spawn_failed = [this](uint32_t rank, int error, std::string what) {
      EXPECT_TRUE(failures_.emplace(rank, std::make_pair(error, std::move(what))).second);
    };
    callbacks.on_ended = [this](uint32_t rank, const WorkerEnd& end) {
      EXPECT_EQ(pids_.count(rank), 1u) << "ended before it was spawned: " << rank;
      EXPECT_TRUE(ends_.emplace(rank, end).second) << "twice: " << rank;
    };
    callbacks.on_groups_ended = [this] { ++groups_ended_; };
    callbacks.on_cleared = [this](const std::string& survivors) {
      ++cleared_;
      EXPECT_EQ(survivors, "");
    };
    callbacks.on_lease_ended = [this] { ++lease_ended_; };
    callbacks.on_helper_failed = [this](const std::string& why) {
      helper_failures_.push_back(why);
    };
    callbacks.on_dead = [this] { ++dead_; };
    client_ = std::make_unique<ShepherdClient>(&loop_, *std::move(process), callbacks);
    return *client_;
  }

  // A worker of /bin/sh; its stdout and stderr are `output`'s writer.
  void SpawnOn(uint32_t rank, const TestPipe& output, const std::vector<std::string>& own = {},
               const SpawnBinding& binding = {}) {
    client_->Spawn(rank, own, binding, UniqueFd(),
                   UniqueFd(fcntl(output.writer.get(), F_DUPFD_CLOEXEC, 3)),
                   UniqueFd(fcntl(output.writer.get(), F_DUPFD_CLOEXEC, 3)));
  }
  // Runs one worker to its end; what it wrote.
  std::string RunOne(const WorkerProgram& program, const std::vector<std::string>& own = {}) {
    Start().SetProgram(program);
    TestPipe output = MakePipe();
    SpawnOn(0, output, own);
    output.writer.Reset();
    EXPECT_TRUE(RunUntil([this] { return ends_.size() + failures_.size() == 1; }));
    return ReadToEnd(output.reader.get());
  }

  rlimit files_{};
  std::unique_ptr<ShepherdClient> client_;
  std::map<uint32_t, pid_t> pids_;
  std::map<uint32_t, std::pair<int, std::string>> failures_;
  std::map<uint32_t, WorkerEnd> ends_;
  std::vector<std::string> helper_failures_;
  int groups_ended_ = 0;
  int cleared_ = 0;
  int lease_ended_ = 0;
  int dead_ = 0;
};

inline WorkerProgram Shell(const std::string& script) {
  return {"", {"sh", "-c", script}, {kPath}};
}

}  // namespace muster
