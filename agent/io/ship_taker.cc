#include "agent/io/ship_taker.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/io/ship_giver.h"
#include "agent/io/torch_store_port.h"
#include "proto/base/clock.h"
#include "proto/base/connect_tcp.h"
#include "proto/base/peer_socket.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/ship/lines.h"
#include "proto/ship/sha256.h"

namespace muster {
namespace {

constexpr size_t kPieceBytes = 256u << 10;
constexpr absl::Duration kConnectWithin = absl::Seconds(5);
// Of another agent's bytes; launch's own may take longer, as the line is the user's.
constexpr absl::Duration kStallMax = absl::Seconds(10);

absl::Status LaunchGone() {
  return absl::CancelledError("launch went away while the shipped files were on their way");
}

absl::Status FullDisk(const std::string& root, const ShipTerms& terms, int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat("no room for the shipped files (", terms.bytes, " bytes, twice) in ", root, ": ",
                   std::strerror(error), "; name a larger folder: -x TMPDIR=FOLDER"));
}

class Taker {
 public:
  explicit Taker(const ShipTakerOptions& options) : o_(options) {}

  absl::StatusOr<ShippedFolder> Run() {
    absl::StatusOr<ShippedFolder> folder = Get();
    const absl::Status given = folder.ok() ? Give() : folder.status();
    if (given.ok()) {
      return folder;
    }
    if (folder.ok()) {
      folder->Remove();
    }
    if (!absl::IsCancelled(given)) {
      const absl::Status told = Say({ShipNews::Kind::kFailed, "", 0, std::string(given.message())});
      return told.ok() ? given : told;
    }
    return given;
  }

 private:
  absl::StatusOr<ShippedFolder> Get() {
    ASSIGN_OR_RETURN(archive_, MakeArchiveFile(o_.root));
    while (true) {
      ASSIGN_OR_RETURN(const ShipOrder order, NextOrder());
      if (order.kind == ShipOrder::Kind::kTake) {
        RETURN_IF_ERROR(ReadArchive(o_.in, kShipSilenceMax));
        break;
      }
      if (order.kind == ShipOrder::Kind::kGoOn) {
        return absl::InternalError("launch goes on without having sent the files");
      }
      if (order.kind == ShipOrder::Kind::kFetch) {
        const absl::Status fetched = Fetch(order);
        if (fetched.ok()) {
          break;
        }
        if (!absl::IsUnavailable(fetched)) {
          return fetched;
        }
        RETURN_IF_ERROR(
            Say({ShipNews::Kind::kMissed, "", 0,
                 absl::StrCat(order.address, ":", order.port, ": ", fetched.message())}));
      }
    }
    return ShippedFolder::Unpack(archive_.get(), o_.root, [this] { (void)SayWorking(); });
  }

  // Until launch lets us go.
  absl::Status Give() {
    ASSIGN_OR_RETURN(BoundPort bound, BindStorePort(o_.only_there ? o_.address : "", 0, o_.ports));
    const uint16_t port = bound.port;
    FileGiver giver =
        ShipGiver(std::move(bound.fd), archive_.get(), o_.terms, o_.secret, o_.job_id);
    RETURN_IF_ERROR(Say({ShipNews::Kind::kHave, o_.address, port, ""}));
    heard_ = BootNow();
    while (true) {
      std::vector<pollfd> fds = {{o_.in, POLLIN, 0}};
      giver.Watch(fds);
      RETURN_IF_ERROR(Poll(fds));
      giver.Go(fds.data() + 1);
      if (fds[0].revents != 0) {
        ASSIGN_OR_RETURN(const std::optional<ShipOrder> order, ReadOrder());
        if (order.has_value() && order->kind == ShipOrder::Kind::kGoOn) {
          return Say({ShipNews::Kind::kGoesOn, "", 0, ""});
        }
      }
      RETURN_IF_ERROR(CheckHeard());
    }
  }

  absl::StatusOr<ShipOrder> NextOrder() {
    heard_ = BootNow();
    while (true) {
      std::vector<pollfd> fds = {{o_.in, POLLIN, 0}};
      RETURN_IF_ERROR(Poll(fds));
      RETURN_IF_ERROR(CheckHeard());
      if (fds[0].revents != 0) {
        ASSIGN_OR_RETURN(const std::optional<ShipOrder> order, ReadOrder());
        if (order.has_value()) {
          return *order;
        }
      }
    }
  }

