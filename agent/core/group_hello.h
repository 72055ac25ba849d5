// What a worker says of a group that it enters (LinkHello), held against its round.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/base/worker_link.h"

namespace muster {

// `members`: the group's ranks of this node, as they stand behind the hello. `here`: the round's
// ranks of this node, ascending; `round`: of the arena of all of them. InvalidArgument: what makes
// no sense, in a sentence that fits a LinkWelcome.
absl::Status CheckGroup(const LinkHello& hello, const std::vector<uint32_t>& members,
                        const std::vector<uint32_t>& here, const ArenaGeometry& round);

}  // namespace muster
