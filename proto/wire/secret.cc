#include "proto/wire/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/base/proof_text.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

absl::StatusOr<std::string> RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  size_t have = 0;
  while (have < count) {
    const ssize_t n = getrandom(bytes.data() + have, count - have, 0);
    if (n < 0 && errno != EINTR) {
      return absl::InternalError(absl::StrCat("getrandom: ", std::strerror(errno)));
    }
    have += n > 0 ? static_cast<size_t>(n) : 0;
  }
  return bytes;
}

std::string HandshakeText(absl::string_view role, const Handshake& handshake) {
  std::string text;
  AppendField(role, &text);
  AppendNumber(kProtocolVersion, &text);
  AppendField(handshake.master_nonce, &text);
  AppendField(handshake.agent_nonce, &text);
  AppendField(handshake.job_id, &text);
  AppendField(handshake.channel, &text);
  return text;
}

std::string Proof(absl::string_view secret, absl::string_view text) {
  return secret.empty() ? std::string() : HmacSha256(secret, text);
}

}  // namespace

absl::StatusOr<std::string> MakeSecret() {
  ASSIGN_OR_RETURN(const std::string bytes, RandomBytes(kSecretBytes));
  return absl::BytesToHexString(bytes);
}

absl::StatusOr<std::string> MakeNonce() { return RandomBytes(kNonceBytes); }

absl::StatusOr<std::string> SecretFor(bool insecure, const std::string& secret_file) {
  if (insecure) {
    return std::string();
  }
  if (!secret_file.empty()) {
    absl::StatusOr<std::string> secret = LoadSecret(secret_file);
    return absl::IsNotFound(secret.status())
               ? absl::NotFoundError(absl::StrCat("--secret-file ", secret_file,
                                                  ": there is no such file: ", kNoUserSecretAdvice))
               : secret;
  }
  ASSIGN_OR_RETURN(const std::string path, UserSecretPath());
  absl::StatusOr<std::string> secret = LoadOrMakeUserSecret(path);
  if (secret.ok() || absl::IsFailedPrecondition(secret.status())) {  // that says what mends it
    return secret;
  }
  return absl::Status(secret.status().code(),
                      absl::StrCat(secret.status().message(), ": ", kNoUserSecretAdvice));
}

std::string CopySecretAdvice(absl::string_view master_host) {
  return absl::StrCat("copy the master's with  scp -p ", master_host,
                      ":.config/muster/secret ~/.config/muster/secret  (or give both the same "
                      "--secret-file)");
}

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  // Without its configuration file, names of ciphers and error texts: a start waits for this, and
  // they take three quarters of the first call's millisecond.
  static const int ready =
      OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_LOAD_CRYPTO_STRINGS |
                              OPENSSL_INIT_NO_ADD_ALL_CIPHERS | OPENSSL_INIT_NO_ADD_ALL_DIGESTS,
                          nullptr);
  CHECK(ready == 1);
  std::string out(32, '\0');
  unsigned int size = 0;
  const auto* result = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                            reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                            reinterpret_cast<unsigned char*>(out.data()), &size);
  CHECK(result != nullptr && size == out.size());
  return out;
}

std::string AgentProof(absl::string_view secret, const Handshake& handshake) {
  return Proof(secret, HandshakeText("muster agent", handshake));
}

std::string MasterProof(absl::string_view secret, const Handshake& handshake) {
  return Proof(secret, HandshakeText("muster master", handshake));
}

std::string StreamProof(absl::string_view secret, const Handshake& handshake, uint32_t node,
                        uint64_t incarnation) {
  std::string text = HandshakeText("muster stream", handshake);
  AppendNumber(node, &text);
  AppendNumber(incarnation, &text);
  return Proof(secret, text);
}

bool ProofHolds(absl::string_view wanted, absl::string_view got) {
  return ConstantTimeEqual(wanted, got);
}

}  // namespace muster
