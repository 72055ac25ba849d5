// A TCP connection on which two agents assure each other (agent/core/peer_handshake.h), until their
// workers may have it. Loop thread only; does not keep the loop running.
#pragma once

#include <uv.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/core/peer_handshake.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class PeerConnection {
 public:
  // `on_change` comes when the acceptor's side Asks(), and once at the end: OK = Done(), the socket
  // may be taken; else why not. Never from inside the constructor; Accept() may call it. It
  // may destroy this object.
  PeerConnection(uv_loop_t* loop, UniqueFd socket, PeerHandshake handshake, absl::Duration within,
                 std::function<void(const absl::Status&)> on_change);
  PeerConnection(const PeerConnection&) = delete;
  PeerConnection& operator=(const PeerConnection&) = delete;

  const PeerHandshake& handshake() const { return handshake_; }
  void Accept();
  // After the end. Nothing beyond the handshake has been read from it.
  UniqueFd TakeSocket();

 private:
  void OnReady();
  // Whether it goes on.
  bool Read();
  bool Flush();
  void Watch();
  void End(const absl::Status& status);

  UniqueFd socket_;
  PeerHandshake handshake_;
  const std::function<void(const absl::Status&)> on_change_;
  std::string out_;             // not sent yet
  std::optional<UvPoll> poll_;  // closed before `socket_`
  UvTimer timer_;
};

}  // namespace muster
