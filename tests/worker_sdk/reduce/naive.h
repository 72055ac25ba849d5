// A second, simple way to do what worker_sdk/reduce does: one element at a time, float16 and
// bfloat16 by their definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "muster/types.h"

namespace muster::naive {

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};

inline float FloatOfBits(uint32_t bits) {
  float f = 0;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}
inline uint32_t BitsOfFloat(float f) {
  uint32_t bits = 0;
  std::memcpy(&bits, &f, sizeof bits);
  return bits;
}

// --- What an element is as a number, and back. ---

template <typename T>
T Number(T t) {
  return t;
}
inline float Number(Brain b) { return FloatOfBits(static_cast<uint32_t>(b.bits) << 16); }
inline float Number(Half h) {
  const int exponent = (h.bits >> 10) & 31;
  const int mantissa = h.bits & 1023;
  double value = 0;
  if (exponent == 31) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, -24);
  } else {
    value = std::ldexp(1024 + mantissa, exponent - 25);
  }
  return static_cast<float>((h.bits & 0x8000) != 0 ? -value : value);
}

template <typename T>
T Element(T t) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(t)) return std::numeric_limits<T>::quiet_NaN();
  }
  return t;
}

template <typename T>
T ElementOf(float f);
template <>
inline Half ElementOf<Half>(float f) {
  if (std::isnan(f)) return {0x7E00};
  const auto sign = static_cast<uint16_t>(std::signbit(f) ? 0x8000 : 0);
  const double value = std::fabs(static_cast<double>(f));
  uint32_t bits = 0;
  if (value >= 65520) {  // half a step above the largest
    bits = 0x7C00;
  } else if (value >= std::ldexp(1, -14)) {
    const int exponent = std::ilogb(value);
    // a mantissa that is rounded up to 2048 carries into the exponent
    const double mantissa = std::nearbyint(std::ldexp(value, 10 - exponent));
    bits = (static_cast<uint32_t>(exponent + 14) << 10) + static_cast<uint32_t>(mantissa);
  } else {
    bits = static_cast<uint32_t>(std::nearbyint(std::ldexp(value, 24)));
  }
  return {static_cast<uint16_t>(bits | sign)};
}
template <>
inline Brain ElementOf<Brain>(float f) {
  if (std::isnan(f)) return {0x7FC0};
  const uint32_t below = BitsOfFloat(f) & 0xFFFF0000U;
  const uint32_t above = below + 0x10000U;
  if (std::isinf(f)) return {static_cast<uint16_t>(below >> 16)};
  const double low = std::fabs(static_cast<double>(FloatOfBits(below)));
  const double step = std::ldexp(1, (low == 0 ? -126 : std::max(std::ilogb(low), -126)) - 7);
  const double beyond = std::fabs(static_cast<double>(f)) - low;
  const bool up = beyond > step / 2 || (beyond == step / 2 && (below & 0x10000U) != 0);
  return {static_cast<uint16_t>((up ? above : below) >> 16)};
}

// --- Reductions. ---

template <typename N>
N Combined(N a, N b, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      if constexpr (std::is_floating_point_v<N>) {
        return a + b;
      } else {
        return static_cast<N>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      }
    case ReduceOp::kProd:
      if constexpr (std::is_floating_point_v<N>) {
        return a * b;
      } else {
        return static_cast<N>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      }
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      if constexpr (std::is_floating_point_v<N>) {
        if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<N>::quiet_NaN();
      }
      return (op == ReduceOp::kMin ? a < b : a > b) ? a : b;
    default:
      break;
  }
  if constexpr (std::is_integral_v<N>) {
    if (op == ReduceOp::kBitAnd) return static_cast<N>(a & b);
    if (op == ReduceOp::kBitOr) return static_cast<N>(a | b);
    return static_cast<N>(a ^ b);
  }
  return N{};
}

template <typename T>
T FromNumber(decltype(Number(T{})) number) {
  if constexpr (std::is_arithmetic_v<T>) {
    return Element(number);
  } else {
    return ElementOf<T>(number);
  }
}

}  // namespace muster::naive
