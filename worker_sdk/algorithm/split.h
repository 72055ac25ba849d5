// The groups that a communicator is split into. Pure: every rank computes the same.
#pragma once

#include <cstdint>
#include <vector>

#include "worker_sdk/algorithm/layout.h"

namespace muster {

// What a rank asks for; it travels between ranks as it is here.
struct SplitWish {
  int64_t color = -1;  // ranks of one color become a group; negative: of none
  int64_t key = 0;     // they are ordered by it, and by their ranks before where it is equal
};

struct SplitGroup {
  Layout layout;  // nodes in the order of `all`, but for those that have none of the group
  uint32_t rank = 0;
};

// The group that `rank` gets, whose color is not negative. `wishes`: by rank of `all`.
SplitGroup GroupOf(const Layout& all, const std::vector<SplitWish>& wishes, uint32_t rank);

// Of the group of that color, when the communicator `parent` has been split `splits` times before:
// in the range of groups' numbers (proto/base/worker_link.h), others for anything else.
uint64_t GroupNumber(uint64_t parent, uint64_t splits, int64_t color);

}  // namespace muster
