// The acceptor's side of the door.
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/io/peer_door.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

namespace muster {
namespace {

constexpr int kTakenAtOnce = 64;  // connections; then others of the loop have their turn
constexpr absl::Duration kAcceptPause = absl::Seconds(1);  // without descriptors

std::string AddressOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  char text[NI_MAXHOST] = "";
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (getpeername(socket, generic, &size) != 0 ||
      getnameinfo(generic, size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "an unknown address";
  }
  return text;
}

PeerPair PairOf(const PeerHello& hello) {
  return {hello.communicator, hello.to_rank, hello.from_rank, hello.channel};
}

}  // namespace

void PeerDoor::Listen(UniqueFd socket) {
  door_ = std::move(socket);
  if (listen(door_.get(), INT_MAX) != 0) {
    LogWarning(absl::StrCat("other nodes' workers cannot connect to this node's: listen: ",
                            std::strerror(errno)));
    return door_.Reset();
  }
  poll_.emplace(loop_, door_.get(), [this](int) { OnDoor(); });
  poll_->Start(UV_READABLE);
  poll_->Unref();
  // Those that were here before this round.
  for (auto at = unproven_.begin(); at != unproven_.end();) {
    const auto next = std::next(at);
    if (at->connection->handshake().Asks()) {
      Judge(at);
    }
    at = next;
  }
}

UniqueFd PeerDoor::TakeListening() {
  poll_.reset();
  return std::move(door_);
}

// Who speaks of a round that is yet to come may stay until then.
void PeerDoor::Unlisten() {
  poll_.reset();
  door_.Reset();
  again_.Stop();
  unproven_.remove_if([this](const Stranger& one) {
    const PeerHandshake& said = one.connection->handshake();
    return !said.Asks() || said.hello().round <= round_;
  });
}

void PeerDoor::OnDoor() {
  for (int i = 0; i < kTakenAtOnce && MayAccept(); ++i) {
    UniqueFd socket(accept4(door_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      if (unproven_.size() >= options_.unproven_max) {
        Drop(unproven_.begin(), "too many came after it before it had proven anything");
      }
      Take(std::move(socket));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      Say(absl::StrCat("a worker's connection cannot be accepted: ", std::strerror(errno),
                       ": raise `ulimit -n`"));
      poll_->Stop();
      again_.StartAfter(kAcceptPause);
    }
    return;  // ECONNABORTED and the like: if there are more, the loop says so
  }
}

// Many that come at once wait in the kernel's queue: those that are in need no more than a few
// round trips.
bool PeerDoor::MayAccept() {
  if (unproven_.size() < options_.unproven_max) {
    return true;
  }
  const absl::Time late = unproven_.front().since + options_.times.prove_soon;
  if (late <= BootNow()) {
    return true;
  }
  poll_->Stop();
  again_.StartAt(late);
  return false;
}

void PeerDoor::Take(UniqueFd socket) {
  absl::StatusOr<PeerHandshake::Secrets> secrets = Secrets();
  if (!secrets.ok()) {
    return Say(secrets.status().message());
  }
  const auto at = unproven_.insert(unproven_.end(), Stranger{BootNow(), nullptr});
  std::string from = AddressOf(socket.get());
  at->connection = std::make_unique<PeerConnection>(
      loop_, std::move(socket), PeerHandshake::Acceptor(*std::move(secrets)),
      options_.times.prove_within, [this, at, from](const absl::Status& status) {
        const PeerHandshake& said = at->connection->handshake();
        if (!status.ok()) {
          Drop(at, absl::StrCat("(from ", from, ") ", status.message()));
        } else if (said.Done()) {
          HandOver(at);
        } else if (said.Proven()) {
          JudgeProven(at);
        } else {
          Judge(at);
        }
      });
}

// Nothing is proven yet: this only keeps away whom nobody waits for.
void PeerDoor::Judge(Unproven::iterator at) {
  const PeerHello& hello = at->connection->handshake().hello();
  if (hello.round > round_) {
    return;  // a node that has heard of it before us; its time runs
  }
  if (hello.round < round_ || ranks_ == nullptr) {
    return Drop(at, "it is of a round that is over");
  }
  const std::optional<NodeRank> from = ranks_->NodeOf(Rank{hello.from_rank});
  if (!from.has_value() || *from >= me_) {
    return Drop(at, absl::StrCat("rank ", hello.from_rank, " does not connect to this node"));
  }
  if (!callbacks_.may_seek(hello.communicator, Rank{hello.to_rank})) {
    return Drop(at, absl::StrCat("rank ", hello.to_rank, " is not here, or has closed its ",
                                 "communicator"));
  }
  at->connection->Accept();
}

void PeerDoor::JudgeProven(Unproven::iterator at) {
  const PeerHello& hello = at->connection->handshake().hello();
  if (!callbacks_.may_seek(hello.communicator, Rank{hello.to_rank})) {
    return Drop(at, absl::StrCat("rank ", hello.to_rank, " has just gone"));
  }
  if (held_.size() >= kHeldMax && held_.count(PairOf(hello)) == 0) {
    return Drop(at, "too many wait for their workers already");
  }
  at->connection->Accept();
}

void PeerDoor::HandOver(Unproven::iterator at) {
  const PeerPair pair = PairOf(at->connection->handshake().hello());
  UniqueFd socket = at->connection->TakeSocket();
  Erase(at);
  if (seeks_.count(pair) != 0) {
    return Answer(pair, std::move(socket));
  }
  held_.insert_or_assign(pair, std::move(socket));  // the connector has given up an earlier one
}

void PeerDoor::Drop(Unproven::iterator at, absl::string_view why) {
  Say(absl::StrCat("a connection was refused: ", why));
  Erase(at);
}

void PeerDoor::Erase(Unproven::iterator at) {
  unproven_.erase(at);
  if (poll_.has_value()) {
    again_.Stop();
    poll_->Start(UV_READABLE);  // it may have waited for the place
  }
}

void PeerDoor::Say(absl::string_view what) {
  const absl::Time now = BootNow();
  if (now < said_ + options_.times.say_every) {
    ++unsaid_;
    return;
  }
  const uint64_t before = std::exchange(unsaid_, 0);
  LogWarning(absl::StrCat("port for other nodes' workers: ", what,
                          before == 0 ? "" : absl::StrCat(" (and ", before, " before it)")));
  said_ = now;
}

}  // namespace muster
