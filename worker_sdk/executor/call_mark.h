// What ranks tell each other of a call, to find out whether they make the same one. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "proto/base/worker_link.h"
#include "worker_sdk/algorithm/schedule.h"

namespace muster {

// Parts are told by their sum, in `count`, and by a digest, in `root`: with a root it has the bits
// that no rank of `world` needs.
CallMark MarkOf(const Call& call, uint32_t world);
// Of the call in which ranks tell each other what they are going to send in a kAllToAllV.
CallMark MarkOfRows(DType dtype);
// For people: "all_reduce(8 x float32, sum)". Any mark, also of another libmuster.
std::string Describe(const CallMark& mark, uint32_t world);

// Elements of all parts of the buffer that holds them.
uint64_t CountOfAll(const Call& call, uint32_t world);
// Elements that `rank` counts as its own: its part; kAllToAllV: all that it sends.
uint64_t CountOf(const Call& call, uint32_t rank, uint32_t world);

}  // namespace muster
