// Whether all ranks have the same result, by its checksum. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "muster/status.h"

namespace muster {

// CRC-32C (Castagnoli), as iSCSI and ext4 have it.
uint32_t Crc32c(const uint8_t* data, size_t bytes);

// `sums`: of every rank's result of `call`, by rank. Internal: they are not all the same; the ranks
// whose result is not that of the majority are named, or what all have where there is none.
Status CompareSums(const std::vector<uint32_t>& sums, const std::string& call);

}  // namespace muster
