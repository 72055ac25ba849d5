// The master: gRPC on one side, one round machine per job on the other.
//
// Thread rule: every method and every callback on the thread of the loop given. gRPC's own threads
// only post into a bounded mailbox. Invariants:
//  M1 nothing from a connection reaches a job before both sides have proved the secret and the same
//  build, and what comes from one user never reaches a job of another; M2 a beat is believed only
//  for the node and incarnation that its connection was admitted as, or joins anew as; M3 what is
//  under way to an agent is bounded: a newer directive replaces one that was not yet sent; M4 of
//  one agent at most one output chunk is with the consumer; the next is read after `taken`.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/output_chunk.h"
#include "proto/base/port_range.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/job_terms.h"
#include "rendezvous/core/types.h"
#include "rendezvous/service/known_user.h"
#include "rendezvous/service/user_limits.h"

namespace muster {

class Journal;

struct MasterOptions {
  std::vector<KnownUser> users;  // who may run jobs here; see SetUsers
  UserLimits per_user;           // of those that have names
  // Of the key by which users know a daemon that has several (TlsIdentity::OfSite); "" = another
  // one in each life. With one secret the key follows from that.
  std::string site_seed;
  bool many_jobs = false;  // a daemon: jobs are made by the terms their first agent brings
  RoundConfig job;         // the one job, when not many_jobs
  JobTerms terms;          // of `job`, for the journal
  uint32_t epoch = 1;      // many_jobs: of every job made here
  // What is written to it outlives this master, and what it holds is taken over; null = jobs end
  // with it. Outlives the server.
  Journal* journal = nullptr;

  // All optional. `job_id`: of a user's job "USER/ID".
  std::function<void(const std::string& job_id, const std::string& text)> on_tell;
  std::function<void(const std::string& job_id, const RoundStarted&)> on_round_started;
  std::function<void(const std::string& job_id, const WorkersStarted&)> on_workers_started;
  std::function<void(const std::string& job_id, const SignalHeard&)> on_signal_heard;
  std::function<void(const std::string& job_id, const OrderAnswered&)> on_order_answered;
  std::function<void(const std::string& job_id, const StartAgain&)> on_start_again;
  std::function<void(const std::string& job_id, const JobReport&)> on_job_ended;  // once a job
  // Output of a worker of `node`; the agent's next chunk comes after taken(), which may be called
  // at once or later. Without it agents' output streams are refused (each launch shows its own
  // workers' output).
  std::function<void(const std::string& job_id, NodeId node, OutputChunk&& chunk,
                     std::function<void()> taken)>
      on_chunk;
  // Some output of workers of `node` is neither in chunks nor in a log file, for the reason `why`;
  // perhaps said again.
  std::function<void(const std::string& job_id, NodeId node, const std::string& why)> on_lost;
  std::function<void(const std::string& job_id)> on_stdin_room;  // StdinRoom grew
  // A connection to the listening port that does not speak gRPC (the torch store of torchrun's
  // static form). Nothing was read from it. Without the callback it is closed.
  std::function<void(UniqueFd socket, std::string peer)> on_foreign;
};

// Whose stdin; no rank = all workers of the round.
struct StdinTo {
  std::optional<Rank> rank;
};

class MasterServer {
 public:
  // `loop` outlives the server.
  MasterServer(uv_loop_t* loop, MasterOptions options);
  ~MasterServer();  // after Shutdown's `done`, or when none of the next three was called
  MasterServer(const MasterServer&) = delete;
  MasterServer& operator=(const MasterServer&) = delete;

  // "ADDR:PORT", "[::]:29400", "HOST:0" (any of `ports`); the port that was bound. May be called
  // more than once. Errors: InvalidArgument (not such a text), AlreadyExists (in use; names the
  // owner where /proc shows it), ResourceExhausted (all of `ports` are), NotFound (not an address
  // of this machine), PermissionDenied (port below 1024).
  absl::StatusOr<uint16_t> Listen(absl::string_view address, PortRange ports = {});
  // Does what the first connection would wait for.
  void Prepare();
  // A connected stream socket (an ssh channel, a socketpair to an agent in this process). `peer` =
  // address by which others reach that agent, used where Join.address is empty.
  void AdoptConnection(UniqueFd socket, std::string peer = "");
  // For one Hello of an agent that gets it together with the secret, so that it need not wait for
  // the Challenge.
  std::string IssueNonce();

  // Who may run jobs from now on, each their own: job ids of two users are two jobs. Connections
  // that stand go on.
  void SetUsers(std::vector<KnownUser> users);

  // StopAsked, SignalAsked, PauseAsked, StartFailed for a job; an unknown job is ignored.
  void Post(const std::string& job_id, RoundEvent event);

  // Bytes of stdin that `to` can take now (0: no round, no stream, or its window is full), at most
  // kStdinWindow.
  size_t StdinRoom(const std::string& job_id, StdinTo to) const;
  // At most StdinRoom bytes; `eof` needs no room. False when there is nobody to take them now.
  [[nodiscard]] bool SendStdin(const std::string& job_id, StdinTo to, absl::string_view bytes,
                               bool eof);

  // The size of the user's terminal, for the worker of this rank that has one. False as above.
  [[nodiscard]] bool SendWindow(const std::string& job_id, Rank rank, uint16_t rows,
                                uint16_t columns);

  // The jobs in the journal that this master goes on with. Once, before the first connection; then
  // how many there are that have not ended. Errors name the file: it is of another job, or damaged
  // (where it is not of many: of those the other jobs go on, and it is said).
  absl::StatusOr<size_t> TakeOver();

  // One of several masters that share a store. StandBy: every call is ended with `why`, which names
  // who leads, so that the agent asks there. Lead: this one serves from now on, with `journal` in
  // the place of the option's; then as TakeOver. Where `leads` says no, nothing more is said to any
  // agent: another master may lead by now.
  void StandBy(std::string why);
  absl::StatusOr<size_t> Lead(Journal* journal, std::function<bool()> leads);

  // Null for an unknown job. Valid until the next event.
  const RoundState* FindJob(const std::string& job_id) const;

  // A line for each job: its id, and where it stands.
  std::vector<std::string> JobLines() const;

  // Closes every connection (what was sent before still goes out, within a second), then `done`.
  void Shutdown(std::function<void()> done);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The round machine's configuration for a job that agents describe.
RoundConfig ConfigFromTerms(const std::string& job_id, const JobTerms& terms);

}  // namespace muster
