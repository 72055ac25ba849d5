#include "agent/core/peer_handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/rng.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// Not HMAC: as long as one, and different for every key and text that a test tries.
std::string Mac(absl::string_view key, absl::string_view text) {
  uint64_t state = 1;
  for (const char c : absl::StrCat(key, "|", text)) {
    state = SplitMix64(state ^ static_cast<uint8_t>(c)).Next();
  }
  SplitMix64 rng(state);
  std::string out(kPeerProofBytes, '\0');
  for (char& c : out) {
    c = static_cast<char>(rng.Below(256));
  }
  return out;
}

PeerHandshake::Secrets Secrets(char nonce, const std::string& secret = "s",
                               const std::string& job = "j") {
  return {[secret](absl::string_view text) { return Mac(secret, text); }, job,
          std::string(kPeerNonceBytes, nonce)};
}

constexpr PeerHello kHello = {(uint64_t{3} << 32) | 7, (uint64_t{5} << 56) | 2, 11, 0x01020304,
                              LinkChannel::kMessages};

struct Pair {
  PeerHandshake connector = PeerHandshake::Connector(Secrets('c'), kHello);
  PeerHandshake acceptor = PeerHandshake::Acceptor(Secrets('a'));
};

// Everything that `from` has to say, `piece` bytes at a time.
absl::Status Carry(PeerHandshake& from, PeerHandshake& to, size_t piece = 1000) {
  std::string bytes = from.TakeOutput();
  while (!bytes.empty() && to.Wants() > 0) {
    const size_t n = std::min({piece, bytes.size(), to.Wants()});
    if (absl::Status taken = to.Take(bytes.substr(0, n)); !taken.ok()) {
      return taken;
    }
    bytes.erase(0, n);
  }
  EXPECT_EQ(bytes, "");
  return absl::OkStatus();
}

TEST(PeerHandshakeTest, BothSidesAreDoneAfterFourMessagesInAnyPieces) {
  for (const size_t piece : {1u, 7u, 1000u}) {
    Pair pair;
    ASSERT_TRUE(Carry(pair.connector, pair.acceptor, piece).ok());
    ASSERT_TRUE(pair.acceptor.Asks());
    EXPECT_EQ(pair.acceptor.hello(), kHello);
    EXPECT_EQ(pair.acceptor.Wants(), 0u) << "H1";
    EXPECT_EQ(pair.acceptor.TakeOutput(), "");
    pair.acceptor.Accept();
    ASSERT_TRUE(Carry(pair.acceptor, pair.connector, piece).ok());
    EXPECT_FALSE(pair.connector.Done());
    EXPECT_FALSE(pair.acceptor.Proven());
    ASSERT_TRUE(Carry(pair.connector, pair.acceptor, piece).ok());
    EXPECT_TRUE(pair.acceptor.Asks());
    EXPECT_TRUE(pair.acceptor.Proven());
    EXPECT_EQ(pair.acceptor.Wants(), 0u) << "H1";
    EXPECT_EQ(pair.acceptor.TakeOutput(), "");
    EXPECT_FALSE(pair.acceptor.Done());
    pair.acceptor.Accept();
    EXPECT_TRUE(pair.acceptor.Done());
    EXPECT_FALSE(pair.connector.Done());
    ASSERT_TRUE(Carry(pair.acceptor, pair.connector, piece).ok());
    EXPECT_TRUE(pair.connector.Done());
    EXPECT_EQ(pair.connector.Wants() + pair.acceptor.Wants(), 0u) << "H1";
    EXPECT_EQ(pair.connector.TakeOutput() + pair.acceptor.TakeOutput(), "");
  }
}

TEST(PeerHandshakeTest, TheBytesAreThese) {
  Pair pair;
  const std::string hello = pair.connector.TakeOutput();
  EXPECT_EQ(hello, absl::StrCat(absl::string_view("MSPC\2\0\0\0"
                                                  "\7\0\0\0\3\0\0\0"
                                                  "\2\0\0\0\0\0\0\5"
                                                  "\13\0\0\0\4\3\2\1\1\0\0\0",
                                                  36),
                                std::string(32, 'c')));
  ASSERT_TRUE(pair.acceptor.Take(hello).ok());
  pair.acceptor.Accept();
  const std::string answer = pair.acceptor.TakeOutput();
  EXPECT_EQ(answer.size(), kPeerAnswerBytes);
  EXPECT_EQ(answer.substr(0, 32), std::string(32, 'a'));
  ASSERT_TRUE(pair.connector.Take(answer).ok());
  const std::string proof = pair.connector.TakeOutput();
  EXPECT_EQ(proof.size(), kPeerProofBytes);
  ASSERT_TRUE(pair.acceptor.Take(proof).ok());
  pair.acceptor.Accept();
  EXPECT_EQ(pair.acceptor.TakeOutput(), "W");
  EXPECT_FALSE(pair.connector.Take("w").ok());
  EXPECT_FALSE(pair.connector.Done());
}

