// How two agents assure each other, on a TCP connection that their workers are to have, that both
// are of one job and mean the same two workers. Pure: bytes in, bytes out.
//
//   connector -> acceptor   magic "MSPC", version, round, communicator, from, to, channel, nonce
//   acceptor  -> connector  nonce, proof
//   connector -> acceptor   proof
//   acceptor  -> connector  welcome: without it the connector could not know that it is not dropped
//
// Little-endian, of fixed sizes. What follows belongs to the workers.
//
// Invariants (cited by tests):
//  H1 neither side ever wants a byte beyond the other's last one;
//  H2 a proof holds for one role, one job, one hello and the two nonces of one connection: nothing
//  that
//     was said on another connection, or by the other side of this one, helps anybody;
//  H3 after anything wrong the handshake has failed, and stays so.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/base/worker_link.h"

namespace muster {

inline constexpr uint32_t kPeerMagic = 0x4350534d;  // "MSPC"; wire
inline constexpr uint32_t kPeerVersion = 2;         // wire
inline constexpr size_t kPeerNonceBytes = 32;       // wire
inline constexpr size_t kPeerProofBytes = 32;       // HMAC-SHA256; wire
inline constexpr char kPeerWelcome = 'W';           // wire
inline constexpr size_t kPeerHelloBytes = 36 + kPeerNonceBytes;
inline constexpr size_t kPeerAnswerBytes = kPeerNonceBytes + kPeerProofBytes;

// Whom the connection is for.
struct PeerHello {
  uint64_t round = 0;         // RoundId::Token()
  uint64_t communicator = 0;  // below kGroupMin: both workers' n-th one; else a group's number
  uint32_t from_rank = 0;     // of the connector's node
  uint32_t to_rank = 0;       // of the acceptor's
  LinkChannel channel = LinkChannel::kCollectives;
  bool operator==(const PeerHello&) const = default;
};

class PeerHandshake {
 public:
  struct Secrets {
    // HMAC-SHA256 of a text with the job's secret; with --insecure its key is empty.
    std::function<std::string(absl::string_view text)> mac;
    std::string job_id;
    std::string nonce;  // kPeerNonceBytes random bytes, of this connection alone
  };
  static PeerHandshake Connector(Secrets secrets, const PeerHello& hello);
  static PeerHandshake Acceptor(Secrets secrets);

  // Bytes to be read next, at most; 0 = none for now, or none any more.
  size_t Wants() const;
  // What was read, at most Wants(). Errors: what is wrong with it, as a sentence.
  absl::Status Take(absl::string_view bytes);
  // What is to be sent now; each byte is given once.
  std::string TakeOutput();
  // Acceptor: the hello is here, or the proof, which holds; nothing goes on until Accept().
  bool Asks() const { return stage_ == Stage::kAsks || stage_ == Stage::kAsksProven; }
  // Acceptor: the hello may be believed.
  bool Proven() const { return stage_ == Stage::kAsksProven || Done(); }
  void Accept();
  // Once this side's output is sent, the connection is the workers'.
  bool Done() const { return stage_ == Stage::kDone; }
  // Whole once it Asks().
  const PeerHello& hello() const { return hello_; }

 private:
  enum class Stage : uint8_t {
    kHello,
    kAsks,
    kAnswer,
    kProof,
    kAsksProven,
    kWelcome,
    kDone,
    kFailed
  };
  PeerHandshake(Secrets secrets, Stage stage) : secrets_(std::move(secrets)), stage_(stage) {}

  absl::Status TakeWhole();
  absl::Status TakeHello();
  std::string Proof(absl::string_view role) const;
  absl::Status Failed(absl::string_view why);

  Secrets secrets_;
  Stage stage_;  // what is awaited
  PeerHello hello_;
  std::string said_;    // the connector's hello, as it is on the wire
  std::string theirs_;  // the acceptor's nonce; both sides'
  std::string in_;      // of the message that is awaited
  std::string out_;
};

}  // namespace muster
