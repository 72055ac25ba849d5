// SplitMix64 (Steele, Lea, Flood 2014): the one random source of cores and tests; same seed, same
// numbers, everywhere.
#pragma once

#include <cstdint>

namespace muster {

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // 0..n-1; n > 0. The bias is below n / 2^64.
  uint64_t Below(uint64_t n) { return Next() % n; }
  // [0, 1)
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

}  // namespace muster
