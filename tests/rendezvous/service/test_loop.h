// A libuv loop for tests, and an agent that is only messages. Everything on the test's thread.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <uv.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/io/master_client.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class TestLoop {
 public:
  TestLoop() { uv_loop_init(&loop_); }
  ~TestLoop() {
    uv_run(&loop_, UV_RUN_DEFAULT);
    EXPECT_EQ(uv_loop_close(&loop_), 0) << "a handle is left open";
  }
  uv_loop_t* get() { return &loop_; }

  // Runs until `condition`; a test that waits longer than this hangs for a reason of ours.
  void Until(const std::function<bool()>& condition, const char* what) {
    bool late = false;
    {
      UvTimer guard(&loop_, [&late] { late = true; });
      guard.StartAfter(absl::Seconds(60));
      // A timer's callback may make it true, and nothing else may ever happen.
      UvPrepare look(&loop_, [this, &condition] {
        if (condition()) {
          uv_stop(&loop_);
        }
      });
      while (!condition() && !late) {
        uv_run(&loop_, UV_RUN_ONCE);
      }
    }
    ASSERT_FALSE(late) << "never came: " << what;
  }

 private:
  uv_loop_t loop_{};
};

inline std::pair<UniqueFd, UniqueFd> SocketPair() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// Does what it is told: joins, beats after every directive, holds the round it should hold.
class TestAgent {
 public:
  TestAgent(uv_loop_t* loop, MasterClientOptions options, Join join)
      : client_(loop, std::move(options)), join_(std::move(join)) {}

  void Start() {
    MasterLink::Callbacks callbacks;
    callbacks.on_up = [this] {
      ++ups;
      client_.link().Send(join_);
    };
    callbacks.on_down = [this](std::string why) { downs.push_back(std::move(why)); };
    callbacks.on_try_failed = [this](std::string why) { tries_failed.push_back(std::move(why)); };
    callbacks.on_message = [this](MasterMessage message) { OnMessage(std::move(message)); };
    client_.link().Start(std::move(callbacks));
  }
  void Stop() {
    client_.link().Stop([this] { stopped = true; });
  }
  void SendBeat() {
    ++beat_.seq;
    client_.link().Send(beat_);
  }
  MasterClient& client() { return client_; }
  Join& join() { return join_; }

  int ups = 0;
  std::vector<std::string> downs;
  std::vector<std::string> tries_failed;
  std::vector<std::string> refusals;
  std::vector<Admitted> admissions;
  std::vector<Directive> directives;
  Assignment assignment;
  bool running = false;
  bool end = false;
  bool stopped = false;

 private:
  void OnMessage(MasterMessage message) {
    if (const auto* refused = std::get_if<Refused>(&message)) {
      refusals.push_back(refused->reason);
    } else if (const auto* admitted = std::get_if<Admitted>(&message)) {
      admissions.push_back(*admitted);
      beat_.node = admitted->node;
      beat_.incarnation = admitted->incarnation;
      beat_.store_port = join_.store_port;
      SendBeat();
    } else {
      OnDirective(std::get<Directive>(std::move(message)));
    }
  }
  void OnDirective(const Directive& directive) {
    directives.push_back(directive);
    if (directive.wanted == Wanted::kRun && !running) {
      running = true;
      assignment = directive.assignment;
      beat_.phase = AgentPhase::kRunning;
      beat_.round = directive.round;
      beat_.workers_alive = assignment.workers;
      SendBeat();
    } else if ((directive.wanted == Wanted::kStop || directive.wanted == Wanted::kEnd) && running) {
      running = false;
      beat_.phase = AgentPhase::kReady;
      beat_.workers_alive = 0;
      for (uint32_t i = 0; i < assignment.workers; ++i) {
        WorkerExit exit;
        exit.local_rank.value = i;
        exit.rank.value = assignment.rank_first.value + i;
        exit.kind = ExitKind::kSignaled;
        exit.code = 9;
        exit.stopped_by_us = true;
        beat_.exits.push_back(exit);
      }
      SendBeat();
    } else if (directive.wanted == Wanted::kEnd && !end) {
      end = true;
      client_.link().Send(Leave{beat_.node, beat_.incarnation, ""});
    }
  }

  MasterClient client_;
  Join join_;
  Beat beat_;
};

}  // namespace muster
