#include "agent/io/master_client.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/io/master_client_impl.h"
#include "proto/base/build_info.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/wire/convert.h"
#include "proto/wire/convert_fence.h"
#include "proto/wire/convert_modex.h"
#include "proto/wire/grpc_runtime.h"

namespace muster {
namespace {

constexpr absl::Duration kStopTime =
    absl::Milliseconds(800);  // Stop's `done` comes within a second
// A channel cannot be opened again, and the master may have a thousand to answer.
constexpr absl::Duration kChannelTime = absl::Seconds(60);
// Between tries to reach a master that comes back: its jobs run without it, for as long as leases
// last.
constexpr absl::Duration kReturnRetryMax = absl::Milliseconds(500);
// Each call has at most 4 events under way, and there are at most a few calls: the present two and
// dying ones.
constexpr size_t kClientEventsMax = 1024;

}  // namespace

uint64_t NewLife() {
  const absl::StatusOr<std::string> nonce = MakeNonce();
  if (!nonce.ok()) {
    return (static_cast<uint64_t>(getpid()) << 32) ^
           static_cast<uint64_t>(absl::ToUnixNanos(BootNow()));
  }
  uint64_t life = 0;
  std::memcpy(&life, nonce->data(), sizeof(life));
  return life;
}

MasterClient::MasterClient(uv_loop_t* loop, MasterClientOptions options)
    : impl_(std::make_unique<Impl>(loop, std::move(options))) {}
MasterClient::~MasterClient() = default;
MasterLink& MasterClient::link() { return impl_->control(); }
bool MasterClient::at_daemon() const { return impl_->at_daemon(); }
OutputLink& MasterClient::output() { return impl_->output(); }

ClientCalls::ClientCalls(uv_loop_t* loop, std::function<void(const ClientEvent&)> handler)
    : handler_(std::move(handler)), mailbox_(kClientEventsMax, [this] { wake_->Send(); }) {
  wake_ = std::make_unique<UvAsync>(loop, [this] {
    for (const ClientEvent& event : mailbox_.TakeAll()) {
      handler_(event);
      if (event.kind == ClientEventKind::kDone) {
        calls_.erase(event.call);
      }
    }
  });
}
ClientCalls::~ClientCalls() { CHECK(calls_.empty()); }

void ClientCalls::CancelAll() {
  for (const auto& [key, call] : calls_) {
    call->Cancel();
  }
}

void MasterClient::Impl::Control::Start(Callbacks callbacks) {
  CHECK(impl_->state_ == State::kIdle);
  impl_->callbacks_ = std::move(callbacks);
  impl_->deadline_ = std::make_unique<UvTimer>(impl_->loop_, [impl = impl_] { impl->Late(); });
  impl_->calls_ = std::make_unique<ClientCalls>(
      impl_->loop_, [impl = impl_](const ClientEvent& event) { impl->OnEvent(event); });
  impl_->jitter_ = SplitMix64(NewLife());
  impl_->Connect();
}

void MasterClient::Impl::Control::Send(AgentMessage message) {
  if (impl_->state_ != State::kUp) {
    return;
  }
  if (auto* join = std::get_if<Join>(&message)) {
    impl_->join_ = std::move(*join);
  } else if (auto* beat = std::get_if<Beat>(&message)) {
    impl_->beat_ = std::move(*beat);
  } else {
    impl_->leave_ = std::get<Leave>(std::move(message));
  }
  impl_->Pump();
}

void MasterClient::Impl::Control::SendFence(FencePiece piece) {
  if (impl_->state_ == State::kUp) {
    impl_->fences_.push_back(std::move(piece));
    impl_->Pump();
  }
}

void MasterClient::Impl::Control::SendModex(ModexNote note) {
  if (impl_->state_ == State::kUp) {
    impl_->modexes_.Push(std::move(note));
    impl_->Pump();
  }
}

void MasterClient::Impl::Control::Stop(std::function<void()> done) { impl_->Stop(std::move(done)); }
bool MasterClient::Impl::Control::IsFinal() const { return impl_->final_; }

MasterClient::Impl::Impl(uv_loop_t* loop, MasterClientOptions options)
    : loop_(loop),
      options_(std::move(options)),
      final_(options_.socket.valid()),
      turns_(options_.targets),
      silence_(final_          ? MasterSilence::Masters::kNoOther
               : turns_.many() ? MasterSilence::Masters::kSeveral
                               : MasterSilence::Masters::kOne,
               options_.silence_max),
      output_(loop, this) {}

void MasterClient::Impl::Connect() {
  state_ = State::kConnecting;
  if (final_) {
    Connected(std::move(options_.socket), options_.is_tcp);
    return;
  }
  connector_ = std::make_unique<TcpConnector>(loop_, turns_.target(), options_.connect_timeout,
                                              [this](absl::StatusOr<UniqueFd> socket) {
                                                connector_.reset();
                                                Connected(std::move(socket), true);
                                              });
}

void MasterClient::Impl::Connected(absl::StatusOr<UniqueFd> socket, bool is_tcp) {
  if (socket.ok() && is_tcp) {
    socket = Secure(*std::move(socket));
  }
  if (socket.ok()) {
    Open(*std::move(socket));
  } else {
    Down(std::string(socket.status().message()));
  }
}

void MasterClient::Impl::Open(UniqueFd socket) {
  KeepGrpcRunning();
  state_ = State::kHandshake;
  deadline_->StartAfter(final_ ? std::max(options_.connect_timeout, kChannelTime)
                               : options_.connect_timeout);
  const int flags = fcntl(socket.get(), F_GETFL);
  fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(kMessageBytesMax));
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  for (const auto& [name, value] : kTransportArguments) {
    arguments.SetInt(name, value);
  }
  channel_ = grpc::CreateCustomInsecureChannelFromFd("muster", socket.Release(), arguments);
  stub_ = v1::Rendezvous::NewStub(channel_);
  auto call = std::make_unique<AttendClientCall>(calls_->mailbox());
  call_ = call.get();
  calls_->Own(std::move(call));
  call_->Open([this](grpc::ClientContext* context, AttendClientCall* reactor) {
    stub_->async()->Attend(context, reactor);
  });
  if (!options_.nonce.empty()) {
    master_build_ = std::string(BuildName());  // else there were no bootstrap
    SayHello(options_.nonce);
    if (hello_.has_value()) {  // else the call is about to end
      Up();
      Pump();
    }
  }
}

