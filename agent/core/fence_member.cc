#include "agent/core/fence_member.h"

#include <utility>

#include "absl/status/status.h"
#include "proto/base/check.h"

namespace muster {

void FenceMember::BeginRound(RoundId round) {
  *this = FenceMember();
  round_ = round;
}

FenceMember::Pieces FenceMember::Enter(std::string text) {
  CHECK(!waits_);
  ++number_;
  waits_ = true;
  got_.clear();
  text_before_ = std::exchange(text_, std::move(text));
  Pieces out;
  Say(number_, text_, out);
  return out;
}

FenceMember::Pieces FenceMember::Again() {
  got_.clear();  // the text of all comes from its beginning
  Pieces out;
  if (number_ > 1) {
    Say(number_ - 1, text_before_, out);
  }
  if (number_ > 0) {
    Say(number_, text_, out);
  }
  return out;
}

void FenceMember::Say(uint32_t number, const std::string& text, Pieces& out) const {
  FencePiece piece;
  piece.round = round_;
  piece.number = number;
  piece.size = text.size();
  do {
    piece.bytes = text.substr(piece.offset, kFencePieceBytes);
    out.push_back(piece);
    piece.offset += piece.bytes.size();
  } while (piece.offset < text.size());
}

FenceMember::Taken FenceMember::Take(const FencePiece& piece) {
  if (!waits_ || piece.round != round_ || piece.number != number_) {
    return {};
  }
  Taken out;
  if (!piece.refused.empty()) {
    waits_ = false;
    out.result = absl::AbortedError(piece.refused);
  } else if (piece.offset == got_.size()) {
    got_ += std::string(piece.bytes);
    if (got_.size() >= piece.size) {
      waits_ = false;
      out.result = std::exchange(got_, "");
    } else {
      out.ask.emplace();
      out.ask->round = round_;
      out.ask->number = number_;
      out.ask->size = piece.size;
      out.ask->offset = got_.size();
      out.ask->asks = true;
    }
  }
  return out;
}

}  // namespace muster
