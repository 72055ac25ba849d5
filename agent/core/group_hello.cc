#include "agent/core/group_hello.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// Every node of a group has one of its ranks at least.
bool IsWhole(const LinkHello& hello) {
  const uint64_t elsewhere = uint64_t{hello.world_size} - hello.local_size;
  return hello.nodes == 1 ? elsewhere == 0 : elsewhere >= uint64_t{hello.nodes} - 1;
}

bool AreWorkersHere(std::vector<uint32_t> members, const std::vector<uint32_t>& here) {
  std::sort(members.begin(), members.end());
  return std::adjacent_find(members.begin(), members.end()) == members.end() &&
         std::includes(here.begin(), here.end(), members.begin(), members.end());
}

}  // namespace

absl::Status CheckGroup(const LinkHello& hello, const std::vector<uint32_t>& members,
                        const std::vector<uint32_t>& here, const ArenaGeometry& round) {
  const auto wrong = [](const auto&... text) {
    return absl::InvalidArgumentError(absl::StrCat("a group ", text...));
  };
  if (hello.group < kGroupMin) {
    return wrong("has number ", hello.group, ": want ", kGroupMin, " or more");
  }
  if (hello.local_size < 1 || hello.local_size > round.local_size) {
    return wrong("has ", hello.local_size, " ranks on this node: want 1..", round.local_size);
  }
  if (hello.nodes < 1 || hello.nodes > round.nodes) {
    return wrong("has ", hello.nodes, " nodes: want 1..", round.nodes);
  }
  if (hello.world_size < hello.local_size || hello.world_size > round.world_size) {
    return wrong("has ", hello.world_size, " ranks: want ", hello.local_size, "..",
                 round.world_size);
  }
  if (!IsWhole(hello)) {
    return wrong("has ", hello.world_size, " ranks, ", hello.local_size, " of them on this node, ",
                 "and ", hello.nodes, " nodes: that does not fit");
  }
  if (members.size() != hello.local_size || !AreWorkersHere(members, here)) {
    return wrong("of ", hello.local_size, " ranks on this node names ", members.size(),
                 ", or one that is no worker here, or one twice");
  }
  if (hello.place >= hello.local_size || members[hello.place] != hello.rank) {
    return wrong("has another rank than ", hello.rank, " at place ", hello.place,
                 ": do all of them name the same ranks (new_group)?");
  }
  return absl::OkStatus();
}

}  // namespace muster
