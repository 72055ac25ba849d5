// Large data for tests of many calls, made by copies of whole blocks: under a sanitizer that looks
// at each access, and in memory that is new each time, making it takes longer than what is tested.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace muster {

// All of `out` repeats its first `period` elements.
template <typename T>
void Repeat(std::vector<T>& out, size_t period) {
  for (size_t have = period; have < out.size();) {
    const size_t more = std::min(have, out.size() - have);
    std::memcpy(out.data() + have, out.data(), more * sizeof(T));
    have += more;
  }
}

// `count` numbers in memory that is used again, none of them a result: each is NaN.
inline float* Blank(std::vector<float>& memory, size_t count) {
  memory.resize(count);
  if (count > 0) {
    std::memset(memory.data(), 0xff, count * sizeof(float));
  }
  return memory.data();
}

}  // namespace muster
