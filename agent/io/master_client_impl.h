// Inside of MasterClient: the connection, its control stream, its output stream. Loop thread only.
#pragma once

#include <grpcpp/grpcpp.h>
#include <uv.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "agent/core/master_silence.h"
#include "agent/core/target_turns.h"
#include "agent/io/client_call.h"
#include "agent/io/master_client.h"
#include "agent/io/tcp_connector.h"
#include "proto/base/rng.h"
#include "proto/tls/tls_thread.h"
#include "proto/wire/muster.grpc.pb.h"
#include "proto/wire/secret.h"
#include "proto/wire/uv_handles.h"

namespace muster {

using AttendClientCall = TypedClientCall<v1::AgentFrame, v1::MasterFrame>;
using StreamClientCall = TypedClientCall<v1::StreamUp, v1::StreamDown>;

// Who this agent is, as the master said on the present connection; what an output stream has to
// prove.
struct StreamIdentity {
  Handshake handshake;
  NodeId node;
  Incarnation incarnation;
};

// Calls that have begun; each is destroyed at its last event.
class ClientCalls {
 public:
  ClientCalls(uv_loop_t* loop, std::function<void(const ClientEvent&)> handler);
  ~ClientCalls();
  ClientMailbox* mailbox() { return &mailbox_; }
  void Own(std::unique_ptr<ClientCall> call) { calls_[call.get()] = std::move(call); }
  bool empty() const { return calls_.empty(); }
  void CancelAll();

 private:
  const std::function<void(const ClientEvent&)> handler_;
  std::unique_ptr<UvAsync> wake_;
  ClientMailbox mailbox_;
  std::map<ClientCall*, std::unique_ptr<ClientCall>> calls_;  // lookup only
};

class MasterClient::Impl {
 public:
  Impl(uv_loop_t* loop, MasterClientOptions options);

  class Control final : public MasterLink {
   public:
    explicit Control(Impl* impl) : impl_(impl) {}
    void Start(Callbacks callbacks) override;
    void Send(AgentMessage message) override;
    void SendFence(FencePiece piece) override;
    void SendModex(ModexNote note) override;
    void Stop(std::function<void()> done) override;
    bool IsFinal() const override;

   private:
    Impl* const impl_;  // owns this
  };

  class Output final : public OutputLink {
   public:
    Output(uv_loop_t* loop, Impl* impl);
    void Start(Callbacks callbacks) override;
    bool Send(OutputChunk& chunk) override;
    void Lost(const std::string& why) override;
    void StdinTaken(size_t bytes) override;
    void Finish(std::function<void()> done) override;

    void OnIdentity(const StreamIdentity& identity);  // the control stream stands
    void OnLinkDown(const std::string& why, bool for_good);
    void Shut();  // no callback comes any more, but for Finish's
    void OnEvent(const ClientEvent& event);
    bool Owns(const ClientCall* call) const { return call == call_; }

   private:
    void Open();
    void Pump();
    void FillFrame(v1::StreamUp* frame);
    bool LostUntold() const { return !lost_.empty() && !lost_told_; }
    void CloseForGood(const std::string& why);
    void FinishNow();

    uv_loop_t* const loop_;
    Impl* const impl_;  // owns this
    Callbacks callbacks_;
    bool started_ = false;
    bool closed_ = false;  // for good
    std::optional<StreamIdentity> identity_;
    StreamClientCall* call_ = nullptr;  // in calls_ until its kDone
    bool welcome_ = false;
    std::deque<OutputChunk> queue_;
    size_t queued_bytes_ = 0;
    bool sent_ = false;           // anything at all
    bool refused_chunk_ = false;  // on_writable is owed
    uint64_t stdin_taken_ = 0;
    std::string lost_;
    bool lost_told_ = false;  // in this stream
    std::function<void()> finish_done_;
    std::unique_ptr<UvTimer> finish_timer_;
    std::unique_ptr<UvTimer> retry_;
  };

  bool at_daemon() const { return at_daemon_; }
  Control& control() { return control_; }
  Output& output() { return output_; }

 private:
  friend class Control;
  friend class Output;
  enum class State { kIdle, kConnecting, kHandshake, kUp, kWaiting, kStopping, kStopped };

  void OnEvent(const ClientEvent& event);
  void Connect();
  void Open(UniqueFd socket);
  void OnFrame(const v1::MasterFrame& frame);
  void OnHandshake(const v1::MasterFrame& frame);
  void SayHello(const std::string& master_nonce);
  void Up();
  void Identify();
  void Down(const std::string& why, bool believed = true);
  void NotBelieved(const std::string& why);
  void Refused(const std::string& reason);
  void Pump();
  void Late();
  void Drop();
  void HeardFrom();  // the master, just now
  std::string Where() const;
  // What the TLS handshake of the present connection came to; null: there is none, or not yet.
  const TlsOutcome::Facts* Tls() const { return tls_outcome_ ? tls_outcome_->facts() : nullptr; }
  void Connected(absl::StatusOr<UniqueFd> socket, bool is_tcp);
  absl::StatusOr<UniqueFd> Secure(UniqueFd socket);
  void Ended(const std::string& why);
  void TellProof();
  void Stop(std::function<void()> done);
  void CheckStopped();

  uv_loop_t* const loop_;
  MasterClientOptions options_;
  const bool final_;  // a descriptor was given
  TargetTurns turns_;
  MasterSilence silence_;
  std::set<std::string> warned_of_;  // targets
  MasterLink::Callbacks callbacks_;
  State state_ = State::kIdle;
  bool was_up_ = false;        // on the present connection
  bool told_to_wait_ = false;  // by the master, as it ended the call
  bool identified_ = false;
  SplitMix64 jitter_{1};
  std::unique_ptr<TlsThread> own_tls_;
  TlsExpected expected_;
  std::shared_ptr<const TlsOutcome> tls_outcome_;  // of the present connection
  std::unique_ptr<TcpConnector> connector_;
  std::unique_ptr<ClientCalls> calls_;
  std::shared_ptr<grpc::Channel> channel_;  // shared with its calls, by gRPC's own interface
  std::unique_ptr<v1::Rendezvous::Stub> stub_;
  AttendClientCall* call_ = nullptr;  // in calls_ until its kDone
  Handshake handshake_;
  std::string master_build_;
  std::optional<Join> join_;
  std::optional<Beat> beat_;
  std::optional<Leave> leave_;
  std::deque<FencePiece> fences_;  // of two fences at most, which kFenceBytesMax bounds
  ModexQueue modexes_;
  bool at_daemon_ = false;               // as the master that proved it last has said
  bool proved_ = false;                  // the master, on this connection
  bool heard_ = false;                   // a message of the master, on this connection
  std::optional<v1::AgentFrame> hello_;  // goes before them, with the Join if there is one
  std::optional<Admitted> admitted_;
  std::function<void()> stop_done_;
  std::unique_ptr<UvTimer> deadline_;
  Control control_{this};
  Output output_;
};

}  // namespace muster
