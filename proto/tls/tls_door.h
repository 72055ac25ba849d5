// Those who call over TLS, as the owner's loop sees them: shaken hands with on another thread.
//
// Thread rule: every method and the handler on the thread of the loop given.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/mailbox.h"
#include "proto/base/unique_fd.h"
#include "proto/tls/tls_thread.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class TlsDoor {
 public:
  struct Caller {
    std::string peer;                            // as given to Take
    absl::StatusOr<TlsThread::Arrival> arrival;  // or why it has not come in
  };
  // `hear`: callers have to speak first. `unproved_max`: TlsThread's.
  TlsDoor(uv_loop_t* loop, const TlsIdentity& identity, bool hear,
          std::function<void(Caller&&)> handler, size_t unproved_max = kUnprovedMax);
  TlsDoor(const TlsDoor&) = delete;
  TlsDoor& operator=(const TlsDoor&) = delete;
  ~TlsDoor() = default;  // as TlsThread's

  // It has to prove itself (Keep) `within` that time. `peer`: its address.
  void Take(UniqueFd socket, const std::string& peer, absl::Duration within);
  void Keep(uint64_t id) { thread_.Keep(id); }

 private:
  const bool hear_;
  const std::function<void(Caller&&)> handler_;
  UvAsync wake_;
  Mailbox<Caller> mailbox_;
  TlsThread thread_;  // first to go: it posts
};

}  // namespace muster
