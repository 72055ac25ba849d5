// The connection's TLS: who is taken for the master, and what a user reads where somebody is not.
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/io/master_client_impl.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"

namespace muster {

// What is sent on the socket given back goes over TLS, if there is a secret.
absl::StatusOr<UniqueFd> MasterClient::Impl::Secure(UniqueFd socket) {
  tls_outcome_.reset();
  if (options_.secret.empty()) {
    return socket;
  }
  if (options_.tls == nullptr) {
    own_tls_ = std::make_unique<TlsThread>();
    options_.tls = own_tls_.get();
  }
  if (expected_.fingerprint.empty()) {
    expected_.fingerprint = FingerprintOfSecret(options_.secret);
  }
  const std::optional<std::string> site =
      options_.sites.expected ? options_.sites.expected(Where()) : std::nullopt;
  expected_.site = site.value_or("");
  expected_.any_site = site.has_value() && site->empty();  // the channel is part of what it proves
  ASSIGN_OR_RETURN(TlsThread::Dialed dialed,
                   options_.tls->Connect(std::move(socket), expected_,
                                         2 * options_.connect_timeout));  // ours ends before
  tls_outcome_ = std::move(dialed.outcome);
  return std::move(dialed.inner);
}

// The call is over; where there never was a connection for it, TLS knows why.
void MasterClient::Impl::Ended(const std::string& why) {
  const TlsOutcome::Facts* tls = Tls();
  if (tls == nullptr || tls->status.ok() || state_ != State::kHandshake) {
    return Down(why);
  }
  const std::string at = absl::StrCat(Where(), ": ", tls->status.message());
  if (absl::IsPermissionDenied(tls->status) && tls->is_site) {
    return NotBelieved(
        options_.sites.why_refused ? options_.sites.why_refused(Where(), tls->fingerprint) : at);
  }
  if (absl::IsPermissionDenied(tls->status)) {
    const std::string host = Where().substr(0, Where().rfind(':'));
    return NotBelieved(absl::StrCat(at, ": ", CopySecretAdvice(host)));
  }
  if (absl::IsFailedPrecondition(tls->status)) {
    return Refused(
        absl::StrCat(at, ", ", options_.hostname, " brings a secret: ", kInsecureAdvice));
  }
  Down(at);
}

// Of several, another may lead: nobody there has been told anything.
void MasterClient::Impl::NotBelieved(const std::string& why) {
  if (final_) {
    return Refused(why);
  }
  if (turns_.many() && warned_of_.insert(Where()).second) {
    LogWarning(absl::StrCat(why, "; the others of --rdzv-endpoint are asked"));
  }
  Down(why, /*believed=*/false);
}

// The master has proved the secret on this connection.
void MasterClient::Impl::TellProof() {
  const TlsOutcome::Facts* tls = Tls();
  if (tls != nullptr && tls->is_site && expected_.any_site && options_.sites.on_first_proof) {
    options_.sites.on_first_proof(Where(), tls->fingerprint);
  }
}

}  // namespace muster
