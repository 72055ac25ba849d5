// The gRPC server without a listening port of its own: connections are handed to it, calls come out
// on the loop.
//
// Thread rule: every method and callback on the loop's thread.
#pragma once

#include <grpcpp/grpcpp.h>
#include <uv.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "proto/base/unique_fd.h"
#include "proto/wire/muster.grpc.pb.h"
#include "proto/wire/uv_handles.h"
#include "rendezvous/service/server_call.h"

namespace muster {

using AttendCall = TypedServerCall<v1::AgentFrame, v1::MasterFrame>;
using StreamCall = TypedServerCall<v1::StreamUp, v1::StreamDown>;

// Who is at the far end of a connection.
struct EdgePeer {
  std::string address = {};  // that calls will be said to come from
  std::string channel = {};  // Handshake::channel
  uint64_t tls_id = 0;       // TlsDoor's; 0 = none
};

class GrpcEdge {
 public:
  // `handler` hears of every event of every call. At kDone it has to destroy the call.
  GrpcEdge(uv_loop_t* loop, std::function<void(const CallEvent&)> handler);
  ~GrpcEdge();  // after Shutdown's `done`, or neither prepared nor adopted

  // Sets gRPC up, some milliseconds that the first connection would wait for.
  void Prepare();
  void Adopt(UniqueFd socket, EdgePeer peer);
  // What Adopt's `peer` was for the connection with gRPC's name `grpc_peer`. Ask when the call
  // opens: names are used again.
  EdgePeer PeerOf(const std::string& grpc_peer) const;
  // No new calls; those that are open must have been told to finish, and are cancelled after a
  // second. Then `done`.
  void Shutdown(std::function<void()> done);
  // Handles the events that have come.
  void Drain();

 private:
  class Service;
  struct Closing;

  uv_loop_t* const loop_;
  const std::function<void(const CallEvent&)> handler_;
  CallSink sink_;
  std::unique_ptr<UvAsync> wake_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::map<std::string, EdgePeer> peers_;  // by "fd:7"; a descriptor's number is reused, so bounded
};

}  // namespace muster
