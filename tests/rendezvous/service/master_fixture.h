// A master of a test, the agents that call it, and what it tells.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rendezvous/service/journal.h"
#include "rendezvous/service/master_server.h"
#include "tests/rendezvous/service/test_agent.h"

namespace muster {

class MasterFixture : public testing::Test {
 protected:
  ~MasterFixture() override {
    for (const auto& agent : agents_) {
      agent->Stop();
    }
    for (const auto& agent : agents_) {
      loop_.Until([&] { return agent->stopped; }, "an agent's stop");
    }
    agents_.clear();
    if (master_ != nullptr) {
      bool down = false;
      master_->Shutdown([&down] { down = true; });
      loop_.Until([&] { return down; }, "the master's shutdown");
      master_.reset();
    }
  }

  void StartMaster(MasterOptions options) {
    options.on_tell = [this](const std::string& job, const std::string& text) {
      told_.push_back(absl::StrCat(job, ": ", text));
    };
    options.on_round_started = [this](const std::string& job, const RoundStarted& started) {
      rounds_.push_back(absl::StrCat(job, " ", started.world_size, " on ", started.nodes));
    };
    options.on_job_ended = [this](const std::string& job, const JobReport& report) {
      ended_.push_back(absl::StrCat(job, " ", report.exit_code));
    };
    master_ = std::make_unique<MasterServer>(loop_.get(), std::move(options));
  }
  void Listen() {
    const absl::StatusOr<uint16_t> port = master_->Listen("127.0.0.1:0");
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *port;
  }
  TestAgent& AddAgent(MasterClientOptions options, Join join) {
    agents_.push_back(
        std::make_unique<TestAgent>(loop_.get(), std::move(options), std::move(join)));
    agents_.back()->Start();
    return *agents_.back();
  }

  TestLoop loop_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<MasterServer> master_;
  std::vector<std::unique_ptr<TestAgent>> agents_;
  uint16_t port_ = 0;
  std::vector<std::string> told_;
  std::vector<std::string> rounds_;
  std::vector<std::string> ended_;
};

}  // namespace muster
