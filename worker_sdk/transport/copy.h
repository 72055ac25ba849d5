// Copying between a caller's buffer and the arena.
#pragma once

#include <cstdint>
#include <cstring>

namespace muster {

// memcpy() takes `rep movsb` for middle sizes where the processor says that it is fast. On AMD's
// Zen 3 it is three times slower than a loop, for memory that another core has just written.
inline void CopyBytes(uint8_t* dst, const uint8_t* src, uint64_t bytes) {
  constexpr uint64_t kBlock = 64;
  constexpr uint64_t kSmall = 1024;  // below it memcpy() takes a loop, too
  if (bytes >= kSmall) {
    for (; bytes >= kBlock; bytes -= kBlock, dst += kBlock, src += kBlock) {
      std::memcpy(dst, src, kBlock);    // four vectors
      asm volatile("" : : : "memory");  // else compilers make one memcpy() of the loop
    }
  }
  std::memcpy(dst, src, bytes);
}

}  // namespace muster
