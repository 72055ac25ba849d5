// An agent's side of the PMIx server that its node's workers use in one round: messages of the
// helper in, effects out. Pure.
//
// Invariants (cited by tests):
//  N1 the helper becomes ready or fails, once, and before it says anything else;
//  N2 one fence of the round is under way at a time, and each is answered once;
//  N3 a worker that waits for its MPI is not left waiting when the helper is lost;
//  N4 what ranks of other nodes have put is sought once at a time for each of them, and what one of
//     this node has put is asked of the helper once at a time.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "agent/core/mpi_end.h"
#include "agent/core/pmix_wire.h"
#include "proto/base/ids.h"

namespace muster {

struct PmixStart {
  std::vector<std::vector<std::string>> variables;
};  // of the workers, by local rank
struct PmixNoStart {
  std::string why;
};
struct PmixEnter {
  std::string bytes;
};  // answered by Fenced
struct PmixSay {
  PmixMessage message;
};  // to the helper
struct PmixKill {
  LocalRank worker;
  bool at_once = true;  // else after kMpiAbortPatience
};
struct PmixNotice {
  std::string text;
};  // for the user
struct PmixSeek {
  uint32_t node = 0;
  uint32_t rank = 0;
};  // what this rank of that node has put; answered by Found
struct PmixTell {
  uint32_t rank = 0;
  absl::StatusOr<std::string> bytes;
};  // answers Show
using PmixEffect = std::variant<PmixStart, PmixNoStart, PmixEnter, PmixSay, PmixKill, PmixNotice,
                                PmixSeek, PmixTell>;

class PmixNode {
 public:
  explicit PmixNode(PmixWorld world);

  std::vector<PmixEffect> Take(PmixMessage message);
  // Answers PmixEnter.
  std::vector<PmixEffect> Fenced(const absl::StatusOr<std::string>& bytes);
  // Answers PmixSeek.
  std::vector<PmixEffect> Found(uint32_t rank, const absl::StatusOr<std::string>& bytes);
  // Another node wants what this rank has put; it may say so again. While the server starts, it has
  // to.
  std::vector<PmixEffect> Show(uint32_t rank);
  // Its process has ended, well or not; what it said before has been taken.
  std::vector<PmixEffect> Ended(LocalRank worker, bool well);
  // The helper is gone, or says what is no message: nothing comes from it any more.
  std::vector<PmixEffect> Lost(absl::string_view why);
  // The helper and the workers are being ended by us: that is no loss.
  void Closing() { phase_ = Phase::kLost; }
  MpiEnd End(LocalRank worker) const { return workers_[worker.value].end; }
  const PmixWorld& world() const { return world_; }
  bool starting() const { return phase_ == Phase::kStarting; }

 private:
  using Out = std::vector<PmixEffect>;
  enum class Phase : uint8_t { kStarting, kServing, kLost };
  struct Worker {
    MpiEnd end;
    bool gone = false;
  };

  bool IsClient(LocalRank worker) const { return worker.value < workers_.size(); }
  void On(const PmixServe&, Out& out);
  void On(const PmixFenced&, Out& out);
  void On(PmixReady& ready, Out& out);
  void On(const PmixFailed& failed, Out& out);
  void On(const PmixInit& init, Out& out);
  void On(const PmixFinalized& finalized, Out& out);
  void On(const PmixAborted& aborted, Out& out);
  void On(PmixFence& fence, Out& out);
  void On(const PmixNotServed& not_served, Out& out);
  void On(const PmixFound&, Out& out);
  void On(const PmixShow&, Out& out);
  void On(const PmixWant& want, Out& out);
  void On(PmixShown& shown, Out& out);
  void Refuse(absl::string_view what, Out& out);
  void TellOfMissing(Out& out);
  void TellOfSingletons(Out& out);

  const PmixWorld world_;
  Phase phase_ = Phase::kStarting;
  std::vector<Worker> workers_;
  bool in_fence_ = false;
  std::set<uint32_t> wants_;    // ranks of other nodes
  std::set<uint32_t> showing_;  // ranks of this one
  uint32_t inits_ = 0;
  uint32_t gone_ = 0;
  uint32_t missing_ = 0;  // ended without MPI_Init
  bool all_well_ = true;
  bool told_of_missing_ = false;
  bool told_of_not_served_ = false;
  bool told_of_not_found_ = false;
};

}  // namespace muster
