// A piece of one worker's output on its way to the person.
#pragma once

#include <cstdint>
#include <string>

namespace muster {

// Whole lines (ends_line), or a part of a line.
struct OutputChunk {
  uint32_t rank = 0;
  uint32_t local_rank = 0;
  uint32_t node_rank = 0;
  uint8_t stream = 1;     // 1 = stdout, 2 = stderr
  bool ends_line = true;  // the last byte is a newline
  bool split = false;     // a line over kLineBytesMax was cut here
  std::string bytes;
  bool operator==(const OutputChunk&) const = default;
};

}  // namespace muster
