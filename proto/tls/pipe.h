// Bytes between a TLS connection and a socket of this process, both ways, each through one bounded
// buffer. No thread of its own: whoever owns it calls Turn when a descriptor that it waits for is
// ready.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "proto/base/unique_fd.h"
#include "proto/tls/session.h"

namespace muster {

inline constexpr size_t kTlsRecordBytes = 16u << 10;  // RFC 8446 section 5.1; each way, at most

// For UvPoll; 0 = nothing.
struct TlsWaits {
  int socket = 0;
  int inner = 0;
  bool operator==(const TlsWaits&) const = default;
};

class TlsPipe {
 public:
  enum class Stage { kShaking, kListening, kCarrying, kOver };

  // `hear`: the far side has to speak first, and until then nothing is asked of this one.
  TlsPipe(UniqueFd socket, TlsSession session, bool hear)
      : socket_(std::move(socket)), session_(std::move(session)), hear_(hear) {}

  Stage stage() const { return stage_; }
  int socket() const { return socket_.get(); }
  int inner() const { return inner_.get(); }
  const TlsSession& session() const { return session_; }
  // The handshake is through, and what `hear` asks has come.
  bool ready() const { return ready_; }

  // So much of what the far side says goes on; the rest stays in its socket until more may.
  void SetDownMax(size_t bytes) { down_left_ = bytes; }
  // Before kCarrying can begin: the socket that leads to the rest of this process.
  void SetInner(UniqueFd inner);
  // What can be done now, though not for ever: others wait. Where it turns ready(), nothing more:
  // call it again. `scratch`: kTlsRecordBytes.
  void Turn(char* scratch);
  TlsWaits Waits() const;

 private:
  void Shake();
  bool MoveUp(char* scratch);    // from inside to the far side; whether anything moved
  bool MoveDown(char* scratch);  // the other way
  bool SendUp(const char* bytes, size_t size);
  bool SendDown(const char* bytes, size_t size);

  UniqueFd socket_;
  UniqueFd inner_;
  TlsSession session_;  // of socket_
  const bool hear_;
  Stage stage_ = Stage::kShaking;
  bool ready_ = false;
  bool shaking_writes_ = false;
  bool reading_writes_ = false;  // TLS has to answer something before it reads on
  std::string up_;               // read inside, not yet written
  std::string down_;
  size_t down_left_ = std::numeric_limits<size_t>::max();  // to be read
  bool inner_ended_ = false;
  bool socket_ended_ = false;
};

}  // namespace muster
