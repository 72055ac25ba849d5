#include "agent/core/modex_member.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/base/text.h"

namespace muster {

void ModexMember::BeginRound(RoundId round) {
  *this = ModexMember();
  round_ = round;
}

ModexMember::Due ModexMember::Seek(uint32_t node, uint32_t rank, absl::Time now) {
  Due out;
  if (sought_.size() == kModexSoughtMax) {
    out.given_up.push_back(
        {rank, absl::ResourceExhaustedError(
                   absl::StrCat(kModexSoughtMax, " ranks are asked already, which is the limit"))});
    return out;
  }
  sought_[rank] = {node, now + kModexAskAgain, now + kModexPatience};
  out.asks.push_back(NoteTo(node, rank));
  return out;
}

ModexMember::Due ModexMember::TimePassed(absl::Time now) {
  Due out;
  for (auto& [rank, sought] : sought_) {
    if (now >= sought.until) {
      out.given_up.push_back(
          {rank, absl::DeadlineExceededError(absl::StrCat(
                     "rank ", rank, " of node ", sought.node, " had put nothing within ",
                     ShortDuration(kModexPatience), ", or its node did not answer"))});
    } else if (now >= sought.again) {
      sought.again = now + kModexAskAgain;
      out.asks.push_back(NoteTo(sought.node, rank));
    }
  }
  for (const Found& found : out.given_up) {
    sought_.erase(found.rank);
  }
  return out;
}

ModexMember::Taken ModexMember::Take(const ModexNote& note) {
  Taken out;
  if (note.round != round_) {
    return out;
  }
  if (!note.answers) {
    askers_[note.rank].insert(note.peer);
    out.show = note.rank;
    return out;
  }
  const auto sought = sought_.find(note.rank);
  if (sought == sought_.end() || sought->second.node != note.peer) {
    return out;
  }
  sought_.erase(sought);
  if (note.refused.empty()) {
    out.found = Found{note.rank, note.bytes};
  } else {
    out.found = Found{note.rank, absl::UnavailableError(note.refused)};
  }
  return out;
}

ModexMember::Notes ModexMember::Shown(uint32_t rank, const absl::StatusOr<std::string>& bytes) {
  Notes out;
  const auto askers = askers_.find(rank);
  if (askers == askers_.end()) {
    return out;
  }
  for (const uint32_t node : askers->second) {
    ModexNote& note = out.emplace_back(NoteTo(node, rank));
    note.answers = true;
    if (!bytes.ok()) {
      note.refused = std::string(bytes.status().message());
    } else if (bytes->size() > kModexBytesMax) {
      note.refused = absl::StrCat("rank ", rank, " has put more than the ", kModexBytesMax,
                                  " bytes that are told without a fence");
    } else {
      note.bytes = *bytes;
    }
  }
  askers_.erase(askers);
  return out;
}

ModexNote ModexMember::NoteTo(uint32_t node, uint32_t rank) const {
  ModexNote out;
  out.round = round_;
  out.peer = node;
  out.rank = rank;
  return out;
}

}  // namespace muster
