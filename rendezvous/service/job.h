// One job: its round machine, its timer, and the effects that wait for the journal. Loop thread
// only.
#pragma once

#include <uv.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "proto/wire/job_terms.h"
#include "proto/wire/uv_handles.h"
#include "rendezvous/core/fence_board.h"
#include "rendezvous/core/round_machine.h"
#include "rendezvous/core/types.h"
#include "rendezvous/service/server_call.h"

namespace muster {

class Job {
 public:
  // `execute` carries out one effect; it may feed events, which come after the effects at hand. For
  // a Persist it begins the writing, at once; what follows waits until Durable.
  Job(uv_loop_t* loop, RoundConfig config, std::function<void(RoundEffect)> execute);
  // One that a master before has left.
  Job(uv_loop_t* loop, RoundConfig config, RoundState state,
      std::function<void(RoundEffect)> execute);

  void Feed(RoundEvent event);
  // The earliest Persist that waits is on the disk, or there is no journal any more.
  void Durable();

  const RoundConfig& config() const { return config_; }
  const RoundState& state() const { return state_; }
  bool ended() const { return ended_; }
  // A process that this job has heard of before.
  bool KnowsLife(uint64_t life) const;
  // No round has begun, and nobody waits for one: its terms bind nobody.
  bool IsDeserted() const { return AwaitsFirstRound() && state_.live == 0; }
  // Likewise, but for those whose connections have ended and who may be back: its terms stand, and
  // nobody is there with whom others could be compared.
  bool IsUnconnected() const { return AwaitsFirstRound() && state_.live > 0 && links.empty(); }
  // It has ended, and `join` is of a node of it that comes late.
  bool ComesTooLate(const Join& join) const;
  // Nothing but its end is to come, and it has not ended yet.
  bool IsEnding() const;
  // `node` is alive in this life.
  bool Holds(NodeId node, Incarnation incarnation) const;

  // The node's control stream and output stream; each call's number is in MasterServer's tables.
  std::map<NodeId, uint64_t> links;
  std::map<NodeId, uint64_t> streams;
  FenceBoard fences;
  absl::Time forget_at = absl::InfiniteFuture();  // a daemon's job that has ended
  JobTerms terms;                                 // for the journal
  uint64_t file = 0;                              // of the journal; 0 = nothing is written yet
  uint64_t first_file = 0;                        // the job's own are that and later ones
  bool journal_lost = false;                      // until its next round, which begins a file
  bool loss_told = false;                         // to its user, who is to hear when that is over

 private:
  bool AwaitsFirstRound() const {
    return state_.phase == JobPhase::kGathering && state_.round.IsNone();
  }
  void Run();

  const RoundConfig config_;
  const std::function<void(RoundEffect)> execute_;
  RoundState state_;
  std::deque<RoundEvent> events_;
  std::deque<RoundEffect> effects_;  // bounded by the journal's deadline
  size_t durable_ = 0;               // of the Persists in effects_
  bool busy_ = false;
  bool ended_ = false;
  UvTimer timer_;
};

}  // namespace muster
