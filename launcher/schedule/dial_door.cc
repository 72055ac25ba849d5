#include "launcher/schedule/dial_door.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/base/log.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

constexpr size_t kStrangersMax = 64;
constexpr absl::Duration kProveWithin = absl::Seconds(10);
constexpr absl::Duration kAcceptPause = absl::Seconds(1);  // without descriptors

bool SendLine(const UniqueFd& socket, const std::string& line) {
  // One of the first of its connection: there is room.
  return send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(line.size());
}

}  // namespace

DialDoor::DialDoor(uv_loop_t* loop, UniqueFd socket, DialTicket ticket, Callbacks callbacks)
    : loop_(loop),
      socket_(std::move(socket)),
      ticket_(std::move(ticket)),
      callbacks_(std::move(callbacks)),
      poll_(loop, socket_.get(), [this](int) { OnDoor(); }),
      again_(loop, [this] { Await(awaited_); }) {}

void DialDoor::Await(size_t agents) {
  awaited_ = agents;
  if (agents > 0 && tls_ == nullptr && !ticket_.secret.empty()) {
    tls_ = std::make_unique<TlsDoor>(
        loop_, TlsIdentity::OfSecret(ticket_.secret), /*hear=*/false,
        [this](TlsDoor::Caller&& caller) { OnTlsCaller(std::move(caller)); });
  }
  if (agents == 0) {
    poll_.Stop();
    again_.Stop();
    callers_.clear();
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
  if (!socket.valid() || shaking_ + callers_.size() >= awaited_ + kStrangersMax) {
    return;  // it tries again
  }
  const int on = 1;  // else small messages wait for the other side's delayed ACK, 40 ms
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (tls_ == nullptr) {
    return Greet(std::move(socket), "");
  }
  ++shaking_;
  tls_->Take(std::move(socket), "", kProveWithin);
}

void DialDoor::OnTlsCaller(TlsDoor::Caller&& caller) {
  --shaking_;
  if (!caller.arrival.ok()) {
    LogDebug(absl::StrCat("a caller is dropped: ", caller.arrival.status().message()));
  } else if (awaited_ > 0) {
    tls_->Keep(caller.arrival->id);  // our own timer goes on from here
    Greet(std::move(caller.arrival->inner), std::move(caller.arrival->channel));
  }
}

void DialDoor::Greet(UniqueFd socket, std::string channel) {
  absl::StatusOr<std::string> nonce = MakeNonce();
  if (!nonce.ok()) {
    return;  // it tries again
  }
  const auto at = callers_.insert(callers_.end(), Caller{});
  at->socket = std::move(socket);
  at->channel = std::move(channel);
  at->nonce = *std::move(nonce);
  if (!SendLine(at->socket, DialGreeting(at->nonce))) {
    return Drop(at, "it has closed the connection");
  }
  at->poll = std::make_unique<UvPoll>(loop_, at->socket.get(), [this, at](int) { OnCaller(at); });
  at->poll->Start(UV_READABLE);
  at->timer = std::make_unique<UvTimer>(
      loop_, [this, at] { Drop(at, "it does not say which node it is"); });
  at->timer->StartAfter(kProveWithin);
}

void DialDoor::OnCaller(Callers::iterator at) {
  char bytes[kDialLineBytesMax];
  const ssize_t n = recv(at->socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (n <= 0) {
    return Drop(at, "it has closed the connection");
  }
  at->line.append(bytes, static_cast<size_t>(n));
  const size_t end = at->line.find('\n');
  if (end == std::string::npos && at->line.size() <= kDialLineBytesMax) {
    return;
  }
  if (end + 1 != at->line.size()) {
    return Drop(at, "what it says is not one line");
  }
  at->line.pop_back();
  OnCall(at);
}

void DialDoor::OnCall(Callers::iterator at) {
  const absl::StatusOr<DialCaller> caller = TakeCall(ticket_, at->nonce, at->line, at->channel);
  if (!caller.ok()) {
    return Drop(at, caller.status().message());
  }
  if (!callbacks_.may_come(caller->node)) {
    return Drop(at, absl::StrCat("no agent of '", caller->node, "' is awaited"));
  }
  if (!SendLine(at->socket, caller->answer)) {
    return Drop(at, "it has closed the connection");
  }
  at->poll.reset();
  UniqueFd socket = std::move(at->socket);
  callers_.erase(at);
  callbacks_.on_agent(caller->node, std::move(socket));
}

void DialDoor::Drop(Callers::iterator at, absl::string_view why) {
  LogDebug(absl::StrCat("a caller is dropped: ", why));
  callers_.erase(at);
}

}  // namespace muster
