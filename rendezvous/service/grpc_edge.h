// The gRPC server without a listening port of its own: connections are handed to it, calls come out
// on the loop.
//
// Thread rule: every method and callback on the loop's thread.
#pragma once

#include <grpcpp/grpcpp.h>
#include <uv.h>

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

class GrpcEdge {
 public:
  // `handler` hears of every event of every call. At kDone it has to destroy the call.
  GrpcEdge(uv_loop_t* loop, std::function<void(const CallEvent&)> handler);
  ~GrpcEdge();  // after Shutdown's `done`, or never adopted

  // `peer` = the address that calls on this connection will be said to come from.
  void Adopt(UniqueFd socket, std::string peer);
  // What Adopt's `peer` was for the connection with gRPC's name `grpc_peer`.
  std::string PeerOf(const std::string& grpc_peer) const;
  // No new calls; those that are open must have been told to finish, and are cancelled after a
  // second. Then `done`.
  void Shutdown(std::function<void()> done);
  // Handles the events that have come.
  void Drain();

 private:
  class Service;
  struct Closing;
  void Start();

  uv_loop_t* const loop_;
  const std::function<void(const CallEvent&)> handler_;
  CallSink sink_;
  std::unique_ptr<UvAsync> wake_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::map<std::string, std::string>
      peers_;  // "fd:7" -> address; a descriptor's number is reused, so bounded
};

}  // namespace muster
