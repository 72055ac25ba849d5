// The job secret: who knows it may take part. Both sides of a connection prove it without showing
// it. Any thread; the file functions block on the file system.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kSecretBytes = 32;  // 256 bit, written as 64 hex digits
inline constexpr size_t kNonceBytes = 32;   // wire

// A new secret from the kernel, as 64 hex digits.
absl::StatusOr<std::string> MakeSecret();
// kNonceBytes random bytes.
absl::StatusOr<std::string> MakeNonce();

// $HOME/.config/muster/NAME (or under $XDG_CONFIG_HOME). FailedPrecondition when neither is set.
absl::StatusOr<std::string> UserConfigPath(absl::string_view name);
// That of the user's own secret; the error says what does without.
absl::StatusOr<std::string> UserSecretPath();

// The secret in the file at `path`; made on first use (folders 0700, file 0600), so that two that
// make it at the same time end with the same one, also on a shared file system. A file that others
// could read, that is not ours, or that holds no secret is refused with the line that mends it.
absl::StatusOr<std::string> LoadOrMakeUserSecret(const std::string& path);
// The same, but a missing file is an error (--secret-file).
absl::StatusOr<std::string> LoadSecret(const std::string& path);

// The 32 bytes, written as 64 hex digits, of which a site's daemon makes its TLS key
// (TlsIdentity::OfSite); checked and made as a user's secret is. Errors begin with "--tls-key: ".
absl::StatusOr<std::string> LoadOrMakeSiteSeed(const std::string& path);

// The secret of a job or daemon whose options say so: "" (--insecure), that of --secret-file, or
// the user's own.
absl::StatusOr<std::string> SecretFor(bool insecure, const std::string& secret_file);

// What to do where the user's own secret can neither be read nor made.
inline constexpr absl::string_view kNoUserSecretAdvice =
    "give each node the same --secret-file FILE, made once by  (umask 077; openssl rand -hex 32 > "
    "FILE)  , or each --insecure: then no proof of a secret is asked for, and anybody who reaches "
    "the port may join";
// What mends it where one side has a secret and the other none; and where they differ.
inline constexpr absl::string_view kInsecureAdvice = "give --insecure to all or to none";
std::string CopySecretAdvice(absl::string_view master_host);

// 32 bytes (RFC 2104, FIPS 180-4).
std::string HmacSha256(absl::string_view key, absl::string_view text);

// What each side of Attend and Streams proves. The role is part of the text, so that no side can
// send the other's own proof back; every field carries its length, so that no two sets of fields
// make one text.
struct Handshake {
  std::string master_nonce;
  std::string agent_nonce;
  std::string job_id;
  // Of the TLS connection that carries it (TlsSession::channel): a proof that somebody between the
  // two passes on from another connection does not hold. "" where the channel is not TCP.
  std::string channel = {};
};
// "" when `secret` is "" (--insecure).
std::string AgentProof(absl::string_view secret, const Handshake& handshake);
std::string MasterProof(absl::string_view secret, const Handshake& handshake);
std::string StreamProof(absl::string_view secret, const Handshake& handshake, uint32_t node,
                        uint64_t incarnation);
// A side with a secret refuses an empty proof; a side without one accepts only an empty proof.
bool ProofHolds(absl::string_view wanted, absl::string_view got);

}  // namespace muster