TEST(PeerHandshakeTest, AnotherSecretOrJobIsRefusedByBothSides) {
  for (const auto& [secret, job] : std::vector<std::pair<std::string, std::string>>{
           {"t", "j"}, {"", "j"}, {"s", "k"}, {"s", ""}}) {
    PeerHandshake connector = PeerHandshake::Connector(Secrets('c', secret, job), kHello);
    PeerHandshake acceptor = PeerHandshake::Acceptor(Secrets('a'));
    ASSERT_TRUE(Carry(connector, acceptor).ok());
    acceptor.Accept();
    const absl::Status refused = Carry(acceptor, connector);
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("secret"));
    EXPECT_EQ(connector.TakeOutput(), "") << "H3";
    EXPECT_FALSE(connector.Done());
    EXPECT_EQ(connector.Wants(), 0u);
    EXPECT_FALSE(acceptor.Take(std::string(kPeerProofBytes, 'x')).ok());
    EXPECT_FALSE(acceptor.Done());
  }
}

TEST(PeerHandshakeTest, H2NothingIsWorthAnythingElsewhere) {
  Pair one;
  const std::string hello = one.connector.TakeOutput();
  ASSERT_TRUE(one.acceptor.Take(hello).ok());
  one.acceptor.Accept();
  const std::string answer = one.acceptor.TakeOutput();
  ASSERT_TRUE(one.connector.Take(answer).ok());
  const std::string proof = one.connector.TakeOutput();
  {  // the acceptor's own proof, sent back
    PeerHandshake acceptor = PeerHandshake::Acceptor(Secrets('a'));
    ASSERT_TRUE(acceptor.Take(hello).ok());
    acceptor.Accept();
    EXPECT_FALSE(acceptor.Take(acceptor.TakeOutput().substr(kPeerNonceBytes)).ok());
  }
  {  // all of it again, to one with a nonce of its own
    PeerHandshake acceptor = PeerHandshake::Acceptor(Secrets('b'));
    ASSERT_TRUE(acceptor.Take(hello).ok());
    acceptor.Accept();
    EXPECT_FALSE(acceptor.Take(proof).ok());
  }
  {  // an old answer, to one with another nonce
    PeerHandshake connector = PeerHandshake::Connector(Secrets('d'), kHello);
    EXPECT_FALSE(connector.Take(answer).ok());
  }
  // Any field of the hello, or either nonce, changed on the way.
  for (size_t i = 0; i < hello.size(); ++i) {
    std::string changed = hello;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    PeerHandshake acceptor = PeerHandshake::Acceptor(Secrets('a'));
    if (acceptor.Take(changed.substr(0, std::min<size_t>(hello.size(), acceptor.Wants()))).ok()) {
      acceptor.Accept();
      PeerHandshake connector = PeerHandshake::Connector(Secrets('c'), kHello);
      EXPECT_FALSE(connector.Take(acceptor.TakeOutput()).ok()) << "byte " << i;
      EXPECT_FALSE(acceptor.Take(proof).ok()) << "byte " << i;
    } else {
      EXPECT_TRUE(i < 8 || (i > 32 && i < 36)) << "byte " << i;
    }
  }
  for (size_t i = 0; i < answer.size(); ++i) {
    std::string changed = answer;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    PeerHandshake connector = PeerHandshake::Connector(Secrets('c'), kHello);
    EXPECT_FALSE(connector.Take(changed).ok()) << "byte " << i;
  }
  for (size_t i = 0; i < proof.size(); ++i) {
    std::string changed = proof;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    PeerHandshake acceptor = PeerHandshake::Acceptor(Secrets('a'));
    ASSERT_TRUE(acceptor.Take(hello).ok());
    acceptor.Accept();
    EXPECT_FALSE(acceptor.Take(changed).ok()) << "byte " << i;
  }
}

TEST(PeerHandshakeTest, AStrangerIsKnownByItsFirstBytes) {
  for (const char* bytes : {"G", "PRI * HTTP/2.0", "MSLK", "MSPD"}) {
    PeerHandshake acceptor = PeerHandshake::Acceptor(Secrets('a'));
    EXPECT_FALSE(acceptor.Take(bytes).ok()) << bytes;
    EXPECT_EQ(acceptor.Wants(), 0u);
  }
  PeerHandshake acceptor = PeerHandshake::Acceptor(Secrets('a'));
  EXPECT_TRUE(acceptor.Take("MSP").ok());
  EXPECT_TRUE(acceptor.Take("").ok());
  EXPECT_EQ(acceptor.Wants(), kPeerHelloBytes - 3);
}

TEST(PeerHandshakeTest, AnotherVersionIsNamed) {
  Pair pair;
  std::string hello = pair.connector.TakeOutput();
  hello[4] = 9;
  EXPECT_THAT(std::string(pair.acceptor.Take(hello).message()), HasSubstr("version 9"));
}

TEST(PeerHandshakeTest, AnUnknownChannelIsNamed) {
  Pair pair;
  std::string hello = pair.connector.TakeOutput();
  hello[32] = 9;
  EXPECT_THAT(std::string(pair.acceptor.Take(hello).message()), HasSubstr("channel 9"));
  EXPECT_EQ(pair.acceptor.Wants(), 0u) << "H3";
}

}  // namespace
}  // namespace muster
