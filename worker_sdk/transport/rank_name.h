// What a rank is called in sentences.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace muster {

using RankName = std::function<std::string(uint32_t rank)>;

inline std::string PlainRankName(uint32_t rank) { return "rank " + std::to_string(rank); }

}  // namespace muster
