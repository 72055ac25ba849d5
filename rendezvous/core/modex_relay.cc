#include "rendezvous/core/modex_relay.h"

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

// Of the present round, in this life; nullptr: it is not.
const NodeState* MemberOf(const RoundState& state, NodeId id, Incarnation incarnation) {
  const auto found = state.nodes.find(id);
  const bool is_one = found != state.nodes.end() && InRound(state, found->second) &&
                      found->second.incarnation == incarnation;
  return is_one ? &found->second : nullptr;
}

}  // namespace

std::optional<ModexNote> RelayModex(const RoundState& state, const ModexNote& note) {
  const NodeState* from = MemberOf(state, note.node, note.incarnation);
  if (state.round != note.round || from == nullptr || note.peer >= state.members.size()) {
    return std::nullopt;
  }
  ModexNote out = note;
  const Member& member = state.members[note.peer];
  const NodeState* to = MemberOf(state, member.node, member.incarnation);
  if (to != nullptr && to->IsLive()) {
    out.node = member.node;
    out.incarnation = member.incarnation;
    out.peer = static_cast<uint32_t>(from->place);
    return out;
  }
  if (note.answers) {
    return std::nullopt;
  }
  out.answers = true;
  out.refused = absl::StrCat("node ", note.peer, ", where rank ", note.rank, " is, is lost");
  return out;
}

}  // namespace muster
