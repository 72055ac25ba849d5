// Copying between a caller's buffer and the arena.
#pragma once

#include <cstdint>

namespace muster {

// memcpy(), whose `rep movsb` for middle sizes writes lines that other cores have read without
// fetching them first: a loop of stores, which fetches each, takes fifteen times as long on AMD's
// Zen 5. Zen 3 says that it is fast, too, and takes three times as long as a loop for what another
// core has just written: it gets the loop.
void CopyBytes(uint8_t* dst, const uint8_t* src, uint64_t bytes);

// Whether it takes the loop here.
bool CopiesByLoop();

// The loop.
void CopyByLoop(uint8_t* dst, const uint8_t* src, uint64_t bytes);

// Whether a processor, as cpuid calls it, is a Zen 3.
bool IsZen3(const char* vendor, unsigned signature);

}  // namespace muster
