// Connections on their way in over TCP.
#include <fcntl.h>
#include <sys/socket.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "rendezvous/service/master_impl.h"

namespace muster {
namespace {

// Of connections in the clear where TLS is asked for: they are let in to hear why they are refused.
constexpr size_t kGuestsMax = 64;
// In the place of a channel that protects: no agent makes a proof for it.
constexpr absl::string_view kInTheClear = "in the clear";

}  // namespace

MasterServer::Impl::Guest::~Guest() {
  if (socket.valid()) {
    shutdown(socket.get(), SHUT_RDWR);  // gRPC has another descriptor of it
  }
}

bool MasterServer::Impl::Insecure() const {
  return users_.size() == 1 && users_.front().secret.empty();
}

absl::StatusOr<uint16_t> MasterServer::Impl::Listen(absl::string_view address, PortRange ports) {
  // First of all, for that takes no time: who calls while the key is made waits in the kernel.
  ASSIGN_OR_RETURN(const uint16_t port, listener_.Listen(address, ports));
  if (!Insecure() && tls_ == nullptr) {
    ASSIGN_OR_RETURN(const TlsIdentity identity, Identity());
    tls_ = std::make_unique<TlsDoor>(
        loop_, identity, /*hear=*/true,
        [this](TlsDoor::Caller&& caller) { OnTlsCaller(std::move(caller)); });
  }
  return port;
}

absl::StatusOr<TlsIdentity> MasterServer::Impl::Identity() const {
  if (users_.size() == 1 && users_.front().name.empty()) {
    return TlsIdentity::OfSecret(users_.front().secret);
  }
  if (!options_.site_seed.empty()) {
    return TlsIdentity::OfSite(options_.site_seed);
  }
  ASSIGN_OR_RETURN(const std::string seed, MakeNonce());
  return TlsIdentity::OfSite(seed);
}

void MasterServer::Impl::TakeTls(UniqueFd socket, const std::string& peer) {
  if (tls_ != nullptr) {
    return tls_->Take(std::move(socket), peer, kHelloTime);
  }
  const absl::string_view alert = NoTlsHereAlert();
  (void)!send(socket.get(), alert.data(), alert.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  LogWarning(
      absl::StrCat("refused an agent from ", peer,
                   ": this master runs with --insecure, it brings a secret: ", kInsecureAdvice));
}

void MasterServer::Impl::OnTlsCaller(TlsDoor::Caller&& caller) {
  if (!caller.arrival.ok()) {
    const absl::Status& why = caller.arrival.status();
    const std::string text =
        absl::StrCat("refused a connection from ", caller.peer, ": ", why.message());
    if (absl::IsPermissionDenied(why)) {
      LogWarning(text);
    } else {
      LogDebug(text);
    }
    return;
  }
  Adopt(std::move(caller.arrival->inner),
        {std::move(caller.peer), std::move(caller.arrival->channel), caller.arrival->id});
}

void MasterServer::Impl::TakeClear(UniqueFd socket, std::string peer) {
  if (Insecure()) {
    return Adopt(std::move(socket), {std::move(peer)});
  }
  if (guests_.size() >= kGuestsMax) {
    guests_.pop_front();
  }
  Guest& guest = guests_.emplace_back();
  guest.socket.Reset(fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  guest.until = BootNow() + kHelloTime;
  if (!sweep_.active()) {
    sweep_.StartAt(guest.until);
  }
  Adopt(std::move(socket), {std::move(peer), std::string(kInTheClear)});
}

}  // namespace muster
