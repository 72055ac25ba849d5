// What launch ships to the nodes (--ship), as a node hears of it before it gets it. Values only.
#pragma once

#include <cstdint>
#include <string>

namespace muster {

struct ShipTerms {
  std::string digest;  // SHA-256 of the archive (proto/ship/archive.h), which names it
  uint64_t bytes = 0;  // of the archive
  uint32_t entries = 0;
  bool operator==(const ShipTerms&) const = default;
};

}  // namespace muster
