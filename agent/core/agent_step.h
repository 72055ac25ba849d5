// Inside the agent machine: one step's context. Not for others. Lives for one call of Step.
#pragma once

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "agent/core/types.h"
#include "proto/base/messages.h"

namespace muster {

class AgentStep {
 public:
  AgentStep(const AgentConfig& config, AgentState& state, absl::Time now)
      : config_(config), s_(state), now_(now) {}

  std::vector<AgentEffect> Run(const AgentEvent& event);

 private:
  // --- agent_machine.cc: link, admission, lease, beats, timer ---
  void On(const LinkUp& up);
  void On(const LinkDown& down);
  void On(const MessageReceived& received);
  void On(const StorePortReady& ready);
  void On(const StorePortFailed& failed);
  void On(const UserStop& stop);
  void On(const UserRestart& restart);
  void On(const SchedulerSignal& signal);
  void On(const UseSeen& seen) { s_.use = seen.use; }
  void On(const LeaseEnded& ended);
  void On(const TimeElapsed&) {}
  void OnMessage(const Admitted& admitted);
  void OnMessage(const Refused& refused);
  void OnMessage(const Directive& directive);

  void CheckStandstill();
  void CheckDeadlines();
  void CheckLease();
  void CheckUserStop();
  void LeaveJob(const UserStop& stop);
  void RenewLease(absl::Time sent);
  bool HasLease() const;
  bool StandsStill() const { return s_.still_until != absl::InfinitePast(); }
  bool JobIsEnded() const { return s_.heard.count(SIGTERM) != 0; }  // by the scheduler
  void LiftLease();
  absl::Duration MasterWait() const;
  void SendJoin();
  void SendBeat();
  void SendWhatIsDue();
  void Show(const std::string& note);
  absl::Time NextDeadline() const;
  void ArmTimer();

  // --- agent_round.cc: the round held ---
  void On(const WorkerSpawned& spawned);
  void On(const WorkerEnded& ended);
  void On(const RoundCleared& cleared);
  void On(const PeerSought& sought);
  void On(const PeersAwaited& awaited);
  void On(const RestShown& shown);
  void TakeAcks(const Directive& directive);
  void TakeSignals(const Directive& directive);
  void TakeDrills(const Directive& directive);
  void TakePeers(const Directive& directive);
  void Obey(const Directive& directive);
  void ShouldRun(const Directive& directive);
  void ShouldStop(const Directive& directive);
  void Start(const Assignment& assignment);
  void Keep(const Assignment& assignment);
  void StartWorker(const Assignment& assignment, LocalRank local);
  void NeverHeld(RoundId round);
  void ForgetOthers();
  void SetPaused(bool paused);
  void OpenStoreNow();
  void AddExit(WorkerExit exit);
  void AddUntoldExit(LocalRank local_rank);
  void EndLocally(int32_t exit_code, std::string headline);
  // What follows from the state as it is now: ready for the next round, or at the end.
  void MoveOn();
  void Finished(bool all_shown);

  // --- agent_stop.cc: its end ---
  void Stop(int32_t signo, absl::Duration grace);  // signo 0 = SIGKILL at once
  void Kill();
  void Close();
  void On(const GroupsEnded& ended);
  bool MayClose() const;
  absl::Duration Drain() const;

  bool SoughtUnderWay() const { return s_.beats_unanswered.count(s_.sought_in) != 0; }
  // Of the round held, or of an earlier one whose workers it keeps.
  bool IsOfRound(RoundId round) const;
  bool AllEndedWell() const;
  bool Running() const { return s_.workers_alive > 0; }
  // A worker of the round, or what was told to stop with the workers.
  bool Lives() const { return Running() || s_.saving; }
  template <typename Effect>
  void Emit(Effect effect) {
    out_.push_back(std::move(effect));
  }

  const AgentConfig& config_;
  AgentState& s_;
  const absl::Time now_;
  std::vector<AgentEffect> out_;
  bool beat_wanted_ = false;
};

}  // namespace muster
