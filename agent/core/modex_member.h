// An agent's side of the direct modex of a round (proto/base/modex.h). Pure.
//
// Invariants (cited by tests):
//  D1 what is sought is found once, with the bytes or the reason why there are none, within
//     kModexPatience;
//  D2 an ask or an answer that is lost is made up for: an ask is said again, and answered again;
//  D3 what is kept is bounded: kModexSoughtMax ranks that are sought here, and for each rank of
//  this
//     node the nodes that ask for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/modex.h"

namespace muster {

// A rank that has been started may still be on its way to what it puts.
inline constexpr absl::Duration kModexPatience = absl::Seconds(60);
inline constexpr absl::Duration kModexAskAgain = absl::Seconds(1);
inline constexpr size_t kModexSoughtMax = 4096;

class ModexMember {
 public:
  // Of what goes out the caller fills in who it is.
  using Notes = std::vector<ModexNote>;
  struct Found {
    uint32_t rank = 0;
    absl::StatusOr<std::string> bytes;
  };
  struct Taken {
    std::optional<Found> found;
    std::optional<uint32_t> show;  // what this rank of this node has put is wanted: Shown() answers
  };
  struct Due {
    Notes asks;
    std::vector<Found> given_up;
  };

  void BeginRound(RoundId round);
  // A worker here wants what `rank` has put, which is on `node`, and is not sought yet.
  Due Seek(uint32_t node, uint32_t rank, absl::Time now);
  Due TimePassed(absl::Time now);
  // Whether TimePassed() is wanted, once in kModexAskAgain.
  bool seeks() const { return !sought_.empty(); }
  Taken Take(const ModexNote& note);
  // To all that have asked.
  Notes Shown(uint32_t rank, const absl::StatusOr<std::string>& bytes);

 private:
  struct Sought {
    uint32_t node = 0;
    absl::Time again;
    absl::Time until;
  };
  ModexNote NoteTo(uint32_t node, uint32_t rank) const;

  RoundId round_;
  std::map<uint32_t, Sought> sought_;              // by rank
  std::map<uint32_t, std::set<uint32_t>> askers_;  // by rank of this node: nodes
};

}  // namespace muster
