// Inside the round machine: one step's context, and the functions that its files share. Not for
// others.
//
// Everything is done within one call of Step: `Machine` lives that long and keeps no reference into
// a container across an event.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/messages.h"
#include "rendezvous/core/policy.h"
#include "rendezvous/core/types.h"

namespace muster {

struct Machine {
  const RoundConfig& config;
  RoundState& state;
  const absl::Time now;
  std::vector<RoundEffect> out;
  NodeId answering;  // its directive follows at the end of the step: broadcasts leave it out
  JournalRecord record = {};  // what of this step the journal has to know, but for the progress
  bool admits = false;        // somebody is on its way in: no round starts without it

  uint32_t live() const { return state.live + (admits ? 1 : 0); }
};

// --- round_machine.cc ---
// Ends a pause, if there is one: deadlines and leases go on as if no time had passed.
void Resume(Machine& m);

// --- admission.cc ---
void OnJoin(Machine& m, const JoinReceived& event);
// It is not let in; but where it shows that nothing is left of the life before it, nobody waits for
// that one's lease.
void LoseTheOneBefore(Machine& m, const Join& join);

// --- members.cc: beats, losses, departures ---
void OnBeat(Machine& m, const Beat& beat);
void OnLeave(Machine& m, const Leave& leave);
void OnLinkClosed(Machine& m, const LinkClosed& event);
// A live node is gone: consequences for the round, the gathering, the end.
void Lose(Machine& m, NodeId id, const std::string& why);
void ExpireNodes(Machine& m);
// The exits of a beat that the journal has kept.
void RetakeExits(Machine& m, NodeId id, NodeState& node, const Beat& beat);
// "; lost as well: node4, node5": members of the round beside lost_id; "" = none.
std::string LostBeside(const RoundState& state);
// Of the workers of this member those that no round starts any more, whoever ran them.
uint32_t EndedWell(const RoundState& state, const NodeState& node);
// Keeps state.ready right after any change of the node.
void UpdateReady(Machine& m, NodeId id, const NodeState& node);

// --- gathering.cc ---
void BeginGathering(Machine& m, bool restarting);
// The members of state.round: the nodes of `order`, and what follows from who they are.
void SetMembers(Machine& m, const std::vector<NodeId>& order);
// Starts the round, or ends the job, if it is time to.
void TryStart(Machine& m);
// Nobody starts the node of this key again. Ends a gathering that has no hope left.
void GiveUpNode(Machine& m, const std::string& key, const std::string& reason);
// The address that workers meet at, and whether all are on one host, from the members.
void SetAddresses(const RoundConfig& config, RoundState& state);
void TellWaiting(Machine& m);
// Why agents wait, for their users; "" = it is no news yet.
std::string WaitingNote(Machine& m);

// --- membership.cc: nodes that come while a round runs, and lost ones that are started again ---
// Whether a round without a lost node is no restart: the user has said that nodes may go.
bool NodesMayGo(const Machine& m);
// Whether min nodes are there, or to come.
bool EnoughMayCome(const Machine& m);
// Whether the job can be formed where so many nodes are given up.
bool EnoughWithout(const RoundConfig& config, size_t given_up);
// Of nodes that are gone and in no round those that went first, beyond what there are places for:
// a job whose nodes come and go for weeks, under ever new names, does not grow.
void ForgetGone(Machine& m);
// Stops the round that runs, if it is time to, for one with the nodes that wait.
void TryGrow(Machine& m);
// The agent of this node, which is lost, is started again if it can be; else false.
bool PlanComeback(Machine& m, const NodeState& node);
void SendComebacks(Machine& m);
// It has joined, or is given up.
void EndComeback(Machine& m, const std::string& key);
void OnStartFailed(Machine& m, const StartFailed& event);

// --- policy.cc ---
// Fills the budgets if it is time to.
void Refill(Machine& m);
// It costs a restart, as the verdict says; the text of that: "restart 2 of 3".
std::string ChargeRestart(Machine& m, const Failure& failure, const Verdict& verdict);
// Counts a restart and says so: the round that follows is gathered next.
void CountRestart(Machine& m, const Failure& failure, const Verdict& verdict,
                  const std::string& headline);
// The same for one that the user has asked for: no budget counts it, and it waits for nothing.
void CountUserRestart(Machine& m);
// A failure began on this node, which may be set aside; what the line says about it.
std::string NoteFailure(Machine& m, const Failure& failure, const Verdict& verdict);
// Why the round ended and what follows: for the user's terminal, and the history.
void TellNext(Machine& m, std::string line);
// The last of these lines, of whatever round before; "" = none.
std::string ToldLast(const RoundState& state);

// --- replace.cc: RestartMode::kOne ---
// The node is a member, and runs the present round or one whose workers it keeps.
bool HoldsRound(const RoundState& state, const NodeState& node);
// The failures of report.exits from `first` on, of workers of this member, are mended by the next
// round; false where they cannot be, and then nothing has changed.
bool ReplaceWorkers(Machine& m, NodeState& node, size_t first);
// Another node, or this one again, is to take the place of a member that is lost; false where none
// may.
bool ReplaceNode(Machine& m, NodeId id, const std::string& headline);
// The others go on without this member, and nothing takes its place.
void NotReplaced(Machine& m, NodeId id);
// Starts the round that replaces, once each place has a node.
void TryReplace(Machine& m);
// When TryReplace has to look again; InfiniteFuture if only events matter.
absl::Time NextReplacement(const Machine& m);

// --- ending.cc: stop, first cause, restart ---
// Whether it goes on whatever fails now.
bool GoesOn(const Machine& m);
// Whether the round goes on when a worker has failed, or this node is lost.
bool GoesOnAfterWorker(const Machine& m);
bool GoesOnWithout(const Machine& m, NodeId id);
void StopForWorker(Machine& m);
void StopForNode(Machine& m, NodeId id, const std::string& headline);
void StopForTimeLimit(Machine& m);
void StopForGrowth(Machine& m, std::string headline);
void StopForUserRestart(Machine& m);
void OnUserStop(Machine& m, const StopAsked& stop);
// The round goes on without this member.
void GoOnWithout(Machine& m, NodeId id, const std::string& headline);
// Why the round is being stopped, as far as it is known now.
std::string WhyStopping(const RoundState& state);
// A member has reported everything (`lost` false), or never will.
void MemberSettled(Machine& m, NodeId id, bool lost);

// --- job_end.cc ---
void EndJob(Machine& m, int32_t exit_code, CauseKind cause, std::string headline);
void MaybeEnded(Machine& m);

// --- ending_told.cc ---
// It is news, and the round goes on.
void TellFailure(Machine& m, const std::string& what);
// The same of those of report.exits from `first` on.
void TellFailures(Machine& m, size_t first);
// A stop has begun: TellStopping says so if it takes long.
void TellStopLater(Machine& m);
// Why a stop that takes long was begun, and how long its workers still have.
void TellStopping(Machine& m);

// --- notices.cc: nothing has failed ---
// To the user, who may be at the nodes: then at the first one of the round that lives.
void TellUser(Machine& m, std::vector<std::string> lines);
// Nodes of the round have unlike files of a program; each sentence once.
void TellUnlikePrograms(Machine& m);
// No worker of the round does anything, as this node, which has just spoken, and all others say:
// after config.tell_idle, and then after twice the time.
void TellIdle(Machine& m, const NodeState& node);

// --- drill.cc ---
void OnDrill(Machine& m, const DrillAsked& asked);
void TakeDrillsDone(NodeState& node, uint32_t done);

// --- user_restart.cc ---
// Stops the round that runs for another one. The answer, for the user.
absl::StatusOr<std::string> RestartRound(Machine& m);
void OnRestart(Machine& m, const RestartAsked& asked);

// --- directive.cc ---
// What the node should do now; null = sent unasked.
void SendDirective(Machine& m, NodeId id, const Beat* answered);
void SendNotices(Machine& m, NodeId id, std::vector<std::string> notices);
void SendToMembers(Machine& m);
void SendToAll(Machine& m);

// --- journal.cc ---
// The round that starts, as the journal keeps it.
DurableRound KeepRound(const RoundState& state);
DurableProgress KeepProgress(const RoundState& state);
// Puts what of this step has to be durable in front of its effects.
void Keep(Machine& m);

}  // namespace muster
