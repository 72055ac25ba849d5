#include "proto/wire/convert_fence.h"

#include <limits>

#include "proto/base/limits.h"
#include "proto/base/status_macros.h"
#include "proto/wire/convert.h"
#include "proto/wire/convert_parts.h"

namespace muster {

void SetFence(const FencePiece& piece, v1::Fence* wire) {
  wire->set_node(piece.node.value);
  wire->set_incarnation(piece.incarnation.value);
  SetRound(piece.round, wire->mutable_round());
  wire->set_number(piece.number);
  wire->set_size(piece.size);
  wire->set_offset(piece.offset);
  wire->set_bytes(std::string(piece.bytes));
  wire->set_asks(piece.asks);
  wire->set_refused(piece.refused);
}

absl::StatusOr<FencePiece> FenceOf(const v1::Fence& wire) {
  FieldChecker check("fence");
  check.Bound("number", wire.number(), 1, std::numeric_limits<uint32_t>::max());
  check.Bound("size", wire.size(), 0, kFenceBytesMax);
  check.Bound("offset", wire.offset(), 0, wire.size());
  FencePiece piece;
  piece.node = {wire.node()};
  piece.incarnation = {wire.incarnation()};
  piece.round = RoundOf(wire.round());
  piece.number = wire.number();
  piece.size = wire.size();
  piece.offset = wire.offset();
  piece.bytes = check.Text("bytes", wire.bytes(), kFencePieceBytes);
  piece.asks = wire.asks();
  piece.refused = check.Text("refused", wire.refused(), kTextBytesMax);
  RETURN_IF_ERROR(check.status());
  return piece;
}

}  // namespace muster
