#include "proto/wire/convert_modex.h"

#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/wire/convert.h"
#include "proto/wire/convert_parts.h"

namespace muster {

void SetModex(const ModexNote& note, v1::Modex* wire) {
  wire->set_node(note.node.value);
  wire->set_incarnation(note.incarnation.value);
  SetRound(note.round, wire->mutable_round());
  wire->set_peer(note.peer);
  wire->set_rank(note.rank);
  wire->set_answers(note.answers);
  wire->set_bytes(note.bytes);
  wire->set_refused(note.refused);
}

absl::StatusOr<ModexNote> ModexOf(const v1::Modex& wire) {
  FieldChecker check("modex");
  ModexNote note;
  note.node = {wire.node()};
  note.incarnation = {wire.incarnation()};
  note.round = RoundOf(wire.round());
  note.peer = wire.peer();
  note.rank = wire.rank();
  note.answers = wire.answers();
  note.bytes = check.Text("bytes", wire.bytes(), note.answers ? kModexBytesMax : 0);
  note.refused = check.Text("refused", wire.refused(), note.answers ? kTextBytesMax : 0);
  RETURN_IF_ERROR(check.status());
  return note;
}

}  // namespace muster
