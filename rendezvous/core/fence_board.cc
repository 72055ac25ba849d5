#include "rendezvous/core/fence_board.h"

#include "absl/strings/str_cat.h"

namespace muster {

std::vector<FenceBoard::Answer> FenceBoard::Take(const FencePiece& piece, uint32_t place,
                                                 uint32_t nodes, const Room& room) {
  BeginRound(piece.round);
  const auto found = fences_.find(piece.number);
  if (found != fences_.end() && found->second.done) {
    return {{place, PieceOf(piece.number, found->second, piece.asks ? piece.offset : 0)}};
  }
  if (found == fences_.end() && !lost_.empty() && !piece.asks) {  // B4
    Fence never;
    never.refused = lost_.begin()->second;
    return {{place, PieceOf(piece.number, never, 0)}};
  }
  const bool left = !fences_.empty() && piece.number < fences_.begin()->first &&
                    fences_.begin()->second.done;  // by all
  if (piece.asks || left || (found == fences_.end() && fences_.size() == kFencesKept)) {
    return {};
  }
  Fence& fence = fences_[piece.number];
  fence.parts.resize(nodes);
  if (!Hear(piece, fence.parts[place], fence, room) || !fence.done) {
    return {};
  }
  Complete(piece.number, fence);
  std::vector<Answer> out;
  TellAll(piece.number, fence, nodes, out);
  return out;
}

std::vector<FenceBoard::Answer> FenceBoard::Lose(RoundId round, uint32_t place,
                                                 const std::string& why) {
  BeginRound(round);
  std::vector<Answer> out;
  if (!lost_.emplace(place, why).second) {
    return out;
  }
  for (auto& [number, fence] : fences_) {
    if (fence.done || fence.parts[place].whole) {
      continue;
    }
    const size_t nodes = fence.parts.size();
    fence.done = true;
    fence.refused = why;
    fence.parts.clear();  // those before it stay: others may be in them
    TellAll(number, fence, nodes, out);
  }
  return out;
}

size_t FenceBoard::bytes() const {
  size_t sum = 0;
  for (const auto& [number, fence] : fences_) {
    sum += fence.done ? fence.text.size() : fence.bytes;
  }
  return sum;
}

void FenceBoard::BeginRound(RoundId round) {
  if (round != round_) {
    round_ = round;
    fences_.clear();
    lost_.clear();
  }
}

bool FenceBoard::Hear(const FencePiece& piece, Part& part, Fence& fence, const Room& room) const {
  if (part.whole) {
    return false;  // it was said again
  }
  if (piece.offset == 0) {
    fence.bytes -= part.text.size();
    part.text.Clear();
  }
  if (piece.offset != part.text.size()) {
    return false;
  }
  part.text.Append(piece.bytes);
  fence.bytes += piece.bytes.size();
  part.whole = part.text.size() >= piece.size;
  fence.entered += part.whole ? 1 : 0;
  if (fence.bytes > bytes_max_) {
    fence.refused = absl::StrCat("what the nodes tell each other in one barrier has more than ",
                                 bytes_max_, " bytes");
  } else if (piece.bytes.size() > room.bytes) {
    fence.refused = room.why_no_more();
  }
  fence.done = fence.entered == fence.parts.size() || !fence.refused.empty();
  return true;
}

void FenceBoard::Complete(uint32_t number, Fence& fence) {
  if (fence.refused.empty()) {
    for (const Part& part : fence.parts) {
      fence.text.Append(part.text);
    }
  }
  fence.parts.clear();
  fences_.erase(fences_.begin(), fences_.find(number));
}

FencePiece FenceBoard::PieceOf(uint32_t number, const Fence& fence, uint64_t offset) const {
  FencePiece out;
  out.round = round_;
  out.number = number;
  out.size = fence.text.size();
  out.offset = offset < out.size ? offset : out.size;
  out.bytes = fence.text.Subcord(out.offset, kFencePieceBytes);
  out.refused = fence.refused;
  return out;
}

void FenceBoard::TellAll(uint32_t number, const Fence& fence, size_t nodes,
                         std::vector<Answer>& out) const {
  const FencePiece piece = PieceOf(number, fence, 0);
  for (uint32_t i = 0; i < nodes; ++i) {
    out.push_back({i, piece});
  }
}

}  // namespace muster
