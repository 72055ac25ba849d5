#include "agent/io/ship_giver.h"

#include <memory>
#include <utility>

#include "proto/base/status_macros.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

class ShipGreeting final : public Greeting {
 public:
  ShipGreeting(PeerHandshake::Secrets secrets, const ShipTerms& terms)
      : handshake_(PeerHandshake::Acceptor(std::move(secrets))), meant_(ShipHello(terms)) {}

  size_t Wants() const override { return handshake_.Wants(); }
  bool Take(absl::string_view bytes) override {
    if (!handshake_.Take(bytes).ok()) {
      return false;
    }
    if (handshake_.Asks()) {
      if (!(handshake_.hello() == meant_)) {
        return false;
      }
      handshake_.Accept();
    }
    return true;
  }
  std::string TakeOutput() override { return handshake_.TakeOutput(); }
  bool Done() const override { return handshake_.Done(); }

 private:
  PeerHandshake handshake_;
  const PeerHello meant_;
};

}  // namespace

PeerHello ShipHello(const ShipTerms& terms) {
  PeerHello hello;
  for (size_t i = 0; i < sizeof(hello.communicator); ++i) {
    hello.communicator = (hello.communicator << 8) | static_cast<uint8_t>(terms.digest.at(i));
  }
  return hello;
}

absl::StatusOr<PeerHandshake::Secrets> ShipSecrets(const std::string& secret,
                                                   const std::string& job_id) {
  PeerHandshake::Secrets out;
  ASSIGN_OR_RETURN(out.nonce, MakeNonce());
  out.job_id = job_id;
  out.mac = [secret](absl::string_view text) { return HmacSha256(secret, text); };
  return out;
}

FileGiver ShipGiver(UniqueFd listening, int archive, const ShipTerms& terms,
                    const std::string& secret, const std::string& job_id) {
  FileGiverOptions options;
  options.listening = std::move(listening);
  options.file = archive;
  options.bytes = terms.bytes;
  options.greet = [terms, secret, job_id]() -> std::unique_ptr<Greeting> {
    absl::StatusOr<PeerHandshake::Secrets> secrets = ShipSecrets(secret, job_id);
    return secrets.ok() ? std::make_unique<ShipGreeting>(*std::move(secrets), terms) : nullptr;
  };
  return FileGiver(std::move(options));
}

}  // namespace muster
