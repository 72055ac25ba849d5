#include "rendezvous/service/grpc_edge.h"

#include <fcntl.h>
#include <grpcpp/server_posix.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/wire/grpc_runtime.h"

namespace muster {
namespace {

// One more call than we are ready to hold: ends itself.
template <typename Up, typename Down>
class RefusedCall final : public grpc::ServerBidiReactor<Up, Down> {
 public:
  // gRPC has no owner for a reactor but itself.
  static RefusedCall* Make() { return std::make_unique<RefusedCall>().release(); }
  RefusedCall() {
    this->Finish(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                              absl::StrCat("this master has ", kCallsMax, " calls open")));
  }
  void OnDone() override { const std::unique_ptr<RefusedCall> self(this); }
};

template <typename Up, typename Down>
grpc::ServerBidiReactor<Up, Down>* MakeCall(CallSink* sink, const grpc::CallbackServerContext& c) {
  if (sink->calls.fetch_add(1) >= kCallsMax) {
    sink->calls.fetch_sub(1);
    return RefusedCall<Up, Down>::Make();
  }
  auto call = std::make_unique<TypedServerCall<Up, Down>>(sink, c.peer());
  call->Announce();
  return call.release();  // the loop's from here on (V2)
}

}  // namespace

class GrpcEdge::Service final : public v1::Rendezvous::CallbackService {
 public:
  explicit Service(CallSink* sink) : sink_(sink) {}

  grpc::ServerBidiReactor<v1::AgentFrame, v1::MasterFrame>* Attend(
      grpc::CallbackServerContext* context) override {
    return MakeCall<v1::AgentFrame, v1::MasterFrame>(sink_, *context);
  }
  grpc::ServerBidiReactor<v1::StreamUp, v1::StreamDown>* Streams(
      grpc::CallbackServerContext* context) override {
    return MakeCall<v1::StreamUp, v1::StreamDown>(sink_, *context);
  }

 private:
  CallSink* const sink_;  // the edge's, which outlives the server
};

// gRPC's shutdown blocks until every call has ended, and that needs the loop: it waits on another
// thread.
struct GrpcEdge::Closing {
  uv_work_t work{};
  std::unique_ptr<grpc::Server> server;
  std::function<void()> done;
};

GrpcEdge::GrpcEdge(uv_loop_t* loop, std::function<void(const CallEvent&)> handler)
    : loop_(loop), handler_(std::move(handler)), sink_([this] { wake_->Send(); }) {
  wake_ = std::make_unique<UvAsync>(loop, [this] { Drain(); });
}

void GrpcEdge::Drain() {
  for (const CallEvent& event : sink_.mailbox.TakeAll()) {
    handler_(event);
  }
}

GrpcEdge::~GrpcEdge() { CHECK(server_ == nullptr && sink_.calls.load() == 0); }

void GrpcEdge::Prepare() {
  if (server_ != nullptr) {
    return;
  }
  KeepGrpcRunning();
  service_ = std::make_unique<Service>(&sink_);
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMessageBytesMax));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             60 * 1000);                            // a connection without calls
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 16);  // of one agent: two
  for (const auto& [name, value] : kTransportArguments) {
    builder.AddChannelArgument(name, value);
  }
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  CHECK(server_ != nullptr);  // nothing is bound here, so nothing can fail
}

void GrpcEdge::Adopt(UniqueFd socket, EdgePeer peer) {
  Prepare();
  const int flags = fcntl(socket.get(), F_GETFL);
  fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK);
  // The name gRPC gives to such a connection; a call that comes on it carries it as its peer.
  peers_[absl::StrCat("fd:", socket.get())] = std::move(peer);
  grpc::AddInsecureChannelFromFd(server_.get(), socket.Release());
}

EdgePeer GrpcEdge::PeerOf(const std::string& grpc_peer) const {
  const auto it = peers_.find(grpc_peer);
  return it == peers_.end() ? EdgePeer() : it->second;
}

void GrpcEdge::Shutdown(std::function<void()> done) {
  auto closing = std::make_unique<Closing>();
  closing->server = std::move(server_);
  closing->done = std::move(done);
  closing->work.data = closing.get();
  const int error = uv_queue_work(
      loop_, &closing.release()->work,
      [](uv_work_t* work) {
        auto* self = static_cast<Closing*>(work->data);
        if (self->server != nullptr) {
          self->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
          self->server.reset();
        }
      },
      [](uv_work_t* work, int) {
        const std::unique_ptr<Closing> self(static_cast<Closing*>(work->data));
        self->done();
      });
  CHECK(error == 0);
}

}  // namespace muster
