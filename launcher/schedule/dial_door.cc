#include "launcher/schedule/dial_door.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/peer_address.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

constexpr absl::Duration kAcceptPause = absl::Seconds(1);  // without descriptors

bool SendLine(const UniqueFd& socket, const std::string& line) {
  // One of the first of its connection: there is room.
  return send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(line.size());
}

}  // namespace

DialDoor::DialDoor(uv_loop_t* loop, UniqueFd socket, DialTicket ticket, size_t agents,
                   Callbacks callbacks)
    : loop_(loop),
      socket_(std::move(socket)),
      ticket_(std::move(ticket)),
      callers_max_(agents + kStrangersMax),
      callbacks_(std::move(callbacks)),
      crowd_(callers_max_),
      poll_(loop, socket_.get(), [this](int) { OnDoor(); }),
      again_(loop, [this] { Await(awaited_); }) {}

void DialDoor::Await(size_t agents) {
  awaited_ = agents;
  if (agents > 0 && tls_ == nullptr && !ticket_.secret.empty()) {
    tls_ = std::make_unique<TlsDoor>(
        loop_, TlsIdentity::OfSecret(ticket_.secret), /*hear=*/false,
        [this](TlsDoor::Caller&& caller) { OnTlsCaller(std::move(caller)); }, callers_max_);
  }
  if (agents == 0) {
    poll_.Stop();
    again_.Stop();
    while (!callers_.empty()) {
      Drop(callers_.begin()->first, "nobody is awaited any more");
    }
  } else if (!again_.active()) {
    poll_.Start(UV_READABLE);
  }
}

void DialDoor::OnDoor() {
  UniqueFd socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
    LogWarning(absl::StrCat("a node's call cannot be accepted: ", std::strerror(errno),
                            ": raise `ulimit -n`"));
    poll_.Stop();
    again_.StartAfter(kAcceptPause);
  }
  if (!socket.valid()) {
    return;
  }
  const int on = 1;  // else small messages wait for the other side's delayed ACK, 40 ms
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const std::string peer = PeerAddress(socket.get());
  if (tls_ == nullptr) {
    Caller caller;
    caller.socket = std::move(socket);
    return Greet(std::move(caller), peer);
  }
  tls_->Take(std::move(socket), peer, kProveWithin);
}

void DialDoor::OnTlsCaller(TlsDoor::Caller&& caller) {
  if (!caller.arrival.ok()) {
    LogDebug(absl::StrCat("a caller is dropped: ", caller.arrival.status().message()));
  } else if (awaited_ > 0) {
    Caller arrived;
    arrived.socket = std::move(caller.arrival->inner);
    arrived.tls_id = caller.arrival->id;
    arrived.channel = std::move(caller.arrival->channel);
    Greet(std::move(arrived), caller.peer);
  }
}

void DialDoor::Greet(Caller arrived, const std::string& peer) {
  absl::StatusOr<std::string> nonce = MakeNonce();
  if (!nonce.ok()) {
    return;  // it tries again
  }
  const uint64_t id = ++next_id_;
  if (const std::optional<uint64_t> gone = crowd_.Enter(id, peer)) {
    Drop(*gone, "others want to be heard");
  }
  Caller& caller = callers_[id] = std::move(arrived);
  caller.nonce = *std::move(nonce);
  if (!SendLine(caller.socket, DialGreeting(caller.nonce))) {
    return Drop(id, "it has closed the connection");
  }
  caller.poll =
      std::make_unique<UvPoll>(loop_, caller.socket.get(), [this, id](int) { OnCaller(id); });
  caller.poll->Start(UV_READABLE);
  caller.timer = std::make_unique<UvTimer>(
      loop_, [this, id] { Drop(id, "it does not say which node it is"); });
  caller.timer->StartAfter(kProveWithin);
}

void DialDoor::OnCaller(uint64_t id) {
  Caller& caller = callers_.at(id);
  char bytes[kDialLineBytesMax];
  const ssize_t n = recv(caller.socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (n <= 0) {
    return Drop(id, "it has closed the connection");
  }
  caller.line.append(bytes, static_cast<size_t>(n));
  const size_t end = caller.line.find('\n');
  if (end == std::string::npos && caller.line.size() <= kDialLineBytesMax) {
    return;
  }
  if (end + 1 != caller.line.size()) {
    return Drop(id, "what it says is not one line");
  }
  caller.line.pop_back();
  OnCall(id);
}

void DialDoor::OnCall(uint64_t id) {
  Caller& at = callers_.at(id);
  const absl::StatusOr<DialCaller> caller = TakeCall(ticket_, at.nonce, at.line, at.channel);
  if (!caller.ok()) {
    return Drop(id, caller.status().message());
  }
  if (!callbacks_.may_come(caller->node)) {
    return Drop(id, absl::StrCat("no agent of '", caller->node, "' is awaited"));
  }
  if (!SendLine(at.socket, caller->answer)) {
    return Drop(id, "it has closed the connection");
  }
  if (tls_ != nullptr) {
    tls_->Keep(at.tls_id);
  }
  at.poll.reset();
  UniqueFd socket = std::move(at.socket);
  crowd_.Leave(id);
  callers_.erase(id);
  callbacks_.on_agent(caller->node, std::move(socket));
}

void DialDoor::Drop(uint64_t id, absl::string_view why) {
  LogDebug(absl::StrCat("a caller is dropped: ", why));
  crowd_.Leave(id);
  callers_.erase(id);
}

}  // namespace muster
