#include "proto/tls/identity.h"

#include <gtest/gtest.h>
#include <openssl/x509.h>

#include <string>

#include "absl/strings/escaping.h"

namespace muster {
namespace {

std::string Der(const TlsIdentity& identity) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(identity.certificate(), &bytes);
  EXPECT_GT(size, 0);
  std::string out(reinterpret_cast<char*>(bytes), static_cast<size_t>(size));
  OPENSSL_free(bytes);
  return out;
}

TEST(TlsIdentity, OneSecretIsOneKeyAndOneCertificate) {  // I1
  const TlsIdentity one = TlsIdentity::OfSecret("the secret");
  EXPECT_EQ(Der(one), Der(TlsIdentity::OfSecret("the secret")));
  // What is derived today must be what a master of yesterday had.
  EXPECT_EQ(one.fingerprint(), "SHA256:BsIn07Xn6Gu5Q1A3PCdUZd1JK4KiO8Gl7Fwt2pX2bWM");
  EXPECT_EQ(one.fingerprint(), FingerprintOfSecret("the secret"));
  EXPECT_NE(one.fingerprint(), FingerprintOfSecret("another secret"));
  EXPECT_FALSE(SaysItIsASite(one.certificate()));
}

TEST(TlsIdentity, ASiteSaysSoAndHasItsOwnKey) {
  const std::string seed(kTlsSeedBytes, 's');
  const TlsIdentity site = TlsIdentity::OfSite(seed);
  EXPECT_TRUE(SaysItIsASite(site.certificate()));
  EXPECT_EQ(Der(site), Der(TlsIdentity::OfSite(seed)));
  EXPECT_NE(site.fingerprint(), TlsIdentity::OfSite(std::string(kTlsSeedBytes, 't')).fingerprint());
  EXPECT_NE(site.fingerprint(), TlsIdentity::OfSecret(seed).fingerprint());  // I2
}

TEST(Hkdf, AsInRfc5869) {  // appendix A.1 and A.3, the first 32 bytes
  const std::string key(22, '\x0b');
  EXPECT_EQ(
      absl::BytesToHexString(HkdfSha256(key, absl::HexStringToBytes("000102030405060708090a0b0c"),
                                        absl::HexStringToBytes("f0f1f2f3f4f5f6f7f8f9"))),
      "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
  EXPECT_EQ(absl::BytesToHexString(HkdfSha256(key, "", "")),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d");
}

}  // namespace
}  // namespace muster
