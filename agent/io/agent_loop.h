// The agent's I/O process: carries out what the agent machine decides. Owns the shepherd's client,
// output, stdin and the store of its node. Everything runs on one libuv loop thread.
#pragma once

#include <uv.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/core/agent_machine.h"
#include "agent/core/fence_member.h"
#include "agent/core/modex_member.h"
#include "agent/core/worker_env.h"
#include "agent/io/bindings_watch.h"
#include "agent/io/held_link.h"
#include "agent/io/links.h"
#include "agent/io/master_probe.h"
#include "agent/io/mpi_watch.h"
#include "agent/io/node_facts.h"
#include "agent/io/output_pump.h"
#include "agent/io/program_facts.h"
#include "agent/io/run_dir.h"
#include "agent/io/shepherd_client.h"
#include "agent/io/store_port.h"
#include "agent/io/use_watch.h"
#include "agent/io/worker_door.h"
#include "agent/io/worker_placement.h"
#include "agent/io/worker_pmi.h"
#include "agent/io/worker_pmix.h"
#include "agent/io/worker_stdin.h"
#include "proto/base/log.h"
#include "proto/base/work_plan.h"

namespace muster {

// Why a program with an MPI is not started beside living workers.
inline constexpr absl::string_view kNoMpiReplacement =
    "--restart=one puts a new worker among living ones, which its MPI cannot take in: use "
    "--restart=all, or --mpi none if it calls no MPI_Init";

class AgentLoop {
 public:
  struct Options {
    AgentConfig config;
    WorkPlan plan;
    NodeFacts facts;
    std::vector<PreparedProgram> programs;  // of `plan`, in its order
    std::string secret;  // of the job, for connections between its nodes; "" = --insecure
    uint16_t store_port =
        0;  // MASTER_PORT that the user wants, if this may be the node of rank 0; 0 = any
    bool preflight = false;     // whether rank 0's node is asked for whether it is reached
    bool store_on_all = false;  // addresses: the user says which one workers come to
    // Our own stdin, that nobody has read, for the worker that StdinMode::kRank names; else it is
    // carried there.
    UniqueFd stdin_of_worker;
    std::function<void(const Assignment&)> on_workers_started;  // all of this node's; once a round
    std::function<void(const WorkerExit&)> on_worker_ended;     // optional; one of this node's
    std::function<void(const std::string&)> show_waiting;
    // Optional: what the master's addresses have said, each time none of them was the master's.
    std::function<void(const std::string&)> on_no_master;
    std::function<void()> on_workers_gone;  // optional; at the end, before launch hears of that
    std::function<void(const JobOutcome&)>
        on_finish;  // everything is ended and shown; may destroy nothing
  };

  // The links outlive the loop object.
  AgentLoop(uv_loop_t* loop, Options options, ShepherdProcess shepherd, MasterLink* master,
            OutputLink* output);

  void Start();
  // The user stops the job at this agent: by this signal; `now` = at once.
  void UserStop(muster::UserStop stop);
  // The user wants another round to follow the one held. False: none is, or nobody
  // can be asked.
  bool UserRestart();
  // A signal that the scheduler sent to this agent, as to those of the other nodes.
  void SchedulerSignal(int signo);
  // A signal the user sent to this agent's launch, for the workers of this node.
  void PassSignal(int signo) { shepherd_.Signal(signo); }
  uint32_t workers_alive() const { return state_.workers_alive; }
  // How the job ended here was not the master's word.
  bool ended_locally() const { return state_.ended_locally; }
  // The master has ever taken this node in.
  bool joined() const { return state_.incarnation != Incarnation(); }
  // A client of the torch store that came to another port of this process.
  void AdoptStoreClient(UniqueFd client) { store_.Adopt(std::move(client)); }
  // Nobody reads the output any more.
  void OutputClosed();

 private:
  struct Worker {
    pid_t pid = 0;
    absl::Time started;
    bool ended = false;
    std::string error_file;
  };

  void Post(AgentEvent event);
  void TakeEvents();
  void TellAwaited();
  void TellFollowers();
  void Do(const SendToMaster& effect);
  void Do(const Drill& effect);
  void Do(const OpenStore& effect);
  void Do(const SpawnRound& effect);
  void Do(const KeepRound& effect);
  void Do(const SignalRound& effect);
  void Do(const ReleaseHeld& effect);
  void Do(const KillRound& effect);
  void Do(const AwaitGroups&) { shepherd_.AwaitGroups(); }
  void Do(const CloseRound& effect);
  void Do(const EndDrain& effect);
  void Do(const PeerFound& effect);
  void Do(const PeerGone& effect);
  void Do(const MeetNoMore& effect);
  void Do(const SetLease& effect);
  void Do(const SetTimer& effect);
  void Do(const ShowWaiting& effect);
  void Do(const ShowNotice& effect) { LogInfo(effect.text); }
  void Do(const ShowRest& effect);
  void Do(const Finish& effect);

