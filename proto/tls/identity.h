// Who a master is where it speaks TLS: an Ed25519 key, and a certificate around it that says
// nothing of its own. Values; any thread.
//
// Invariants (cited by tests):
//  I1 the same secret gives the same key and certificate everywhere and at any time: a master that
//     is started again, or another one in its place, is the same to its agents, and nothing is
//     kept;
//  I2 the key tells nothing of a secret that cannot be guessed, and has no other use.
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kTlsSeedBytes = 32;  // of an Ed25519 key (RFC 8032)

class TlsIdentity {
 public:
  // Of every master that knows the job's secret.
  static TlsIdentity OfSecret(absl::string_view secret);
  // Of a site's daemon, which has users with secrets of their own. `seed`: kTlsSeedBytes that
  // nobody else knows.
  static TlsIdentity OfSite(absl::string_view seed);

  // "SHA256:" and 43 characters of base64: the digest of the public key (SubjectPublicKeyInfo).
  const std::string& fingerprint() const { return fingerprint_; }
  EVP_PKEY* key() const { return key_.get(); }
  X509* certificate() const { return certificate_.get(); }

 private:
  TlsIdentity(absl::string_view seed, absl::string_view name);

  struct Free {
    void operator()(EVP_PKEY* key) const;
    void operator()(X509* certificate) const;
  };
  std::unique_ptr<EVP_PKEY, Free> key_;
  std::unique_ptr<X509, Free> certificate_;
  std::string fingerprint_;
};

std::string FingerprintOf(X509* certificate);
// As OfSecret(), at a fifth of the cost: a client needs no more.
std::string FingerprintOfSecret(absl::string_view secret);
// Whether it says to be a site's. Nothing proves that; it decides which sentence a user reads, and
// whether a proof of the secret is awaited before the master is believed.
bool SaysItIsASite(X509* certificate);

// RFC 5869 with SHA-256, the first 32 bytes.
std::string HkdfSha256(absl::string_view key, absl::string_view salt, absl::string_view info);

}  // namespace muster
