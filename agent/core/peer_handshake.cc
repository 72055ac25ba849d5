#include "agent/core/peer_handshake.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/proof_text.h"

namespace muster {
namespace {

constexpr absl::string_view kConnectorRole = "muster peer connector";
constexpr absl::string_view kAcceptorRole = "muster peer acceptor";

template <typename Number>
void Append(Number number, std::string* out) {
  for (size_t i = 0; i < sizeof(number); ++i) {
    out->push_back(static_cast<char>((number >> (8 * i)) & 0xff));
  }
}

// Reads little-endian numbers one after the other; the text is long enough.
struct Reader {
  absl::string_view text;
  template <typename Number>
  Number Next() {
    Number number = 0;
    for (size_t i = 0; i < sizeof(number); ++i) {
      number |= static_cast<Number>(static_cast<Number>(static_cast<uint8_t>(text[i])) << (8 * i));
    }
    text.remove_prefix(sizeof(number));
    return number;
  }
};

}  // namespace

PeerHandshake PeerHandshake::Connector(Secrets secrets, const PeerHello& hello) {
  CHECK(secrets.nonce.size() == kPeerNonceBytes);
  PeerHandshake out(std::move(secrets), Stage::kAnswer);
  out.hello_ = hello;
  std::string& said = out.said_;
  Append(kPeerMagic, &said);
  Append(kPeerVersion, &said);
  Append(hello.round, &said);
  Append(hello.communicator, &said);
  Append(hello.from_rank, &said);
  Append(hello.to_rank, &said);
  Append(static_cast<uint32_t>(hello.channel), &said);
  absl::StrAppend(&said, out.secrets_.nonce);
  CHECK(said.size() == kPeerHelloBytes);
  out.out_ = said;
  return out;
}

PeerHandshake PeerHandshake::Acceptor(Secrets secrets) {
  CHECK(secrets.nonce.size() == kPeerNonceBytes);
  return {std::move(secrets), Stage::kHello};
}

size_t PeerHandshake::Wants() const {
  switch (stage_) {
    case Stage::kHello:
      return kPeerHelloBytes - in_.size();
    case Stage::kAnswer:
      return kPeerAnswerBytes - in_.size();
    case Stage::kProof:
      return kPeerProofBytes - in_.size();
    case Stage::kWelcome:
      return 1 - in_.size();
    default:
      return 0;
  }
}

absl::Status PeerHandshake::Take(absl::string_view bytes) {
  CHECK(bytes.size() <= Wants());
  absl::StrAppend(&in_, bytes);
  if (stage_ == Stage::kHello) {
    // A stranger is known by its first bytes: nothing else is awaited from it.
    std::string magic;
    Append(kPeerMagic, &magic);
    const size_t have = std::min(in_.size(), magic.size());
    if (in_.compare(0, have, magic, 0, have) != 0) {
      return Failed("it does not speak this protocol");
    }
  }
  return !bytes.empty() && Wants() == 0 ? TakeWhole() : absl::OkStatus();
}

absl::Status PeerHandshake::TakeWhole() {
  const std::string message = std::exchange(in_, {});
  if (stage_ == Stage::kHello) {
    said_ = message;
    return TakeHello();
  }
  if (stage_ == Stage::kWelcome) {
    stage_ = Stage::kDone;
    return message[0] == kPeerWelcome ? absl::OkStatus() : Failed("it did not say welcome");
  }
  const bool connector = stage_ == Stage::kAnswer;
  if (connector) {
    theirs_ = message.substr(0, kPeerNonceBytes);
  }
  const absl::string_view proof =
      absl::string_view(message).substr(connector ? kPeerNonceBytes : 0);
  if (!ConstantTimeEqual(proof, Proof(connector ? kAcceptorRole : kConnectorRole))) {
    return Failed("it does not know this job's secret, or is of another job");
  }
  if (connector) {
    out_ = Proof(kConnectorRole);
  }
  stage_ = connector ? Stage::kWelcome : Stage::kAsksProven;
  return absl::OkStatus();
}

absl::Status PeerHandshake::TakeHello() {
  Reader in{said_};
  in.Next<uint32_t>();  // the magic
  if (const auto version = in.Next<uint32_t>(); version != kPeerVersion) {
    return Failed(absl::StrCat("it speaks version ", version, " of this protocol, not ",
                               kPeerVersion, ": take one build of Muster on all nodes"));
  }
  hello_.round = in.Next<uint64_t>();
  hello_.communicator = in.Next<uint64_t>();
  hello_.from_rank = in.Next<uint32_t>();
  hello_.to_rank = in.Next<uint32_t>();
  hello_.channel = LinkChannel{in.Next<uint32_t>()};
  if (!IsChannel(hello_.channel)) {
    return Failed(absl::StrCat("it asks for channel ", static_cast<uint32_t>(hello_.channel),
                               ", which this build does not know"));
  }
  stage_ = Stage::kAsks;
  return absl::OkStatus();
}

void PeerHandshake::Accept() {
  CHECK(Asks());
  if (stage_ == Stage::kAsksProven) {
    out_ = kPeerWelcome;
    stage_ = Stage::kDone;
    return;
  }
  theirs_ = secrets_.nonce;
  out_ = absl::StrCat(secrets_.nonce, Proof(kAcceptorRole));
  stage_ = Stage::kProof;
}

std::string PeerHandshake::TakeOutput() { return std::exchange(out_, {}); }

// Over all that was said: the hello holds the connector's nonce.
std::string PeerHandshake::Proof(absl::string_view role) const {
  std::string text;
  AppendField(role, &text);
  AppendField(secrets_.job_id, &text);
  AppendField(said_, &text);
  AppendField(theirs_, &text);
  return secrets_.mac(text);
}

absl::Status PeerHandshake::Failed(absl::string_view why) {
  stage_ = Stage::kFailed;
  out_.clear();
  return absl::PermissionDeniedError(why);
}

}  // namespace muster