  ShepherdClient::Callbacks ShepherdCallbacks();
  void HoldUp(absl::Duration delay, absl::Duration length);
  void Freeze(absl::Duration length);
  void SpawnWorker(LocalRank local);
  void ReportBindings();
  void WatchForMpi();
  void SpawnOnTerminal(LocalRank local, const std::vector<std::string>& own, PmiEnd pmi);
  absl::StatusOr<UniqueFd> StdinOf(const WorkPlan& plan, uint32_t rank);
  void SetWindow(uint16_t rows, uint16_t columns);
  void OnSpawnFailed(uint32_t local_rank, int error, std::string what);
  // `before`: whose end ended it.
  void OnEnded(uint32_t local_rank, const WorkerEnd& end,
               std::optional<Rank> before = std::nullopt);
  void OnShepherdDead();
  void ClearRound();
  void CutOff();
  void OnCleared(const std::string& survivors);
  void CheckShown();
  void EndOutput();
  void SpawnWorkers(const absl::Status& may);
  bool ServesPmix() const;
  bool OffersPmi1To(const PreparedProgram& program) const;
  Pmi1Round PmiRound() const;
  absl::StatusOr<PmiEnd> OpenPmi(LocalRank local, MpiMode mpi, bool offered);
  absl::Status CheckMpi() const;
  absl::StatusOr<std::vector<uint16_t>> KeepWorkerPorts();
  absl::Status CheckPmix() const;
  bool NeedsNoPmix() const;
  void BeginPmix();
  WorkerPmix::Callbacks PmixCallbacks();
  void StartPmixHelper(UniqueFd socket);
  void OnPmixReady(absl::StatusOr<std::vector<std::vector<std::string>>> variables);
  void SignalLater(const SignalRound& order);
  void SignalNow();
  void EnterFence(std::string text);
  void Fenced(const absl::StatusOr<std::string>& text);
  void SendFences(FenceMember::Pieces pieces);
  void TakeFence(const FencePiece& piece);
  void SendModexes(ModexMember::Notes notes);
  void TakeModex(const ModexNote& note);
  void GoOnSeeking(const ModexMember::Due& due);
  void MakeRunDir();
  void KeepDoor(const std::vector<LocalRank>& starts);
  UniqueFd BeginStore();
  void LeaveStore();
  void AdmitToStore();

  const Options options_;
  HeldLink held_;  // in front of the link to the master
  MasterLink* const master_;
  OutputLink* const output_;
  WorkerPlacement placement_;
  CpuClaimSockets claims_;
  BindingsWatch bindings_;
  MpiWatch mpi_watch_;
  WorkerDoor door_;
  ShepherdClient shepherd_;
  UseWatch use_;
  WorkerStdin stdin_;
  WorkerPmi pmi_;
  WorkerPmix pmix_;
  std::vector<std::vector<std::string>> pmix_variables_;  // of the workers of the round
  std::vector<SignalRound> signals_later_;                // that came before the workers; each once
  FenceMember fences_;
  ModexMember modex_;
  UvTimer modex_timer_;
  Terminal window_;    // --pty: as it is now
  UniqueFd terminal_;  // our side of the worker's, where it is on this node
  OutputPump pump_;
  std::shared_ptr<StoreGuard> guard_;  // of the round's store; nullptr = anybody may use it
  MasterProbe master_probe_;
  StorePort store_;
  bool told_of_store_ = false;
  std::vector<BoundPort> worker_ports_;  // --dialect tf: kept free for them

  AgentState state_;
  std::deque<AgentEvent> events_;
  bool stepping_ = false;
  UvTimer timer_;
  Assignment assignment_;
  std::vector<Worker> workers_;
  bool program_sent_ = false;
  bool may_follow_ = false;  // as the door knows
  bool alone_ = true;        // nothing is left below the shepherd
  bool clearing_ = false;    // the shepherd's kCleared is awaited
  uint64_t oom_kills_ = 0;
  RunDir run_dir_;
  UvTimer drain_timer_;  // CloseRound::drain
  // A worker that has failed is about to end: a stop that it brings about, as the others fail with
  // it, would make a SIGTERM of ours out of its own end, and the report would name another one.
  UvTimer failing_timer_;
  UvTimer show_timer_;
};

}  // namespace muster