void MasterClient::Impl::OnEvent(const ClientEvent& event) {
  if (output_.Owns(event.call)) {
    output_.OnEvent(event);
  } else if (event.call == call_) {
    switch (event.kind) {
      case ClientEventKind::kRead:
        HeardFrom();
        for (const v1::MasterFrame* frame = &call_->incoming();
             frame != nullptr && call_ != nullptr;
             frame = frame->has_next() ? &frame->next() : nullptr) {
          OnFrame(*frame);
        }
        Identify();
        if (call_ != nullptr && !call_->released()) {
          call_->Read();
        }
        break;
      case ClientEventKind::kWritten:
        call_->WriteEnded();
        Pump();
        break;
      case ClientEventKind::kWriteFailed:
      case ClientEventKind::kReadEnded:
        call_->Release();
        break;
      case ClientEventKind::kHalfClosed:
        break;
      case ClientEventKind::kDone: {
        const std::string why = call_->status().error_message();
        told_to_wait_ = proved_ && call_->status().error_code() == kAskAgain;
        call_ = nullptr;
        Ended(why.empty() ? "the master closed the connection" : why);
        break;
      }
    }
  } else if (event.kind == ClientEventKind::kReadEnded) {
    event.call->Release();  // a call of an earlier connection
  }
  if (event.kind == ClientEventKind::kDone && state_ == State::kStopping) {
    deadline_->StartAfter(absl::ZeroDuration());  // looks again when this call is destroyed
  }
}

void MasterClient::Impl::OnFrame(const v1::MasterFrame& frame) {
  const bool awaited = !frame.has_challenge() || options_.nonce.empty();
  if (!proved_ && (state_ == State::kHandshake || state_ == State::kUp)) {
    if (awaited) {
      OnHandshake(frame);
    }
    return;
  }
  if (state_ != State::kUp) {
    return;
  }
  if (frame.has_refusal()) {
    Refused(frame.refusal().reason());
    return;
  }
  if (frame.has_fence()) {
    absl::StatusOr<FencePiece> piece = FenceOf(frame.fence());
    return piece.ok() ? callbacks_.on_fence(*std::move(piece)) : call_->Cancel();
  }
  if (frame.has_modex()) {
    absl::StatusOr<ModexNote> note = ModexOf(frame.modex());
    return note.ok() ? callbacks_.on_modex(*std::move(note)) : call_->Cancel();
  }
  absl::StatusOr<MasterMessage> message = FromWire(frame);
  if (!message.ok()) {
    call_->Cancel();
    return;
  }
  if (const auto* admitted = std::get_if<Admitted>(&*message)) {
    admitted_ = *admitted;
    identified_ = false;
  }
  silence_.Heard(*message);
  HeardFrom();  // its silence may mean something else from now on
  heard_ = true;
  callbacks_.on_message(*message);
}

