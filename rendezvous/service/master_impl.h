// Inside of MasterServer: tables of jobs and streams, and who belongs to whom. Loop thread only.
#pragma once

#include <uv.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/tls/tls_door.h"
#include "rendezvous/service/grpc_edge.h"
#include "rendezvous/service/job.h"
#include "rendezvous/service/journal.h"
#include "rendezvous/service/listener.h"
#include "rendezvous/service/master_server.h"
#include "rendezvous/service/sessions.h"

namespace muster {

inline constexpr size_t kJobsMax = 1024;                           // of a daemon
inline constexpr absl::Duration kEndedJobKept = absl::Minutes(1);  // for nodes that come late

class MasterServer::Impl {
 public:
  Impl(uv_loop_t* loop, MasterOptions options);
  ~Impl();

  absl::StatusOr<uint16_t> Listen(absl::string_view address, PortRange ports);
  void Prepare() { edge_.Prepare(); }
  void Adopt(UniqueFd socket, EdgePeer peer);
  std::string IssueNonce();
  void SetUsers(std::vector<KnownUser> users) { users_ = std::move(users); }
  void Post(const std::string& job_id, RoundEvent event);
  size_t StdinRoom(const std::string& job_id, StdinTo to);
  bool SendStdin(const std::string& job_id, StdinTo to, absl::string_view bytes, bool eof);
  bool SendWindow(const std::string& job_id, Rank rank, uint16_t rows, uint16_t columns);
  std::vector<std::string> JobLines() const;
  Job* FindJob(const std::string& job_id);
  absl::StatusOr<size_t> TakeOver();
  void StandBy(std::string why) { standby_ = std::move(why); }
  absl::StatusOr<size_t> Lead(Journal* journal, std::function<bool()> leads);
  void Shutdown(std::function<void()> done);
  void CheckThread() const;

 private:
  // One that speaks gRPC in the clear where TLS is asked for: cut after a while.
  struct Guest {
    Guest() = default;
    ~Guest();
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;
    UniqueFd socket;
    absl::Time until;
  };

  // Connections over TCP (master_door.cc)
  bool Insecure() const;
  absl::StatusOr<TlsIdentity> Identity() const;
  void TakeTls(UniqueFd socket, const std::string& peer);
  void OnTlsCaller(TlsDoor::Caller&& caller);
  void TakeClear(UniqueFd socket, std::string peer);

  // gRPC's events (master_calls.cc)
  void OnEvent(const CallEvent& event);
  void OnAttend(AttendSession& session, CallEventKind kind);
  void OnHello(AttendSession& session, const v1::Hello& hello);
  void OnFrame(AttendSession& session, const v1::AgentFrame& frame);
  void OnJoin(AttendSession& session, Join join);
  // Why a node that this job does not know has to ask again; "" = it need not.
  std::string WhyNotYet(const Job& job, const AttendSession& session, const Join& join) const;
  // Its call ends, and `why` is a sentence for its user.
  static void AskAgain(AttendSession& session, const std::string& why);
  void OnBeat(AttendSession& session, Beat beat);
  void OnFence(const AttendSession& session, const FencePiece& piece);
  void OnModex(const AttendSession& session, const ModexNote& note);
  void AnswerFences(const Job& job, std::vector<FenceBoard::Answer> answers);
  void OnLeave(AttendSession& session, Leave leave);
  void Refuse(AttendSession& session, const std::string& reason);
  void Close(AttendSession& session);
  void Pump(AttendSession& session);
  void SweepUnproved();

  // Output streams (master_streams.cc)
  void OnStream(StreamSession& session, CallEventKind kind);
  void OnStreamHello(StreamSession& session, const v1::StreamHello& hello);
  // The connected agent that says so of itself, and proves it; null with the status for it.
  const AttendSession* AgentOf(const v1::StreamHello& hello, grpc::Status* refusal);
  void OnStreamFrame(StreamSession& session);
  void PassChunks(uint64_t id);
  void Close(StreamSession& session);
  // Streams of the workers that `to` means; empty when one is missing.
  std::vector<StreamSession*> StreamsOf(const std::string& job_id, StdinTo to);

