// The door at which agents call that a scheduler has started (proto/wire/dial.h). Loop thread only;
// destroying it from one of its callbacks is not allowed.
//
// Bounded: as many callers as there are agents, and kStrangersMax, may be without a proof, each for
// kProveWithin; one more costs the address that has most its oldest (crowd.h), in TlsThread where
// there is TLS.
#pragma once

#include <uv.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/crowd.h"
#include "proto/base/unique_fd.h"
#include "proto/tls/tls_door.h"
#include "proto/wire/dial.h"
#include "proto/wire/uv_handles.h"

namespace muster {

inline constexpr size_t kStrangersMax = 64;
inline constexpr absl::Duration kProveWithin = absl::Seconds(10);

class DialDoor {
 public:
  struct Callbacks {
    // Whether the agent of this node may come now; it has proven the secret.
    std::function<bool(const std::string& node)> may_come;
    // Both sides have. What comes next is the agent's ready line (bootstrap.h).
    std::function<void(const std::string& node, UniqueFd socket)> on_agent;
  };
  // `socket` listens; `agents` may call at once.
  DialDoor(uv_loop_t* loop, UniqueFd socket, DialTicket ticket, size_t agents, Callbacks callbacks);

  const DialTicket& ticket() const { return ticket_; }
  // Agents that are yet to come. 0: the door is shut, whoever calls stays outside.
  void Await(size_t agents);

 private:
  // A connection that has not said yet which node it is.
  struct Caller {
    UniqueFd socket;
    uint64_t tls_id = 0;  // this and the next: TlsThread::Arrival's; 0 and "": no TLS
    std::string channel;
    std::string nonce;
    std::string line;
    std::unique_ptr<UvPoll> poll;
    std::unique_ptr<UvTimer> timer;
  };

  void OnDoor();
  void OnTlsCaller(TlsDoor::Caller&& caller);
  void Greet(Caller caller, const std::string& peer);
  void OnCaller(uint64_t id);
  void OnCall(uint64_t id);
  void Drop(uint64_t id, absl::string_view why);

  uv_loop_t* const loop_;
  const UniqueFd socket_;
  const DialTicket ticket_;
  const size_t callers_max_;
  const Callbacks callbacks_;
  size_t awaited_ = 0;
  std::unique_ptr<TlsDoor> tls_;  // null: --insecure, or nobody is awaited yet
  uint64_t next_id_ = 0;
  std::map<uint64_t, Caller> callers_;
  Crowd crowd_;  // the same
  UvPoll poll_;
  UvTimer again_;  // accepting
};

}  // namespace muster
