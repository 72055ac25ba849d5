// Passes the shipped files on to other agents of the job, which prove its secret as workers' peers
// do (agent/core/peer_handshake.h), while this agent has nothing else to do.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "agent/core/peer_handshake.h"
#include "agent/io/file_giver.h"
#include "proto/base/ship_terms.h"
#include "proto/base/unique_fd.h"

namespace muster {

// Whom both sides mean: no workers, but these files. It is of no round.
PeerHello ShipHello(const ShipTerms& terms);
// Fresh ones, for one connection.
absl::StatusOr<PeerHandshake::Secrets> ShipSecrets(const std::string& secret,
                                                   const std::string& job_id);

// `archive`: whole, outlives the giver.
FileGiver ShipGiver(UniqueFd listening, int archive, const ShipTerms& terms,
                    const std::string& secret, const std::string& job_id);

}  // namespace muster
