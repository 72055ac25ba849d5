// The door at which agents call that a scheduler has started (proto/wire/dial.h). Loop thread only;
// destroying it from one of its callbacks is not allowed.
#pragma once

#include <uv.h>

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/base/unique_fd.h"
#include "proto/tls/tls_door.h"
#include "proto/wire/dial.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class DialDoor {
 public:
  struct Callbacks {
    // Whether the agent of this node may come now; it has proven the secret.
    std::function<bool(const std::string& node)> may_come;
    // Both sides have. What comes next is the agent's ready line (bootstrap.h).
    std::function<void(const std::string& node, UniqueFd socket)> on_agent;
  };
  // `socket` listens.
  DialDoor(uv_loop_t* loop, UniqueFd socket, DialTicket ticket, Callbacks callbacks);

  const DialTicket& ticket() const { return ticket_; }
  // Agents that are yet to come: as many callers are heard at once, and a few strangers. 0: the
  // door is shut, whoever calls stays outside.
  void Await(size_t agents);

 private:
  // A connection that has not said yet which node it is.
  struct Caller {
    UniqueFd socket;
    std::string channel;  // TlsThread::Arrival's
    std::string nonce;
    std::string line;
    std::unique_ptr<UvPoll> poll;
    std::unique_ptr<UvTimer> timer;
  };
  using Callers = std::list<Caller>;

  void OnDoor();
  void OnTlsCaller(TlsDoor::Caller&& caller);
  void Greet(UniqueFd socket, std::string channel);
  void OnCaller(Callers::iterator at);
  void OnCall(Callers::iterator at);
  void Drop(Callers::iterator at, absl::string_view why);

  uv_loop_t* const loop_;
  const UniqueFd socket_;
  const DialTicket ticket_;
  const Callbacks callbacks_;
  size_t awaited_ = 0;
  size_t shaking_ = 0;            // with tls_
  std::unique_ptr<TlsDoor> tls_;  // null: --insecure, or nobody is awaited yet
  Callers callers_;
  UvPoll poll_;
  UvTimer again_;  // accepting
};

}  // namespace muster
