#include "proto/tls/identity.h"

#include <openssl/asn1.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

// wire: whoever derives the key of a secret has to use the same.
constexpr absl::string_view kSalt = "muster TLS";
constexpr absl::string_view kInfo = "server key, Ed25519, 1";
constexpr absl::string_view kJobName = "muster job";
constexpr absl::string_view kSiteName = "muster site";

// What stands before the bytes of an Ed25519 key in its SubjectPublicKeyInfo (RFC 8410, section 4).
constexpr absl::string_view kPublicKeyHead("\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00", 12);

const unsigned char* Bytes(absl::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string SeedOf(absl::string_view secret) { return HkdfSha256(secret, kSalt, kInfo); }

EVP_PKEY* KeyOf(absl::string_view seed) {
  CHECK(seed.size() == kTlsSeedBytes);
  EVP_PKEY* key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, Bytes(seed), seed.size());
  CHECK(key != nullptr);
  return key;
}

// `der`: a SubjectPublicKeyInfo.
std::string FingerprintOfPublic(absl::string_view der) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(Bytes(der), der.size(), reinterpret_cast<unsigned char*>(digest.data()));
  std::string text = absl::Base64Escape(digest);
  text.resize(text.find('='));
  return absl::StrCat("SHA256:", text);
}

}  // namespace

std::string HkdfSha256(absl::string_view key, absl::string_view salt, absl::string_view info) {
  const std::string extracted = HmacSha256(salt, key);
  return HmacSha256(extracted, absl::StrCat(info, "\x01"));
}

TlsIdentity TlsIdentity::OfSecret(absl::string_view secret) {
  std::string seed = SeedOf(secret);
  TlsIdentity out(seed, kJobName);
  OPENSSL_cleanse(seed.data(), seed.size());
  return out;
}

TlsIdentity TlsIdentity::OfSite(absl::string_view seed) { return TlsIdentity(seed, kSiteName); }

TlsIdentity::TlsIdentity(absl::string_view seed, absl::string_view name)
    : key_(KeyOf(seed)), certificate_(X509_new()) {
  CHECK(certificate_ != nullptr);
  X509* one = certificate_.get();
  CHECK(X509_set_version(one, X509_VERSION_3) == 1);
  CHECK(ASN1_INTEGER_set(X509_get_serialNumber(one), 1) == 1);
  CHECK(ASN1_TIME_set_string(X509_getm_notBefore(one), "20200101000000Z") == 1);
  CHECK(ASN1_TIME_set_string(X509_getm_notAfter(one), "99991231235959Z") == 1);
  CHECK(X509_set_pubkey(one, key_.get()) == 1);
  X509_NAME* subject = X509_get_subject_name(one);
  CHECK(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, Bytes(name),
                                   static_cast<int>(name.size()), -1, 0) == 1);
  CHECK(X509_set_issuer_name(one, subject) == 1);
  CHECK(X509_sign(one, key_.get(), nullptr) > 0);
  fingerprint_ = FingerprintOf(one);
}

void TlsIdentity::Free::operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
void TlsIdentity::Free::operator()(X509* certificate) const { X509_free(certificate); }

std::string FingerprintOf(X509* certificate) {
  unsigned char* der = nullptr;
  const int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &der);
  CHECK(size > 0);
  std::string out = FingerprintOfPublic(
      absl::string_view(reinterpret_cast<const char*>(der), static_cast<size_t>(size)));
  OPENSSL_free(der);
  return out;
}

std::string FingerprintOfSecret(absl::string_view secret) {
  std::string seed = SeedOf(secret);
  EVP_PKEY* key = KeyOf(seed);
  OPENSSL_cleanse(seed.data(), seed.size());
  unsigned char bytes[kTlsSeedBytes];
  size_t size = sizeof(bytes);
  CHECK(EVP_PKEY_get_raw_public_key(key, bytes, &size) == 1 && size == sizeof(bytes));
  EVP_PKEY_free(key);
  return FingerprintOfPublic(
      absl::StrCat(kPublicKeyHead, absl::string_view(reinterpret_cast<const char*>(bytes), size)));
}

bool SaysItIsASite(X509* certificate) {
  char name[64] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof(name));
  return name == kSiteName;
}

}  // namespace muster
