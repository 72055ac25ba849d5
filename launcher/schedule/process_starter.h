// Starts agents by one child process per node (ssh, or the agent itself), whose stdin and stdout
// are the channel. Behind every starter that works this way. Loop thread only.
#pragma once

#include <sys/types.h>
#include <uv.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "launcher/schedule/bootstrap_channel.h"
#include "launcher/schedule/copy_routes.h"
#include "launcher/schedule/last_words.h"
#include "launcher/schedule/start_retry.h"
#include "launcher/schedule/starter.h"
#include "launcher/schedule/tcp_haste.h"
#include "proto/base/rng.h"
#include "proto/wire/uv_handles.h"

namespace muster {

struct ProcessStarterOptions {
  std::string program;  // "ssh", for sentences
  std::function<std::vector<std::string>(const StartTarget&)> command;
  std::string agent_path;
  bool may_push = false;
  // What the child started (ssh: a proxy command) and did not live to end is ended after it. Not
  // for an agent: its shepherd has to outlive it.
  bool ends_group = false;
  bool hastens = false;  // the child's own TCP connection, until the agent answers
  // Without a word from the node, and while it takes nothing of the agent's program.
  absl::Duration answer_timeout = absl::Seconds(60);
  StartRetries retries;  // of a command that ends with status 255
  std::function<std::string(const StartTarget&)> next_step;  // for the failure's sentence
  uint64_t seed = 1;                                         // of the jitter
};

class ProcessStarter final : public Starter {
 public:
  ProcessStarter(uv_loop_t* loop, ProcessStarterOptions options);
  ~ProcessStarter() override;  // kills what is left

  void SetCallbacks(Callbacks callbacks) override { callbacks_ = std::move(callbacks); }
  void Start(StartTarget target) override;
  void Stop(std::function<void()> done) override;

 private:
  struct Node {
    StartTarget target;
    int tries = 0;
    pid_t pid = -1;  // -1: no child
    bool connected = false;
    bool starting = false;     // takes one of kStartsAtOnceMax places
    std::string failure;       // what went wrong before its exit was known
    bool ended_by_us = false;  // for that reason: another try would end the same way
    std::unique_ptr<BootstrapChannel> channel;
    std::string banner;
    std::unique_ptr<LastWords> words;          // of its last child
    std::unique_ptr<UvTimer> timer;            // the answer, the kill, or the next try
    std::unique_ptr<UvTimer> hint;             // until the user is told that nothing has come
    bool routed = false;                       // in routes_
    ProgramGiverAddress gives;                 // there
    absl::Time gave = absl::InfiniteFuture();  // when it began
    std::unique_ptr<UvTimer> slow;             // until others need not wait for it
  };

  void Pump();
  void Spawn(Node& node);
  void Abandon(Node& node);
  void ReapAbandoned();
  void OnWanted(size_t index, bool fetches);
  void OnGives(size_t index, const std::optional<ProgramGiverAddress>& gives);
  void Route();
  void ForgetClosed();
  void GetsProgram(size_t index, std::optional<size_t> from);
  void Unroute(size_t index);
  void OnReady(size_t index, UniqueFd socket);
  void OnChannelFailed(size_t index, const std::string& why, bool closed);
  void End(Node& node, const std::string& why);
  void Reap();
  void OnExit(size_t index, int status);
  // False: it is not tried again.
  bool SpawnLater(Node& node, StartLoss loss);
  std::string Sentence(const Node& node, const std::string& what) const;
  void Fail(size_t index, const std::string& reason);
  void SignalAll(int signo);
  void KillOrGiveUp();
  void CheckStopped();

  uv_loop_t* const loop_;
  const ProcessStarterOptions options_;
  Callbacks callbacks_;
  AgentProgram program_;
  const std::string program_token_;
  CopyRoutes routes_;  // of the program, by index
  SplitMix64 jitter_;
  std::map<size_t, Node> nodes_;
  std::vector<pid_t> abandoned_;  // killed, not reaped yet
  std::deque<size_t> waiting_;
  size_t starting_ = 0;
  bool stopping_ = false;
  std::function<void()> stop_done_;
  UvTimer pump_;
  TcpHaste haste_;
  bool killed_ = false;  // Stop went on to SIGKILL
  std::unique_ptr<UvTimer> kill_;
  UvSignal child_;
};

}  // namespace muster