  // Why no call is served now; OK = it is.
  grpc::Status Unserved() const;

  // How much of the daemon one user has (master_users.cc). The whys name the limit: "" = it may be.
  static std::string UserOf(const std::string& key, const Job& job);  // "" = it has no users
  template <typename Bytes>
  size_t SumOfJobs(const std::string& user, const Bytes& bytes) const;
  std::string WhyNoJob(const std::string& user) const;
  std::string WhyNoAgent(const std::string& user, bool asks) const;  // `asks`: only that
  size_t FenceRoom(const std::string& user) const;
  std::string WhyNoFence(const std::string& user) const;
  absl::Status MayWrite(const std::string& key, const Job& job, bool anew, size_t bytes) const;
  void CountAgent(const AttendSession& session);  // it has proved who it is
  void Uncount(const AttendSession& session);
  void PushModex(AttendSession& link, ModexNote note);
  ModexNote PopModex(AttendSession& link);

  // Jobs
  Job* JobFor(const AttendSession& session, const Join& join, std::string* refusal);
  void AddJob(const std::string& key, const RoundConfig& config, const JobTerms& terms);
  RoundConfig ConfigFor(const std::string& job_id, const JobTerms& terms) const;
  absl::Status CheckOwn(const Journal::Found& found) const;
  absl::Status GoOnWithout(const absl::Status& damaged) const;
  absl::Status TakeOverOne(Journal::Found found);
  absl::StatusOr<std::string> HeaderOf(const std::string& key, const Job& job) const;
  void Write(const std::string& key, const JournalRecord& record);
  void WriteInOurClock(const std::string& key, const Job& job,
                       const std::vector<JournalRecord>& records);
  void Written(const std::string& key, uint64_t file, const absl::Status& status);
  // The job goes on without a journal, until it has another round.
  void Unwritten(const std::string& key, uint64_t file, const absl::Status& status);
  void RemoveFile(Job& job);
  void Execute(const std::string& job_id, RoundEffect effect);
  void Deliver(const std::string& job_id, Reply reply);
  void Bind(Job& job, AttendSession& session, NodeId node, Incarnation incarnation);
  void FinishLink(Job& job, NodeId node, Incarnation incarnation);
  void CloseLinks(Job& job);
  void ForgetLater(Job& job);
  void ForgetJobs();
  AttendSession* LinkOf(const Job& job, NodeId node);

  uv_loop_t* const loop_;
  const uv_thread_t thread_;
  MasterOptions options_;  // all but the journal and the epoch, which Lead sets, stay as given
  std::string standby_;    // why it serves nobody; "" = it does
  std::function<bool()> leads_ = [] { return true; };
  const std::string host_;  // for sentences
  std::vector<KnownUser> users_;
  GrpcEdge edge_;
  Listener listener_;
  std::unique_ptr<TlsDoor> tls_;     // where it listens and is not insecure
  std::deque<Guest> guests_;         // in order of their ends
  std::map<std::string, Job> jobs_;  // by KnownUser::KeyOf
  UserUses uses_;                    // of users with names
  uint32_t rounds_given_ = 0;        // the highest number: none comes twice in our epoch
  std::set<std::string> issued_;     // nonces for one Hello each
  uint64_t next_id_ = 0;
  uint64_t reading_ = 0;  // the session whose frame is being handled: it answers when that is done
  std::map<uint64_t, AttendSession> attends_;
  std::map<uint64_t, StreamSession> streams_;
  std::map<ServerCall*, uint64_t> ids_;      // lookup only, never iterated
  std::map<uint64_t, absl::Time> unproved_;  // deadline by number, so in order of both
  UvTimer sweep_;
  UvTimer forget_;
  // Owned here, watched by the `taken` functions that consumers hold: they may outlive this.
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
  bool closing_ = false;
};

}  // namespace muster
