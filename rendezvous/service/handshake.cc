#include "rendezvous/service/handshake.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/base/build_info.h"
#include "proto/base/limits.h"
#include "proto/wire/convert.h"

namespace muster {
namespace {

constexpr size_t kShownBytesMax = 256;  // of a stranger's words in our sentences

// Printable and short: these words come from somebody who has proved nothing yet.
std::string Shown(const std::string& text) {
  std::string out = text.substr(0, kShownBytesMax);
  for (char& c : out) {
    c = c >= ' ' && c <= '~' ? c : '?';
  }
  return out;
}

}  // namespace

std::string RefusalOf(const v1::Hello& hello, const std::vector<KnownUser>& users,
                      absl::string_view master_host, Handshake* handshake, KnownUser* user) {
  const std::string node = hello.hostname().empty() ? "the node" : Shown(hello.hostname());
  if (hello.protocol() != kProtocolVersion || hello.build() != std::string(BuildName())) {
    return absl::StrCat("this master is muster ", BuildName(), ", ", node, " runs ",
                        Shown(hello.build()), ": install the same build");
  }
  if (hello.nonce().size() != kNonceBytes || hello.job_id().size() > kNameBytesMax) {
    return absl::StrCat("a malformed hello from ", node);
  }
  if (std::any_of(hello.job_id().begin(), hello.job_id().end(),
                  [](unsigned char c) { return absl::ascii_iscntrl(c); })) {
    return absl::StrCat("--rdzv-id: want no control characters, ", node, " gives '",
                        Shown(hello.job_id()), "'");
  }
  handshake->agent_nonce = hello.nonce();
  handshake->job_id = hello.job_id();
  for (const KnownUser& one : users) {
    if (ProofHolds(AgentProof(one.secret, *handshake), hello.proof())) {
      *user = one;
      return "";
    }
  }
  if (users.size() == 1 && users.front().secret.empty()) {
    return absl::StrCat("this master runs with --insecure, ", node,
                        " brings a secret: ", kInsecureAdvice);
  }
  if (hello.proof().empty()) {
    return absl::StrCat("the master wants a secret, ", node,
                        " brings none: leave out --insecure there, or give it to all");
  }
  if (users.size() != 1 || !users.front().name.empty()) {
    return absl::StrCat("the master knows no user with the secret that ", node,
                        " brings: ask who runs it to take a copy of ~/.config/muster/secret as ",
                        "yours into its --users, or bring the one that is there");
  }
  return absl::StrCat("the master has another secret, ", node,
                      " brings its own: ", CopySecretAdvice(master_host));
}

std::string RefusalOf(const v1::StreamHello& hello, absl::string_view secret,
                      const Handshake& handshake) {
  if (hello.protocol() != kProtocolVersion || hello.job_id() != handshake.job_id ||
      !ProofHolds(StreamProof(secret, handshake, hello.node(), hello.incarnation()),
                  hello.proof())) {
    return "this output stream does not belong to the agent it names";
  }
  return "";
}

}  // namespace muster
