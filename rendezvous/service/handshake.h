// The master's side of the handshake: pure functions over frames. "" = accepted.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "proto/wire/muster.pb.h"
#include "proto/wire/secret.h"

namespace muster {

// Why this Hello is refused, as a sentence with the next step; "" when it is accepted. `handshake`
// holds the master's nonce and gets the agent's nonce and job id. `master_host` is where the user
// finds the secret.
std::string RefusalOf(const v1::Hello& hello, absl::string_view secret,
                      absl::string_view master_host, Handshake* handshake);

// The same for the first frame of an output stream, against the handshake of the agent's control
// stream.
std::string RefusalOf(const v1::StreamHello& hello, absl::string_view secret,
                      const Handshake& handshake);

}  // namespace muster
