// What comes to the port where other nodes' workers connect, and what may answer there: any bytes
// in any pieces, to either side. The first byte says which side, the second how large the pieces
// are.
#include "agent/core/peer_handshake.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

constexpr PeerHello kHello = {uint64_t{1} << 32 | 1, uint64_t{1} << 63 | 1, 0, 1,
                              LinkChannel::kMessages};

PeerHandshake::Secrets Secrets(char nonce) {
  // A checksum: what a proof is made of is not the parser's matter, and a fuzzer can find this one.
  const auto mac = [](absl::string_view text) {
    uint8_t sum = 0;
    for (const char c : text) {
      sum = static_cast<uint8_t>(sum + static_cast<uint8_t>(c));
    }
    return std::string(kPeerProofBytes, static_cast<char>(sum));
  };
  return {mac, "job", std::string(kPeerNonceBytes, nonce)};
}

PeerHandshake Side(bool connector) {
  return connector ? PeerHandshake::Connector(Secrets('c'), kHello)
                   : PeerHandshake::Acceptor(Secrets('a'));
}

}  // namespace

std::vector<std::string> Seeds() {
  PeerHandshake connector = Side(true);
  PeerHandshake acceptor = Side(false);
  const std::string hello = connector.TakeOutput();
  CHECK(acceptor.Take(hello).ok());
  acceptor.Accept();
  const std::string answer = acceptor.TakeOutput();
  CHECK(connector.Take(answer).ok());
  const std::string proof = connector.TakeOutput();
  const std::string to_acceptor(2, '\0');
  const std::string to_connector = absl::StrCat(std::string(1, '\1'), std::string(1, '\377'));
  return {absl::StrCat(to_acceptor, hello),
          absl::StrCat(to_acceptor, hello, proof),
          absl::StrCat(to_acceptor, hello, proof, "the workers' own"),
          absl::StrCat(to_connector, answer),
          absl::StrCat(to_connector, answer, "W"),
          absl::StrCat(to_connector, answer, "Wmore"),
          absl::StrCat(to_acceptor, "GET / HTTP/1.1\r\n\r\n")};
}

void Run(absl::string_view bytes) {
  if (bytes.size() < 2) {
    return;
  }
  const bool connector = (bytes[0] & 1) != 0;
  const size_t piece = 1 + static_cast<uint8_t>(bytes[1]);
  bytes.remove_prefix(2);
  PeerHandshake side = Side(connector);
  const size_t whole = connector ? kPeerAnswerBytes + 1
                                 : kPeerHelloBytes + kPeerProofBytes;  // that it may ever take
  size_t taken = 0;
  std::string all;
  size_t said = side.TakeOutput().size();
  bool failed = false;
  while (!bytes.empty() && side.Wants() > 0) {
    const size_t n = std::min({piece, bytes.size(), side.Wants()});
    const std::string copy(bytes.substr(0, n));  // of its own, so that ASan sees one byte too many
    failed = !side.Take(copy).ok();
    taken += n;
    all += copy;
    bytes.remove_prefix(n);
    if (side.Asks() && side.Proven()) {
      CHECK(!failed && taken == whole && side.Wants() == 0 && side.TakeOutput().empty());
      side.Accept();
    } else if (side.Asks()) {
      CHECK(side.Wants() == 0 && side.TakeOutput().empty());
      // What was understood is all that was said.
      PeerHandshake::Secrets theirs = Secrets('c');
      theirs.nonce = all.substr(all.size() - kPeerNonceBytes);
      CHECK(PeerHandshake::Connector(std::move(theirs), side.hello()).TakeOutput() == all);
      side.Accept();
    }
    said += side.TakeOutput().size();
  }
  CHECK(taken <= whole);                                  // H1
  CHECK(side.Done() == (taken == whole && !failed));      // nothing short of all
  CHECK(!failed || (side.Wants() == 0 && !side.Done()));  // H3
  CHECK(said <= kPeerHelloBytes + kPeerAnswerBytes);
}

}  // namespace muster::fuzz
