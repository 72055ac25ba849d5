#include "rendezvous/core/rank_assign.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace muster {
namespace {

constexpr int64_t kNoPlace = std::numeric_limits<int64_t>::max();

int64_t Place(const Candidate& c) {
  return c.wish >= 0 ? c.wish : c.kept.has_value() ? int64_t{c.kept->value} : kNoPlace;
}

void ChooseMembers(std::vector<Candidate>& candidates, uint32_t places) {
  const auto key = [](const Candidate& c) {
    return std::make_tuple(!c.was_member, c.wish < 0, Place(c), c.node);
  };
  std::sort(candidates.begin(), candidates.end(),
            [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
  if (candidates.size() > places) {
    candidates.resize(places);
  }
}

}  // namespace

std::vector<NodeId> AssignRanks(std::vector<Candidate> candidates, uint32_t places) {
  ChooseMembers(candidates, places);
  const auto key = [](const Candidate& c) {
    return std::make_tuple(Place(c), c.wish < 0, !c.was_member, c.node);
  };
  std::sort(candidates.begin(), candidates.end(),
            [&](const Candidate& a, const Candidate& b) { return key(a) < key(b); });
  std::vector<Candidate> placed;
  std::vector<NodeId> others;  // no place of their own: they fill the gaps in order of joining
  for (const Candidate& c : candidates) {
    const bool taken = !placed.empty() && Place(placed.back()) == Place(c);
    if (Place(c) == kNoPlace || taken) {
      others.push_back(c.node);
    } else {
      placed.push_back(c);
    }
  }
  std::sort(others.begin(), others.end());
  std::vector<NodeId> order;
  size_t next_placed = 0;
  size_t next_other = 0;
  while (order.size() < candidates.size()) {
    const bool due = next_placed < placed.size() &&
                     Place(placed[next_placed]) <= static_cast<int64_t>(order.size());
    if (due || next_other == others.size()) {
      order.push_back(placed[next_placed++].node);
    } else {
      order.push_back(others[next_other++]);
    }
  }
  return order;
}

}  // namespace muster
