#include "agent/io/ship_giver.h"

#include <sys/sendfile.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/base/clock.h"
#include "proto/base/peer_socket.h"
#include "proto/base/status_macros.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

constexpr size_t kBytesATurn = 1u << 20;

}  // namespace

PeerHello ShipHello(const ShipTerms& terms) {
  PeerHello hello;
  for (size_t i = 0; i < sizeof(hello.communicator); ++i) {
    hello.communicator = (hello.communicator << 8) | static_cast<uint8_t>(terms.digest.at(i));
  }
  return hello;
}

absl::StatusOr<PeerHandshake::Secrets> ShipSecrets(const std::string& secret,
                                                   const std::string& job_id) {
  PeerHandshake::Secrets out;
  ASSIGN_OR_RETURN(out.nonce, MakeNonce());
  out.job_id = job_id;
  out.mac = [secret](absl::string_view text) { return HmacSha256(secret, text); };
  return out;
}

void ShipGiver::Watch(std::vector<pollfd>& fds) const {
  fds.push_back({listening_.get(), POLLIN, 0});
  for (const Taker& taker : takers_) {
    const bool sends = !taker.out.empty() || taker.handshake.Done();
    const bool reads = taker.handshake.Wants() > 0;
    fds.push_back({taker.socket.get(),
                   static_cast<int16_t>((sends ? POLLOUT : 0) | (reads ? POLLIN : 0)), 0});
  }
}

void ShipGiver::Go(const pollfd* fds) {
  const bool calls = fds->revents != 0;
  const absl::Time now = BootNow();
  for (auto taker = takers_.begin(); taker != takers_.end();) {
    ++fds;
    const bool stays = GoOn(*taker, fds->revents) && now - taker->moved < kStallMax;
    taker = stays ? std::next(taker) : takers_.erase(taker);
  }
  if (calls) {
    Accept();
  }
}

void ShipGiver::Accept() {
  UniqueFd socket(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  absl::StatusOr<PeerHandshake::Secrets> secrets = ShipSecrets(secret_, job_id_);
  if (!socket.valid() || !secrets.ok() || takers_.size() >= kTakersMax) {
    return;
  }
  SetPeerOptions(socket.get());
  takers_.push_back(
      {std::move(socket), PeerHandshake::Acceptor(*std::move(secrets)), "", 0, BootNow()});
}

bool ShipGiver::GoOn(Taker& taker, short events) {
  if (events == 0) {
    return true;
  }
  if (!taker.handshake.Done() && !Talk(taker)) {
    return false;
  }
  return Flush(taker) && (!taker.handshake.Done() || !taker.out.empty() || SendBytes(taker));
}

bool ShipGiver::Talk(Taker& taker) {
  while (taker.handshake.Wants() > 0) {
    char bytes[kPeerHelloBytes];
    const size_t room = std::min(sizeof(bytes), taker.handshake.Wants());
    const ssize_t n = recv(taker.socket.get(), bytes, room, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      return true;
    }
    if (n <= 0 || !taker.handshake.Take({bytes, static_cast<size_t>(n)}).ok()) {
      return false;
    }
    taker.moved = BootNow();
    if (taker.handshake.Asks()) {
      if (!(taker.handshake.hello() == ShipHello(terms_))) {
        return false;
      }
      taker.handshake.Accept();
    }
    taker.out += taker.handshake.TakeOutput();
  }
  return true;
}

bool ShipGiver::Flush(Taker& taker) {
  while (!taker.out.empty()) {
    const ssize_t n =
        send(taker.socket.get(), taker.out.data(), taker.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      return errno == EAGAIN || errno == EINTR;
    }
    taker.out.erase(0, static_cast<size_t>(n));
  }
  return true;
}

// The other side closes when it has them all.
bool ShipGiver::SendBytes(Taker& taker) {
  auto at = static_cast<off_t>(taker.sent);
  const ssize_t n = sendfile(taker.socket.get(), archive_, &at,
                             std::min<uint64_t>(terms_.bytes - taker.sent, kBytesATurn));
  if (n < 0) {
    return errno == EAGAIN || errno == EINTR;
  }
  taker.sent += static_cast<uint64_t>(n);
  taker.moved = BootNow();
  return taker.sent < terms_.bytes;
}

}  // namespace muster
