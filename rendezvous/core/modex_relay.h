// Where the master sends a note of the direct modex (proto/base/modex.h). Pure.
#pragma once

#include <optional>

#include "proto/base/modex.h"
#include "rendezvous/core/types.h"

namespace muster {

// The note for its receiver, whose node and incarnation it names; of one for a node that is lost,
// the answer to its sender. nullopt: it is of another round, or says what cannot be.
std::optional<ModexNote> RelayModex(const RoundState& state, const ModexNote& note);

}  // namespace muster