// After what the master said was done: a stream takes a while to open, and workers are to start.
// Any answer on this connection shows that the master knows it as ours.
void MasterClient::Impl::Identify() {
  if (heard_ && admitted_.has_value() && !identified_ && state_ == State::kUp) {
    identified_ = true;
    output_.OnIdentity({handshake_, admitted_->node, admitted_->incarnation});
  }
}

void MasterClient::Impl::OnHandshake(const v1::MasterFrame& frame) {
  if (frame.has_challenge() && handshake_.agent_nonce.empty()) {
    master_build_ = frame.challenge().build().substr(0, kNameBytesMax);
    SayHello(frame.challenge().nonce());
    Pump();
  } else if (frame.has_refusal()) {
    Refused(frame.refusal().reason());
  } else if (frame.has_welcome() && !handshake_.agent_nonce.empty()) {
    if (master_build_ != std::string(BuildName())) {
      Refused(absl::StrCat("this master is muster ", master_build_, ", ", options_.hostname,
                           " runs ", BuildName(), ": install the same build"));
    } else if (!ProofHolds(MasterProof(options_.secret, handshake_), frame.welcome().proof())) {
      Refused(absl::StrCat("what answers at ", Where(),
                           " does not know this job's secret: is it the master of this job?"));
    } else {
      proved_ = true;
      at_daemon_ = frame.welcome().is_daemon();
      TellProof();
      if (state_ == State::kHandshake) {
        Up();
      }
    }
  } else {
    call_->Cancel();  // not a master
  }
}

void MasterClient::Impl::Up() {
  state_ = State::kUp;
  was_up_ = true;
  silence_.Up();
  turns_.Answered();
  deadline_->Stop();
  HeardFrom();
  callbacks_.on_up();
}

void MasterClient::Impl::SayHello(const std::string& master_nonce) {
  const absl::StatusOr<std::string> nonce = MakeNonce();
  if (!nonce.ok() || master_nonce.size() != kNonceBytes) {
    call_->Cancel();
    return;
  }
  const TlsOutcome::Facts* tls = Tls();
  handshake_ = {master_nonce, *nonce, options_.job_id, tls == nullptr ? "" : tls->channel};
  hello_.emplace();
  v1::Hello* hello = hello_->mutable_hello();
  hello->set_protocol(kProtocolVersion);
  hello->set_build(std::string(BuildName()));
  hello->set_nonce(*nonce);
  hello->set_job_id(options_.job_id);
  hello->set_hostname(options_.hostname);
  hello->set_proof(AgentProof(options_.secret, handshake_));
  if (!options_.nonce.empty()) {
    hello->set_master_nonce(master_nonce);
  }
  *hello->mutable_terms() = ToWire(options_.terms);
}

void MasterClient::Impl::Pump() {
  if (call_ == nullptr || call_->writing() || call_->released() || call_->half_closed()) {
    return;
  }
  if (hello_.has_value()) {
    if (join_.has_value()) {
      *hello_->mutable_next() = ToWire(AgentMessage(*std::exchange(join_, std::nullopt)));
    }
    call_->Write(*std::exchange(hello_, std::nullopt));
  } else if (state_ == State::kHandshake) {
    return;
  } else if (join_.has_value()) {
    call_->Write(ToWire(AgentMessage(*std::exchange(join_, std::nullopt))));
  } else if (beat_.has_value()) {
    call_->Write(ToWire(AgentMessage(*std::exchange(beat_, std::nullopt))));
  } else if (!fences_.empty()) {
    v1::AgentFrame frame;
    SetFence(fences_.front(), frame.mutable_fence());
    fences_.pop_front();
    call_->Write(std::move(frame));
  } else if (!modexes_.empty()) {
    v1::AgentFrame frame;
    SetModex(modexes_.Pop(), frame.mutable_modex());
    call_->Write(std::move(frame));
  } else if (leave_.has_value()) {
    call_->Write(ToWire(AgentMessage(*std::exchange(leave_, std::nullopt))));
  } else if (state_ == State::kStopping) {
    call_->HalfClose();
  }
}

