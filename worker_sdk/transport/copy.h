// Copying between a caller's buffer and the arena.
#pragma once

#include <cstdint>

namespace muster {

// By a loop, or by whole lines where CopiesWholeLines(). Not by memcpy(): it takes `rep movsb`
// where the processor says that it is fast, or where that C library knows better, and on AMD's Zen
// 3 that is three times slower than a loop, for memory that another core has just written.
void CopyBytes(uint8_t* dst, const uint8_t* src, uint64_t bytes);

// Whether this processor's `rep movsb` writes lines that other cores have read without fetching
// them first: a loop of stores, which fetches each, takes fifteen times as long on AMD's Zen 5 (256
// KiB: 2 GB/s for 30). Measured there alone.
bool CopiesWholeLines();

// Both ways, for their test.
void CopyByLoop(uint8_t* dst, const uint8_t* src, uint64_t bytes);
void CopyByWholeLines(uint8_t* dst, const uint8_t* src, uint64_t bytes);

// Whether a processor, as cpuid calls it, is of Zen 5's family.
bool IsZen5(const char* vendor, unsigned signature);

}  // namespace muster
