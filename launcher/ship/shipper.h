// Gets the shipped files to new agents, on their channels, before these carry gRPC: sends them
// itself or says which other agent has them (copy_routes.h). Loop thread only.
//
// Invariants (cited by tests):
//  D1 each agent that is added is handed back once, with the files, or fails once; one whose
//     connection ends is only forgotten, for its starter says more;
//  D2 nobody is handed back while another that was added still wants the files, or fewer than
//     `expected` have come, for these may be sent to any that has them;
//  D3 who has not said anything for `silence_max` has failed.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "launcher/schedule/copy_routes.h"
#include "launcher/ship/ship_files.h"
#include "proto/base/unique_fd.h"
#include "proto/ship/lines.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class Shipper {
 public:
  struct Callbacks {
    std::function<void(size_t index, UniqueFd socket)> on_done;
    std::function<void(size_t index, std::string why)> on_failed;
    std::function<std::string(size_t index)> name;  // of its node, for -v
  };
  // `expected`: agents without which nothing can begin anyway.
  Shipper(uv_loop_t* loop, ShipArchive archive, size_t expected, Callbacks callbacks,
          absl::Duration silence_max = kShipSilenceMax);

  const ShipTerms& terms() const { return archive_.terms; }
  // An agent that has its bootstrap. Callbacks come from the loop, never from here.
  void Add(size_t index, UniqueFd socket);
  // One of those that were expected could not be started.
  void NotComing(size_t index);
  // The job is over: the channels of those that are not handed back are closed, also of one that is
  // added later. May be called from a callback.
  void Stop();

  // For tests: agents that have the files and are not handed back yet.
  size_t holders() const;

 private:
  struct Agent {
    UniqueFd socket;
    std::unique_ptr<UvPoll> poll;  // closed before `socket`
    std::string in;                // a line that is not whole
    std::string out;               // words not sent yet, before the archive's bytes
    uint64_t sent = 0;             // of the archive
    bool taking = false;           // the archive's bytes are being sent
    bool goes_on = false;          // it is told so; its answer is awaited, and not a byte more
    absl::Time heard;
    std::string address;  // once it has them
    uint16_t port = 0;
  };

  void OnEvents(size_t index, int events);
  // These two: whether the agent is still ours.
  bool Read(size_t index);
  bool OnLine(size_t index, const std::string& line);
  void HandBack(size_t index);
  void Write(size_t index);
  void SendBytes(Agent& agent, size_t index);
  void Say(size_t index, const ShipOrder& order);
  void Watch(Agent& agent);
  void Route();
  void EveryWhile();
  void Forget(size_t index);
  void Fail(size_t index, const std::string& why);

  uv_loop_t* const loop_;  // outlives this
  const ShipArchive archive_;
  const Callbacks callbacks_;
  const absl::Duration silence_max_;
  const size_t expected_;
  std::set<size_t> called_;  // or will not; one that is started again counts once
  bool stopped_ = false;
  CopyRoutes routes_;
  std::map<size_t, Agent> agents_;
  UvTimer every_while_;
};

}  // namespace muster
