// A starter on a loop, and what it told.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/schedule/ssh_starter.h"
#include "launcher/schedule/starter.h"
#include "proto/wire/uv_handles.h"
#include "tests/proto/wire/test_loop.h"

namespace muster {

class StarterTest : public testing::Test {
 protected:
  StarterTest() {
    char name[] = "/tmp/muster-starter-test-XXXXXX";
    folder_ = mkdtemp(name);
    std::filesystem::create_directory(folder_ + "/tmp");
  }
  ~StarterTest() override {
    if (starter_ != nullptr && !stopped_) {
      Stop();
    }
    std::filesystem::remove_all(folder_);
  }

  void Ssh(absl::Duration answer_timeout = absl::Seconds(50)) {
    SshOptions options;
    options.ssh = {FAKE_SSH, folder_, FAKE_AGENT};
    options.agent_path = FAKE_AGENT;
    options.retries.first_wait = absl::Milliseconds(1);
    options.answer_timeout = answer_timeout;
    Use(MakeSshStarter(loop_.get(), options));
  }
  void Use(std::unique_ptr<Starter> starter) {
    starter_ = std::move(starter);
    Starter::Callbacks callbacks;
    callbacks.on_connected = [this](size_t index, UniqueFd socket) {
      sockets_[index] = std::move(socket);
    };
    callbacks.on_failed = [this](size_t index, std::string reason) {
      EXPECT_TRUE(failed_.emplace(index, std::move(reason)).second) << "said twice";
    };
    callbacks.on_exit = [this](size_t index, std::string how, bool killed) {
      killed_[index] = killed;
      EXPECT_TRUE(exited_.emplace(index, std::move(how)).second) << "said twice";
    };
    callbacks.on_line = [this](size_t, std::string line) { lines_.push_back(std::move(line)); };
    callbacks.on_spawned = [this](size_t, int pid) { pids_.push_back(pid); };
    starter_->SetCallbacks(std::move(callbacks));
  }
  void Start(size_t index, const std::string& host) {
    StartTarget target;
    target.index = index;
    target.host = host;
    target.bootstrap.secret = "geheim";
    target.bootstrap.job_id = "j1";
    target.bootstrap.join.node_rank = static_cast<int32_t>(index);
    target.bootstrap.plan.argv = {"prog", "a b", "\xff\n"};
    starter_->Start(std::move(target));
  }
  void Until(const std::function<bool()>& condition, const char* what) {
    loop_.Until(condition, what);
  }
  void Stop() {
    starter_->Stop([this] { stopped_ = true; });
    Until([this] { return stopped_; }, "the stop");
  }
  // What the agent says on the channel, up to the newline.
  std::string Line(size_t index) {
    const int fd = sockets_.at(index).get();
    std::string line;
    UvPoll poll(loop_.get(), fd, [&](int) {
      char c = 0;
      while (recv(fd, &c, 1, MSG_DONTWAIT) == 1) {
        line.push_back(c);
      }
    });
    poll.Start(UV_READABLE);
    Until([&] { return line.find('\n') != std::string::npos; }, "a line of the agent");
    return line;
  }
  // All become agents and leave nothing.
  void StartBare(size_t nodes) {
    for (size_t i = 0; i < nodes; ++i) {
      Start(i, "bare");
    }
    Until([&] { return sockets_.size() + failed_.size() == nodes; }, "all connections");
    for (const auto& [index, why] : failed_) {
      ADD_FAILURE() << why;
    }
    for (size_t i = 0; i < nodes; ++i) {
      EXPECT_EQ(Line(i), absl::StrCat("job j1 secret geheim node ", i, "\n"));
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/tmp"));
  }
  // How often an agent has given its program (fake_agent.cc).
  size_t Given() const {
    std::error_code none;
    const uintmax_t bytes = std::filesystem::file_size(folder_ + "/given", none);
    return none ? 0 : bytes;
  }
  std::string Calls() {
    std::ifstream in(folder_ + "/calls");
    std::string all;
    for (std::string host, pid; in >> host >> pid;) {
      all += host + " ";
    }
    return all;
  }
  std::string FailureOf(const std::string& host) {
    Start(0, host);
    Until([this] { return failed_.contains(0); }, "the failure");
    EXPECT_TRUE(sockets_.empty());
    return failed_[0];
  }

  TestLoop loop_;
  std::string folder_;
  std::unique_ptr<Starter> starter_;
  std::map<size_t, UniqueFd> sockets_;
  std::map<size_t, std::string> failed_;
  std::map<size_t, std::string> exited_;
  std::map<size_t, bool> killed_;  // of those
  std::vector<std::string> lines_;
  std::vector<int> pids_;
  bool stopped_ = false;
};

}  // namespace muster