  // Not later than it is time to say something.
  absl::Status Poll(std::vector<pollfd>& fds) {
    RETURN_IF_ERROR(SayWorking());
    const auto wait = static_cast<int>(absl::ToInt64Milliseconds(kShipSayEvery));
    if (poll(fds.data(), fds.size(), wait) < 0) {
      if (errno != EINTR) {
        return absl::InternalError(absl::StrCat("poll: ", std::strerror(errno)));
      }
      for (pollfd& fd : fds) {
        fd.revents = 0;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckHeard() const {
    return BootNow() - heard_ < kShipSilenceMax ? absl::OkStatus() : LaunchGone();
  }

  // One byte of a line, for not one too many may be read; the order once it is whole.
  absl::StatusOr<std::optional<ShipOrder>> ReadOrder() {
    char one = 0;
    const ssize_t n = read(o_.in, &one, 1);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN) ||
        line_.size() > kShipLineBytesMax) {
      return LaunchGone();
    }
    heard_ = BootNow();
    if (n != 1 || one != '\n') {
      line_.append(n == 1 ? 1 : 0, one);
      return std::nullopt;
    }
    return ParseShipOrder(std::exchange(line_, ""));
  }

  absl::Status Say(const ShipNews& news) {
    const std::string line = ShipLine(news);
    said_ = BootNow();
    absl::string_view left = line;
    while (!left.empty()) {
      pollfd fd = {o_.out, POLLOUT, 0};
      const auto wait = static_cast<int>(absl::ToInt64Milliseconds(kShipSilenceMax));
      const bool ready = poll(&fd, 1, wait) > 0;
      const ssize_t n = ready ? write(o_.out, left.data(), left.size()) : -1;
      if (!ready ? BootNow() - said_ > kShipSilenceMax
                 : n < 0 && errno != EINTR && errno != EAGAIN) {
        return LaunchGone();
      }
      left.remove_prefix(n > 0 ? static_cast<size_t>(n) : 0);
    }
    return absl::OkStatus();
  }

  absl::Status SayWorking() {
    return BootNow() - said_ < kShipSayEvery / 2 ? absl::OkStatus() : Say(ShipNews{});
  }

  // Waits for one descriptor; from another agent also for orders, of which none but kWait is due.
  absl::Status Await(int fd, short events, absl::Time deadline) {
    while (true) {
      std::vector<pollfd> fds = {{fd, events, 0}};
      if (fd != o_.in) {
        fds.push_back({o_.in, POLLIN, 0});
      }
      RETURN_IF_ERROR(Poll(fds));
      if (fds.size() > 1 && fds[1].revents != 0) {
        RETURN_IF_ERROR(ReadOrder().status());
      }
      if (fds[0].revents != 0) {
        return absl::OkStatus();
      }
      if (BootNow() > deadline) {
        return absl::UnavailableError("nothing came for too long");
      }
    }
  }

  // The archive's bytes, and not one more. Unavailable: another way may do.
  absl::Status ReadArchive(int from, absl::Duration stall_max) {
    Sha256 digest;
    if (ftruncate(archive_.get(), 0) != 0 || lseek(archive_.get(), 0, SEEK_SET) != 0) {
      return FullDisk(o_.root, o_.terms, errno);
    }
    std::string piece(kPieceBytes, '\0');
    for (uint64_t left = o_.terms.bytes; left > 0;) {
      RETURN_IF_ERROR(Await(from, POLLIN, BootNow() + stall_max));
      const ssize_t n = read(from, piece.data(), std::min<uint64_t>(left, piece.size()));
      if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        return from == o_.in ? LaunchGone()
                             : absl::UnavailableError("the connection ended too early");
      }
      const size_t got = n > 0 ? static_cast<size_t>(n) : 0;
      digest.Add({piece.data(), got});
      RETURN_IF_ERROR(Keep({piece.data(), got}));
      left -= got;
    }
    if (digest.Digest() != o_.terms.digest) {
      const char what[] = "the shipped files were damaged on their way: their SHA-256 differs";
      return from == o_.in ? absl::DataLossError(what) : absl::UnavailableError(what);
    }
    return absl::OkStatus();
  }

  absl::Status Keep(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = write(archive_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno != EINTR) {
        return FullDisk(o_.root, o_.terms, errno);
      }
      bytes.remove_prefix(n > 0 ? static_cast<size_t>(n) : 0);
    }
    return absl::OkStatus();
  }

  absl::Status Fetch(const ShipOrder& order) {
    ASSIGN_OR_RETURN(const UniqueFd socket, Connect(order));
    SetPeerOptions(socket.get());
    RETURN_IF_ERROR(ShakeHands(socket.get()));
    return ReadArchive(socket.get(), kStallMax);
  }

  absl::StatusOr<UniqueFd> Connect(const ShipOrder& order) {
    ASSIGN_OR_RETURN(UniqueFd fd, BeginConnect(order.address, absl::StrCat(order.port)));
    RETURN_IF_ERROR(Await(fd.get(), POLLOUT, BootNow() + kConnectWithin));
    RETURN_IF_ERROR(ConnectOutcome(fd.get()));
    return fd;
  }

  absl::Status ShakeHands(int socket) {
    ASSIGN_OR_RETURN(PeerHandshake::Secrets secrets, ShipSecrets(o_.secret, o_.job_id));
    PeerHandshake handshake = PeerHandshake::Connector(std::move(secrets), ShipHello(o_.terms));
    const absl::Time deadline = BootNow() + kStallMax;
    while (true) {
      const std::string out = handshake.TakeOutput();  // fits a new connection's buffer
      if (send(socket, out.data(), out.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out.size())) {
        return absl::UnavailableError(std::strerror(errno));
      }
      if (handshake.Done()) {
        return absl::OkStatus();
      }
      RETURN_IF_ERROR(Await(socket, POLLIN, deadline));
      char bytes[kPeerHelloBytes];
      const ssize_t n = recv(socket, bytes, std::min(sizeof(bytes), handshake.Wants()), 0);
      if (n <= 0) {
        return absl::UnavailableError(n == 0 ? "it closed the connection" : std::strerror(errno));
      }
      if (const absl::Status taken = handshake.Take({bytes, static_cast<size_t>(n)}); !taken.ok()) {
        return absl::UnavailableError(taken.message());
      }
    }
  }

  const ShipTakerOptions& o_;
  UniqueFd archive_;
  std::string line_;
  absl::Time heard_;  // launch
  absl::Time said_ = absl::InfinitePast();
};

}  // namespace

absl::StatusOr<ShippedFolder> TakeShipped(const ShipTakerOptions& options) {
  return Taker(options).Run();
}

}  // namespace muster
