// The kernels of one vector width, MUSTER_VECTOR_BYTES; included by one file for each width, which
// is compiled for it. Nothing here may be an inline function that another file could share: the
// linker keeps one copy of those, and it could be the one that this machine cannot execute. Hence
// no standard library beyond macros and types.
//
// GCC's vector types instead of a loop for the compiler to vectorise: the sources of a block are
// added up in registers, and dst, which may be a source, is written once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "worker_sdk/reduce/kernels.h"
#include "worker_sdk/reduce/kernels_formats.h"

namespace muster {
namespace {

// --- Operations on registers. ---

struct Sum {
  template <typename V>
  static MUSTER_INLINE V Apply(V a, V b) {
    return a + b;
  }
};
struct Product {
  template <typename V>
  static MUSTER_INLINE V Apply(V a, V b) {
    return a * b;
  }
};
// A comparison with NaN is false: `a != a` keeps one in a, and b is taken where it is one.
struct Minimum {
  template <typename V>
  static MUSTER_INLINE V Apply(V a, V b) {
    return a < b ? a : b;
  }
  static MUSTER_INLINE Floats Apply(Floats a, Floats b) { return ((a < b) | (a != a)) ? a : b; }
  static MUSTER_INLINE Doubles Apply(Doubles a, Doubles b) { return ((a < b) | (a != a)) ? a : b; }
};
struct Maximum {
  template <typename V>
  static MUSTER_INLINE V Apply(V a, V b) {
    return a > b ? a : b;
  }
  static MUSTER_INLINE Floats Apply(Floats a, Floats b) { return ((a > b) | (a != a)) ? a : b; }
  static MUSTER_INLINE Doubles Apply(Doubles a, Doubles b) { return ((a > b) | (a != a)) ? a : b; }
};
struct BitAnd {
  template <typename V>
  static MUSTER_INLINE V Apply(V a, V b) {
    return a & b;
  }
};
struct BitOr {
  template <typename V>
  static MUSTER_INLINE V Apply(V a, V b) {
    return a | b;
  }
};
struct BitXor {
  template <typename V>
  static MUSTER_INLINE V Apply(V a, V b) {
    return a ^ b;
  }
};

template <typename Op, typename V>
MUSTER_INLINE V Combined(V a, V b) {
  return Op::Apply(a, b);
}
template <typename Op>
MUSTER_INLINE FloatPair Combined(FloatPair a, FloatPair b) {
  return {Op::Apply(a.first, b.first), Op::Apply(a.second, b.second)};
}

// --- Loops. ---

// dst = first op rest[0] op ... op rest[n-1], `registers` of each, whose places in `rest` begin at
// byte `at`. Four registers at a time: so many chains of additions hide their latency, and fit
// beside the loads into the 16 that narrower machines have.
template <typename First, typename Format, typename Out, typename Op>
__attribute__((noinline)) void ReduceRegisters(char* dst, const char* first,
                                               const void* const* rest, int n, size_t at,
                                               size_t registers) {
  constexpr size_t kIn = First::kBytes;
  constexpr size_t kStep = Format::kBytes;
  constexpr size_t kOut = Out::kBytes;
  for (; registers >= 4; registers -= 4) {
    auto a = First::Load(first);
    auto b = First::Load(first + kIn);
    auto c = First::Load(first + 2 * kIn);
    auto d = First::Load(first + 3 * kIn);
    for (int s = 0; s < n; ++s) {
      const char* src = static_cast<const char*>(rest[s]) + at;
      a = Combined<Op>(a, Format::Load(src));
      b = Combined<Op>(b, Format::Load(src + kStep));
      c = Combined<Op>(c, Format::Load(src + 2 * kStep));
      d = Combined<Op>(d, Format::Load(src + 3 * kStep));
    }
    Out::Store(dst, a);
    Out::Store(dst + kOut, b);
    Out::Store(dst + 2 * kOut, c);
    Out::Store(dst + 3 * kOut, d);
    first += 4 * kIn;
    at += 4 * kStep;
    dst += 4 * kOut;
  }
  for (; registers > 0; --registers) {
    auto a = First::Load(first);
    for (int s = 0; s < n; ++s) {
      a = Combined<Op>(a, Format::Load(static_cast<const char*>(rest[s]) + at));
    }
    Out::Store(dst, a);
    first += kIn;
    at += kStep;
    dst += kOut;
  }
}

// The usual case, without a loop over the sources.
template <typename Format, typename Out, typename Op>
MUSTER_INLINE void ReduceTwo(char* dst, const char* left, const char* right, size_t registers) {
  constexpr size_t kStep = Format::kBytes;
  constexpr size_t kOut = Out::kBytes;
  for (; registers >= 4; registers -= 4) {
    const auto a = Combined<Op>(Format::Load(left), Format::Load(right));
    const auto b = Combined<Op>(Format::Load(left + kStep), Format::Load(right + kStep));
    const auto c = Combined<Op>(Format::Load(left + 2 * kStep), Format::Load(right + 2 * kStep));
    const auto d = Combined<Op>(Format::Load(left + 3 * kStep), Format::Load(right + 3 * kStep));
    Out::Store(dst, a);
    Out::Store(dst + kOut, b);
    Out::Store(dst + 2 * kOut, c);
    Out::Store(dst + 3 * kOut, d);
    left += 4 * kStep;
    right += 4 * kStep;
    dst += 4 * kOut;
  }
  for (; registers > 0; --registers) {
    Out::Store(dst, Combined<Op>(Format::Load(left), Format::Load(right)));
    left += kStep;
    right += kStep;
    dst += kOut;
  }
}

// More streams at once than this, and the processor no longer fetches them ahead.
constexpr int kStreams = 8;
constexpr size_t kTileBytes = 16384;  // half of a usual first-level cache

// A few sources at a time, whose result so far stays in the cache, in full precision.
template <typename Format, typename Out, typename Op>
MUSTER_INLINE void ReduceTiles(char* dst, const void* const* srcs, int n, size_t registers) {
  using Tile = typename Format::Tile;
  constexpr size_t kTileRegisters = kTileBytes / Tile::kBytes;
  alignas(kVectorBytes) char tile[kTileBytes];
  size_t at = 0;
  while (registers > 0) {
    const size_t some = registers < kTileRegisters ? registers : kTileRegisters;
    ReduceRegisters<Format, Format, Tile, Op>(tile, static_cast<const char*>(srcs[0]) + at,
                                              srcs + 1, kStreams, at, some);
    int done = 1 + kStreams;
    for (; n - done > kStreams; done += kStreams) {
      ReduceRegisters<Tile, Format, Tile, Op>(tile, tile, srcs + done, kStreams, at, some);
    }
    ReduceRegisters<Tile, Format, Out, Op>(dst, tile, srcs + done, n - done, at, some);
    registers -= some;
    at += some * Format::kBytes;
    dst += some * Out::kBytes;
  }
}

// Less than a vector, in steps that the processor foretells: the sizes repeat with each source.
MUSTER_INLINE void CopySmall(char* to, const char* from, size_t bytes) {
  size_t at = 0;
#if MUSTER_VECTOR_BYTES > 32
  if ((bytes & 32) != 0) {
    __builtin_memcpy(to, from, 32);
    at = 32;
  }
#endif
#if MUSTER_VECTOR_BYTES > 16
  if ((bytes & 16) != 0) {
    __builtin_memcpy(to + at, from + at, 16);
    at += 16;
  }
#endif
  if ((bytes & 8) != 0) {
    __builtin_memcpy(to + at, from + at, 8);
    at += 8;
  }
  if ((bytes & 4) != 0) {
    __builtin_memcpy(to + at, from + at, 4);
    at += 4;
  }
  if ((bytes & 2) != 0) {
    __builtin_memcpy(to + at, from + at, 2);
    at += 2;
  }
  if ((bytes & 1) != 0) to[at] = from[at];
}

template <typename Format>
MUSTER_INLINE typename Format::Register LoadSmall(const void* from, size_t at, size_t bytes) {
  char padded[Format::kBytes] = {};
  CopySmall(padded, static_cast<const char*>(from) + at, bytes);
  return Format::Load(padded);
}

template <typename Format, typename Out, typename Op>
MUSTER_INLINE void ReduceSmall(char* dst, const void* const* srcs, int n, size_t at, size_t bytes) {
  auto sum = LoadSmall<Format>(srcs[0], at, bytes);
  for (int s = 1; s < n; ++s) sum = Combined<Op>(sum, LoadSmall<Format>(srcs[s], at, bytes));
  char padded[Out::kBytes];
  Out::Store(padded, sum);
  CopySmall(dst + at / Format::kBytes * Out::kBytes, padded, bytes * Out::kBytes / Format::kBytes);
}

template <typename Format, typename Op, typename Out = Format>
void Reduce(char* dst, const void* const* srcs, int n, size_t bytes) {
  const size_t registers = bytes / Format::kBytes;
  const size_t left = bytes % Format::kBytes;
  const char* first = static_cast<const char*>(srcs[0]);
  if (n == 2) {
    ReduceTwo<Format, Out, Op>(dst, first, static_cast<const char*>(srcs[1]), registers);
  } else if (n <= 1 + kStreams) {
    ReduceRegisters<Format, Format, Out, Op>(dst, first, srcs + 1, n - 1, 0, registers);
  } else {
    ReduceTiles<Format, Out, Op>(dst, srcs, n, registers);
  }
  if (left != 0) ReduceSmall<Format, Out, Op>(dst, srcs, n, bytes - left, left);
}

template <typename V>
MUSTER_INLINE V Divided(V v, uint32_t n) {
  return v / static_cast<decltype(v[0] + 0)>(n);
}
MUSTER_INLINE FloatPair Divided(FloatPair v, uint32_t n) {
  return {Divided(v.first, n), Divided(v.second, n)};
}

MUSTER_INLINE FloatPair Quotient(FloatPair v, float by) { return {v.first / by, v.second / by}; }

template <typename Format>
void DivideFloats(char* data, size_t bytes, uint32_t n) {
  size_t at = 0;
  for (; at + Format::kBytes <= bytes; at += Format::kBytes) {
    Format::Store(data + at, Divided(Format::Load(data + at), n));
  }
  if (at == bytes) return;
  char padded[Format::kBytes];
  Format::Store(padded, Divided(LoadSmall<Format>(data, at, bytes - at), n));
  CopySmall(data + at, padded, bytes - at);
}

MUSTER_INLINE FloatPair Scaled(FloatPair v, float by) { return {v.first * by, v.second * by}; }

// tile += srcs[0] * factors[0] + ...; the tile's first: it is set. n <= kStreams.
template <typename Format>
__attribute__((noinline)) void AddScaled(char* tile, bool first, const void* const* srcs,
                                         const float* factors, int n, size_t at, size_t registers) {
  using Tile = typename Format::Tile;
  const auto source = [&](int s) { return static_cast<const char*>(srcs[s]) + at; };
  for (; registers > 0; --registers) {
    auto sum = first ? Scaled(Format::Load(source(0)), factors[0]) : Tile::Load(tile);
    for (int s = first ? 1 : 0; s < n; ++s) {
      sum = Combined<Sum>(sum, Scaled(Format::Load(source(s)), factors[s]));
    }
    Tile::Store(tile, sum);
    at += Format::kBytes;
    tile += Tile::kBytes;
  }
}

// A weighted sum whose tile is divided before it is rounded. Every addend comes divided by a power
// of two, no less than all weights: exactly so, as bfloat16's last bit is 2^-133 and float32's
// 2^-149, and the sum is in bounds where the mean is.
template <typename Format>
void Mean(char* dst, const void* const* srcs, const uint32_t* weights, int n, size_t bytes) {
  using Tile = typename Format::Tile;
  constexpr size_t kTileRegisters = kTileBytes / Tile::kBytes;
  alignas(kVectorBytes) char tile[kTileBytes];
  uint64_t all = static_cast<uint64_t>(n);
  if (weights != nullptr) {
    all = 0;
    for (int s = 0; s < n; ++s) all += weights[s];
  }
  float scale = 1.0F;
  for (uint64_t power = 1; power < all; power *= 2) scale /= 2;
  const float divisor = static_cast<float>(all) * scale;
  const size_t whole = bytes - bytes % Format::kBytes;
  for (size_t at = 0; at < bytes;) {
    const size_t left = (whole - at) / Format::kBytes;  // 0: less than a register is left
    const size_t some = left < kTileRegisters ? left : kTileRegisters;
    char padded[kStreams][Format::kBytes];
    for (int done = 0; done < n;) {
      const int more = n - done < kStreams ? n - done : kStreams;
      const void* from[kStreams];
      float factors[kStreams];
      for (int s = 0; s < more; ++s) {
        factors[s] = weights != nullptr ? static_cast<float>(weights[done + s]) * scale : scale;
        from[s] = srcs[done + s];
        if (some == 0) {
          Format::Store(padded[s], LoadSmall<Format>(from[s], at, bytes - at));
          from[s] = padded[s];
        }
      }
      AddScaled<Format>(tile, done == 0, from, factors, more, some == 0 ? 0 : at,
                        some == 0 ? 1 : some);
      done += more;
    }
    for (size_t i = 0; i < some; ++i, at += Format::kBytes) {
      Format::Store(dst + at, Quotient(Tile::Load(tile + i * Tile::kBytes), divisor));
    }
    if (some == 0) {
      Format::Store(padded[0], Quotient(Tile::Load(tile), divisor));
      CopySmall(dst + at, padded[0], bytes - at);
      at = bytes;
    }
  }
}

// In a type whose rounded quotient is never beyond the next integer, float for 16 bits and double
// for 32: no x / n below an integer is nearer to it than 1 / n, and x has bits to spare.
template <typename T, typename Wide>
void DivideInts(char* data, size_t bytes, uint32_t n) {
  const Wide divisor = static_cast<Wide>(n);
  T* values = reinterpret_cast<T*>(data);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) {
    values[i] = static_cast<T>(static_cast<Wide>(values[i]) / divisor);
  }
}

// --- The table. ---

constexpr void Set(Kernels& to, DType dtype, ReduceOp op, ReduceKernel kernel) {
  to.reduce[static_cast<int>(dtype)][static_cast<int>(op)] = kernel;
}

// Sums and products wrap around, which only unsigned arithmetic may.
template <typename T, typename Unsigned, typename Wide>
constexpr void AddInts(Kernels& to, DType dtype) {
  Set(to, dtype, ReduceOp::kSum, Reduce<IntFormat<Unsigned>, Sum>);
  Set(to, dtype, ReduceOp::kAvg, Reduce<IntFormat<Unsigned>, Sum>);
  Set(to, dtype, ReduceOp::kProd, Reduce<IntFormat<Unsigned>, Product>);
  Set(to, dtype, ReduceOp::kMin, Reduce<IntFormat<T>, Minimum>);
  Set(to, dtype, ReduceOp::kMax, Reduce<IntFormat<T>, Maximum>);
  Set(to, dtype, ReduceOp::kBitAnd, Reduce<IntFormat<uint64_t>, BitAnd>);
  Set(to, dtype, ReduceOp::kBitOr, Reduce<IntFormat<uint64_t>, BitOr>);
  Set(to, dtype, ReduceOp::kBitXor, Reduce<IntFormat<uint64_t>, BitXor>);
  to.divide[static_cast<int>(dtype)] = DivideInts<T, Wide>;
}

template <typename Format>
constexpr void AddFloats(Kernels& to, DType dtype) {
  Set(to, dtype, ReduceOp::kSum, Reduce<Format, Sum>);
  Set(to, dtype, ReduceOp::kAvg, Reduce<Format, Sum>);
  Set(to, dtype, ReduceOp::kProd, Reduce<Format, Product>);
  Set(to, dtype, ReduceOp::kMin, Reduce<Format, Minimum>);
  Set(to, dtype, ReduceOp::kMax, Reduce<Format, Maximum>);
  to.divide[static_cast<int>(dtype)] = DivideFloats<Format>;
}

constexpr Kernels MakeKernels() {
  Kernels made = {};
  made.name = MUSTER_KERNELS_NAME;
  AddInts<int8_t, uint8_t, float>(made, DType::kInt8);
  AddInts<int16_t, uint16_t, float>(made, DType::kInt16);
  AddInts<int32_t, uint32_t, double>(made, DType::kInt32);
  AddInts<int64_t, uint64_t, int64_t>(made, DType::kInt64);
  AddInts<uint8_t, uint8_t, float>(made, DType::kUInt8);
  AddInts<uint16_t, uint16_t, float>(made, DType::kUInt16);
  AddInts<uint32_t, uint32_t, double>(made, DType::kUInt32);
  AddInts<uint64_t, uint64_t, uint64_t>(made, DType::kUInt64);
  AddFloats<Float16Format>(made, DType::kFloat16);
  AddFloats<BFloat16Format>(made, DType::kBFloat16);
  AddFloats<FloatFormat<float>>(made, DType::kFloat32);
  AddFloats<FloatFormat<double>>(made, DType::kFloat64);
  made.mean[static_cast<int>(DType::kFloat16)] = Mean<Float16Format>;
  made.mean[static_cast<int>(DType::kBFloat16)] = Mean<BFloat16Format>;
  made.narrow = Reduce<FloatFormat<float>, Sum, BFloat16AsFloats>;
  made.widen = Reduce<BFloat16AsFloats, Sum, FloatFormat<float>>;
  return made;
}

}  // namespace

constinit const Kernels MUSTER_KERNELS = MakeKernels();  // no code runs for it

}  // namespace muster
