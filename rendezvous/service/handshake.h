// The master's side of the handshake: pure functions over frames. "" = accepted.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/wire/muster.pb.h"
#include "proto/wire/secret.h"
#include "rendezvous/service/known_user.h"

namespace muster {

// Why this Hello is refused, as a sentence with the next step; "" when it is accepted, and `user`
// is then whose secret it proves. `handshake` holds the master's nonce and gets the agent's nonce
// and job id. `master_host` is where the user finds the secret.
std::string RefusalOf(const v1::Hello& hello, const std::vector<KnownUser>& users,
                      absl::string_view master_host, Handshake* handshake, KnownUser* user);

// The same for the first frame of an output stream, against the handshake of the agent's control
// stream.
std::string RefusalOf(const v1::StreamHello& hello, absl::string_view secret,
                      const Handshake& handshake);

}  // namespace muster