// The connection is over, or never came.
void MasterClient::Impl::Down(const std::string& why, bool believed) {
  if (state_ == State::kStopping || state_ == State::kStopped || state_ == State::kIdle) {
    return;
  }
  const bool was_up = std::exchange(was_up_, false);
  const bool told = std::exchange(told_to_wait_, false);
  stub_.reset();
  channel_.reset();
  handshake_ = {};
  proved_ = heard_ = false;
  hello_.reset();
  join_.reset();
  beat_.reset();
  leave_.reset();
  fences_.clear();
  modexes_.Clear();
  identified_ = false;
  deadline_->Stop();
  if (final_) {
    state_ = State::kWaiting;
    output_.OnLinkDown(why, true);
    callbacks_.on_down(why, told);
    return;
  }
  const bool returns = admitted_.has_value() && admitted_->journal;
  const TargetTurns::Next next = turns_.Failed(
      why, believed, options_.retry_min,
      returns ? std::min(kReturnRetryMax, options_.retry_max) : options_.retry_max, jitter_.Unit());
  if (next.none_believed) {
    return Refused(next.told);
  }
  state_ = State::kWaiting;
  deadline_->StartAfter(next.wait);
  output_.OnLinkDown(why, false);
  if (was_up) {
    callbacks_.on_down(why, told);
  } else if (callbacks_.on_try_failed && !next.told.empty()) {
    callbacks_.on_try_failed(next.told);
  }
}

void MasterClient::Impl::Refused(const std::string& reason) {
  state_ = State::kWaiting;  // without a timer: for good
  deadline_->Stop();
  Drop();
  output_.OnLinkDown(reason, true);
  callbacks_.on_message(muster::Refused{options_.life, reason});
}

// The one timer: the handshake took too long, the wait before a retry is over, the master is
// silent, or stopping took too long.
void MasterClient::Impl::Late() {
  switch (state_) {
    case State::kHandshake:
      Drop();
      Down(absl::StrCat("what listens at ", Where(), " does not answer like a muster master"));
      return;
    case State::kUp:
      Drop();
      Down(absl::StrCat(Where(), ": silent for ", ShortDuration(silence_.max())));
      return;
    case State::kWaiting:
      Connect();
      return;
    case State::kStopping:
      if (calls_ != nullptr) {
        calls_->CancelAll();
      }
      if (call_ != nullptr) {
        call_->Release();
      }
      CheckStopped();
      return;
    default:
      return;
  }
}

// What comes of the present call finds nobody.
void MasterClient::Impl::Drop() {
  if (call_ != nullptr) {
    call_->Cancel();
    call_->Release();
    call_ = nullptr;
  }
}

void MasterClient::Impl::HeardFrom() {
  if (state_ != State::kUp) {
    return;
  }
  if (silence_.max() == absl::InfiniteDuration()) {
    deadline_->Stop();
  } else {
    deadline_->StartAfter(silence_.max());
  }
}

std::string MasterClient::Impl::Where() const { return final_ ? "the channel" : turns_.target(); }

void MasterClient::Impl::Stop(std::function<void()> done) {
  CHECK(stop_done_ == nullptr);
  stop_done_ = std::move(done);
  if (deadline_ == nullptr) {  // never started
    deadline_ = std::make_unique<UvTimer>(loop_, [this] { Late(); });
  }
  const bool up = state_ == State::kUp;
  state_ = State::kStopping;
  connector_.reset();
  output_.Shut();
  if (up) {
    deadline_->StartAfter(kStopTime);
    Pump();  // what is queued, then the half close
  } else {
    deadline_->StartAfter(absl::ZeroDuration());
  }
}

void MasterClient::Impl::CheckStopped() {
  if (calls_ != nullptr && !calls_->empty()) {
    return;  // their kDone events come soon
  }
  if (stop_done_ != nullptr) {
    state_ = State::kStopped;
    stub_.reset();
    channel_.reset();
    std::exchange(stop_done_, nullptr)();
  }
}

}  // namespace muster
