#include "agent/io/peer_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/peer_socket.h"

namespace muster {

PeerConnection::PeerConnection(uv_loop_t* loop, UniqueFd socket, PeerHandshake handshake,
                               absl::Duration within,
                               std::function<void(const absl::Status&)> on_change)
    : socket_(std::move(socket)),
      handshake_(std::move(handshake)),
      on_change_(std::move(on_change)),
      out_(handshake_.TakeOutput()),
      timer_(loop, [this, within] {
        End(absl::DeadlineExceededError(
            absl::StrCat("it did not answer within ", absl::FormatDuration(within))));
      }) {
  SetPeerOptions(socket_.get());
  poll_.emplace(loop, socket_.get(), [this](int) { OnReady(); });
  poll_->Unref();
  timer_.Unref();
  timer_.StartAfter(within);
  Watch();
}

UniqueFd PeerConnection::TakeSocket() {
  poll_.reset();
  return std::move(socket_);
}

void PeerConnection::Accept() {
  handshake_.Accept();
  out_ += handshake_.TakeOutput();
  OnReady();
}

void PeerConnection::OnReady() {
  if (!Flush() || !Read() || !Flush()) {
    return;
  }
  if (handshake_.Done() && out_.empty()) {
    return End(absl::OkStatus());
  }
  Watch();
}

bool PeerConnection::Flush() {
  while (!out_.empty()) {
    const ssize_t n = send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      out_.erase(0, static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      End(absl::UnavailableError(std::strerror(errno)));
      return false;
    }
  }
  return true;
}

bool PeerConnection::Read() {
  while (handshake_.Wants() > 0) {
    char bytes[kPeerHelloBytes];
    const size_t room = std::min(sizeof(bytes), handshake_.Wants());  // H1
    const ssize_t n = recv(socket_.get(), bytes, room, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EAGAIN) {
      break;
    }
    if (n <= 0) {
      End(absl::UnavailableError(n == 0 ? "it closed the connection" : std::strerror(errno)));
      return false;
    }
    const absl::Status taken = handshake_.Take({bytes, static_cast<size_t>(n)});
    if (!taken.ok()) {
      End(taken);
      return false;
    }
    out_ += handshake_.TakeOutput();
    if (handshake_.Asks()) {
      poll_->Stop();
      const auto on_change = on_change_;
      on_change(absl::OkStatus());
      return false;  // Accept() goes on, or the owner has ended this
    }
  }
  return true;
}

void PeerConnection::Watch() {
  const int events = (out_.empty() ? 0 : UV_WRITABLE) | (handshake_.Wants() > 0 ? UV_READABLE : 0);
  poll_->Start(events);
}

void PeerConnection::End(const absl::Status& status) {
  poll_->Stop();
  timer_.Stop();
  const auto on_change = on_change_;  // the owner may destroy this object from inside
  on_change(status);
}

}  // namespace muster
