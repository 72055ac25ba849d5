// The thread that speaks TLS for a process: handshakes and ciphers keep off its loop. What it is
// given is a connected TCP socket; what it gives back is a socket of this process, on which comes
// and goes in the clear what the far side sends and gets.
//
// Thread rule: every public method on one thread, that of the owner; callbacks on the thread of
// TLS.
// Invariants (cited by tests):
//  R1 what has not proved itself (Keep) is cut when its time is over, and at most so many such
//     connections as its maker says are held: one more costs the source that has most its oldest
//     (crowd.h). Before its handshake is through, and its first byte has come where that is asked,
//     a connection costs one descriptor and the state of TLS, some 20 kB, and nobody else hears of
//     it; and of what it says no more than kUnprovedBytesMax goes on;
//  R2 a connection whose inner socket is closed sends what was written to it, for at most
//     kLingerTime, and ends;
//     Either end of a connection tells the other, whatever processes were forked meanwhile;
//  R3 each way at most kTlsRecordBytes of a connection are held.
#pragma once

#include <uv.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/crowd.h"
#include "proto/base/mailbox.h"
#include "proto/base/unique_fd.h"
#include "proto/tls/identity.h"
#include "proto/tls/pipe.h"
#include "proto/tls/session.h"
#include "proto/wire/uv_handles.h"

namespace muster {

inline constexpr size_t kUnprovedMax = 2048;
// What such a connection may bring: what proves it, many times over.
inline constexpr size_t kUnprovedBytesMax = 64u << 10;
inline constexpr absl::Duration kLingerTime = absl::Seconds(5);
inline constexpr absl::Duration kDrainTime = absl::Seconds(1);

// What became of a handshake that this side began. Shared by the thread of TLS, which writes it
// once, and the caller of Connect, who may give up before.
class TlsOutcome {
 public:
  struct Facts {
    absl::Status status;  // as TlsSession::failure; Unavailable too when its time was over
    std::string channel;  // as TlsSession's, where the handshake is through
    // As TlsSession's, also of a server that was refused; "" and false where none has shown a key.
    std::string fingerprint;
    bool is_site = false;
  };
  // Null while the handshake goes on.
  const Facts* facts() const {
    return settled_.load(std::memory_order_acquire) ? &facts_ : nullptr;
  }

 private:
  friend class TlsThread;
  void Settle(Facts facts) {
    facts_ = std::move(facts);
    settled_.store(true, std::memory_order_release);
  }
  Facts facts_;
  std::atomic<bool> settled_{false};
};

class TlsThread {
 public:
  // One that has come and may be heard.
  struct Arrival {
    uint64_t id = 0;
    UniqueFd inner;
    std::string channel;
  };
  using OnArrival = std::function<void(absl::StatusOr<Arrival>)>;
  struct Dialed {
    UniqueFd inner;  // can be written to at once; what is written waits for the handshake
    std::shared_ptr<const TlsOutcome> outcome;
  };

  // `identity`: of one that is called, too; copied.
  explicit TlsThread(const TlsIdentity* identity = nullptr, size_t unproved_max = kUnprovedMax);
  ~TlsThread();  // sends what was written before, within kDrainTime: close inner sockets first
  TlsThread(const TlsThread&) = delete;
  TlsThread& operator=(const TlsThread&) = delete;

  // Calls whoever is at the far end of `socket`.
  absl::StatusOr<Dialed> Connect(UniqueFd socket, TlsExpected expected, absl::Duration within);
  // One that has called. `source`: from where, as an address. `hear`: it has to speak first.
  // `within`: until Keep.
  void Accept(UniqueFd socket, std::string source, bool hear, absl::Duration within,
              OnArrival on_arrival);
  // It has proved itself.
  void Keep(uint64_t id);

  // No thread until Resume, so that this process may fork; connections wait.
  void Rest();
  void Resume();

 private:
  struct Connection;
  struct Command {
    enum Kind { kAccept, kConnect, kKeep, kRest, kEnd } kind = kRest;
    uint64_t id = 0;
    UniqueFd socket;
    UniqueFd inner;
    TlsExpected expected;
    std::string source;
    bool hear = false;
    absl::Duration within;
    OnArrival on_arrival;
    std::shared_ptr<TlsOutcome> outcome;
  };
  bool Tell(Command command);  // of a connection; false: there is no room
  // All below: the thread's.
  void Do(Command& command);
  void Add(std::unique_ptr<Connection> connection, absl::Duration within);
  void Turn(uint64_t id);
  void Watch(Connection& connection);
  void Arrive(Connection& connection);
  void Drop(uint64_t id, const absl::Status& why);
  void SetDeadline(Connection& connection, absl::Time deadline);
  void CutLate();
  void End();
  const std::unique_ptr<const TlsContext> server_;  // null: nobody calls
  const TlsContext client_;
  uv_loop_t loop_{};
  std::unique_ptr<UvAsync> wake_;
  std::unique_ptr<UvTimer> timer_;
  Mailbox<Command> mailbox_;
  std::deque<Command> taken_;  // out of it, in order; no more until they are done
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
  std::set<std::pair<absl::Time, uint64_t>> deadlines_;  // of those that have one
  Crowd unproved_;                                       // those that have called
  const std::unique_ptr<char[]> scratch_;
  bool ending_ = false;
  uint64_t next_id_ = 0;  // the owner's
  std::thread thread_;
};

}  // namespace muster
