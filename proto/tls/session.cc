#include "proto/tls/session.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <climits>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"

namespace muster {
namespace {

constexpr char kChannelLabel[] = "EXPORTER-Channel-Binding";
constexpr size_t kChannelBytes = 32;

SSL_CTX* NewContext(const SSL_METHOD* method) {
  // Without its configuration file, which could allow more than we do, and costs a start.
  static const int ready = OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  CHECK(ready == 1);
  SSL_CTX* context = SSL_CTX_new(method);
  CHECK(context != nullptr);
  CHECK(SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1);
  CHECK(SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1);
  CHECK(SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256") ==
        1);
  CHECK(SSL_CTX_set1_groups_list(context, "X25519:P-256") == 1);
  // An idle connection keeps no buffers; what could not be written is written from another place.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  return context;
}

int SizeOf(size_t size) { return static_cast<int>(std::min(size, size_t{INT_MAX})); }

// Of alerts, whose numbers begin at 1000: the far side has not taken our certificate.
bool DoesNotTakeUs(int reason) {
  return reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE || reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA ||
         reason == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN;
}

}  // namespace

absl::string_view NoTlsHereAlert() {
  // Alert, TLS 1.2 as all records say, 2 bytes: fatal, insufficient_security (RFC 8446 section 6).
  return absl::string_view("\x15\x03\x03\x00\x02\x02\x47", 7);
}

void ForgoOldNames() {
  CHECK(OPENSSL_init_crypto(OPENSSL_INIT_NO_ADD_ALL_CIPHERS | OPENSSL_INIT_NO_ADD_ALL_DIGESTS |
                                OPENSSL_INIT_NO_LOAD_CONFIG,
                            nullptr) == 1);
}

TlsContext::TlsContext() : context_(NewContext(TLS_client_method())) {
  SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(context_.get(), &TlsSession::Verify, nullptr);
  CHECK(SSL_CTX_set1_sigalgs_list(context_.get(), "ed25519") == 1);
}

TlsContext::TlsContext(const TlsIdentity& server) : context_(NewContext(TLS_server_method())) {
  CHECK(SSL_CTX_use_certificate(context_.get(), server.certificate()) == 1);
  CHECK(SSL_CTX_use_PrivateKey(context_.get(), server.key()) == 1);
  CHECK(SSL_CTX_set_num_tickets(context_.get(), 0) == 1);  // nobody resumes
}

void TlsContext::Free::operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
void TlsSession::Free::operator()(SSL* ssl) const { SSL_free(ssl); }

TlsSession::TlsSession(const TlsContext& context, int socket, TlsExpected expected)
    : peer_(std::make_unique<Peer>()), ssl_(SSL_new(context.get())) {
  CHECK(ssl_ != nullptr && SSL_set_fd(ssl_.get(), socket) == 1);
  peer_->expected = std::move(expected);
  SSL_set_app_data(ssl_.get(), peer_.get());
}

TlsSession TlsSession::Accept(const TlsContext& context, int socket) {
  TlsSession out(context, socket, {});
  out.server_ = true;
  SSL_set_accept_state(out.ssl_.get());
  return out;
}

TlsSession TlsSession::Connect(const TlsContext& context, int socket, TlsExpected expected) {
  TlsSession out(context, socket, std::move(expected));
  SSL_set_connect_state(out.ssl_.get());
  return out;
}

// OpenSSL's question whether the server is the one; its own look at chains and names is not asked.
int TlsSession::Verify(X509_STORE_CTX* store, void* /*unused*/) {
  const auto* ssl = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* peer = static_cast<Peer*>(SSL_get_app_data(ssl));
  X509* certificate = X509_STORE_CTX_get0_cert(store);
  peer->fingerprint = FingerprintOf(certificate);
  peer->is_site = SaysItIsASite(certificate);
  const TlsExpected& expected = peer->expected;
  const bool site = peer->is_site && (expected.site.empty() ? expected.any_site
                                                            : peer->fingerprint == expected.site);
  if (peer->fingerprint == expected.fingerprint || site) {
    return 1;
  }
  peer->refused = true;
  X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_UNTRUSTED);
  return 0;
}

TlsStep TlsSession::StepOf(int result) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_NONE:
      return TlsStep::kDone;
    case SSL_ERROR_WANT_READ:
      return TlsStep::kWantsRead;
    case SSL_ERROR_WANT_WRITE:
      return TlsStep::kWantsWrite;
    default:
      reason_ = ERR_GET_REASON(ERR_peek_error());
      return TlsStep::kEnded;
  }
}

TlsStep TlsSession::Handshake() {
  ERR_clear_error();
  return StepOf(SSL_do_handshake(ssl_.get()));
}

TlsStep TlsSession::Hear() {
  ERR_clear_error();
  char one = 0;
  return StepOf(SSL_peek(ssl_.get(), &one, 1));
}

TlsMoved TlsSession::Read(char* bytes, size_t size) {
  ERR_clear_error();
  const int n = SSL_read(ssl_.get(), bytes, SizeOf(size));
  return {StepOf(n), static_cast<size_t>(std::max(n, 0))};
}

TlsMoved TlsSession::Write(const char* bytes, size_t size) {
  ERR_clear_error();
  const int n = SSL_write(ssl_.get(), bytes, SizeOf(size));
  return {StepOf(n), static_cast<size_t>(std::max(n, 0))};
}

void TlsSession::SayGoodbye() {
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
}

std::string TlsSession::channel() const {
  std::string out(kChannelBytes, '\0');
  CHECK(SSL_export_keying_material(ssl_.get(), reinterpret_cast<unsigned char*>(out.data()),
                                   out.size(), kChannelLabel, sizeof(kChannelLabel) - 1, nullptr, 0,
                                   1) == 1);
  return out;
}

absl::Status TlsSession::failure() const {
  if (peer_->refused) {
    return absl::PermissionDeniedError(
        peer_->is_site ? "it is a site's daemon, and not the one that is expected here"
                       : "the master's identity is not that of this job's secret");
  }
  if (DoesNotTakeUs(reason_)) {
    const bool site = SaysItIsASite(SSL_get_certificate(ssl_.get()));
    return absl::PermissionDeniedError(site ? "it expects another fingerprint than ours"
                                            : "it brings another secret than ours");
  }
  if (reason_ == 0 || reason_ == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    return absl::UnavailableError("it closed the connection before the TLS handshake was through");
  }
  if (reason_ == SSL_R_TLSV1_ALERT_INSUFFICIENT_SECURITY) {
    return absl::FailedPreconditionError("it runs with --insecure");
  }
  return absl::UnimplementedError("it does not speak TLS 1.3");
}

}  // namespace muster
