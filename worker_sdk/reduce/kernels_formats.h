// How elements lie in memory and in vector registers. A Format reads a Register from kBytes of
// memory and writes it; its Tile is the format of what is not yet the result.
//
// Only for kernels_impl.h, whose rule holds here too: nothing that another file could share.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace muster {
namespace {

#define MUSTER_INLINE inline __attribute__((always_inline))

constexpr size_t kVectorBytes = MUSTER_VECTOR_BYTES;

template <typename T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(MUSTER_VECTOR_BYTES)));  // NOLINT(modernize-use-using)
};
template <typename T>
using Vector = typename VectorOf<T>::Type;
using Floats = Vector<float>;
using Doubles = Vector<double>;
using Words = Vector<uint32_t>;

template <typename V>
MUSTER_INLINE V LoadVector(const char* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
template <typename V>
MUSTER_INLINE void StoreVector(char* to, V v) {
  __builtin_memcpy(to, &v, sizeof v);
}

MUSTER_INLINE Words BitsOf(Floats f) { return reinterpret_cast<Words>(f); }
MUSTER_INLINE Floats FloatsOf(Words w) { return reinterpret_cast<Floats>(w); }

template <typename T>
struct IntFormat {
  using Register = Vector<T>;
  using Tile = IntFormat;
  static constexpr size_t kBytes = kVectorBytes;
  static MUSTER_INLINE Register Load(const char* from) { return LoadVector<Register>(from); }
  static MUSTER_INLINE void Store(char* to, Register r) { StoreVector(to, r); }
};

template <typename T>
struct FloatFormat {
  using Register = Vector<T>;
  using Tile = FloatFormat;
  static constexpr size_t kBytes = kVectorBytes;
  static MUSTER_INLINE Register Load(const char* from) { return LoadVector<Register>(from); }
  static MUSTER_INLINE void Store(char* to, Register r) {
    StoreVector(to, r == r ? r : Register{} + static_cast<T>(__builtin_nan("")));
  }
};

// Twice as many as a vector of 16-bit elements holds. Where they come by arithmetic, two lie in
// each 32-bit word: the even ones of the vector are first, the odd ones second.
struct FloatPair {
  Floats first;
  Floats second;
};

// As it is in registers.
struct PairFormat {
  using Register = FloatPair;
  static constexpr size_t kBytes = 2 * kVectorBytes;
  static MUSTER_INLINE Register Load(const char* from) {
    return {LoadVector<Floats>(from), LoadVector<Floats>(from + kVectorBytes)};
  }
  static MUSTER_INLINE void Store(char* to, Register r) {
    StoreVector(to, r.first);
    StoreVector(to + kVectorBytes, r.second);
  }
};

// Every NaN as the same one.
MUSTER_INLINE Words QuietBits(Floats f) { return f == f ? BitsOf(f) : Words{} + 0x7FC00000U; }

// To nearest even in the upper half; a NaN as it is, whose lower half is zero.
MUSTER_INLINE Words RoundedToUpperHalf(Floats f) {
  const Words bits = QuietBits(f);
  return bits + 0x7FFFU + ((bits >> 16) & 1U);
}

struct BFloat16Format {
  using Register = FloatPair;
  using Tile = PairFormat;
  static constexpr size_t kBytes = kVectorBytes;
  static MUSTER_INLINE Register Load(const char* from) {
    const Words words = LoadVector<Words>(from);
    return {FloatsOf(words << 16), FloatsOf(words & 0xFFFF0000U)};
  }
  static MUSTER_INLINE void Store(char* to, Register r) {
    StoreVector(to,
                (RoundedToUpperHalf(r.first) >> 16) | (RoundedToUpperHalf(r.second) & 0xFFFF0000U));
  }
};

// bfloat16 whose register is that of float32: sources of the one kind have results of the other.
struct BFloat16AsFloats {
  using Register = Floats;
  using Tile = FloatFormat<float>;
  static constexpr size_t kBytes = kVectorBytes / 2;
  typedef uint16_t Halves  // NOLINT(modernize-use-using)
      __attribute__((vector_size(MUSTER_VECTOR_BYTES / 2)));
  static MUSTER_INLINE Register Load(const char* from) {
    return FloatsOf(__builtin_convertvector(LoadVector<Halves>(from), Words) << 16);
  }
  static MUSTER_INLINE void Store(char* to, Register r) {
    StoreVector(to, __builtin_convertvector(RoundedToUpperHalf(r) >> 16, Halves));
  }
};

#if defined(__F16C__)
struct Float16Format {
  using Register = FloatPair;  // the lower half of a vector, and the upper
  using Tile = PairFormat;
  static constexpr size_t kBytes = kVectorBytes;
  static MUSTER_INLINE Register Load(const char* from) {
    return {Widened(from), Widened(from + kBytes / 2)};
  }
  static MUSTER_INLINE void Store(char* to, Register r) {
    Narrowed(to, r.first);
    Narrowed(to + kBytes / 2, r.second);
  }

 private:
#if MUSTER_VECTOR_BYTES == 64
  // GCC 12 warns of its own unmasked forms; a mask of all costs nothing.
  static constexpr __mmask16 kAll = 0xFFFF;

  static MUSTER_INLINE Floats Widened(const char* from) {
    return reinterpret_cast<Floats>(
        _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
  }
  static MUSTER_INLINE void Narrowed(char* to, Floats f) {
    const auto quiet = reinterpret_cast<__m512>(QuietBits(f));
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(to),
        _mm512_maskz_cvtps_ph(kAll, quiet, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
#else
  static MUSTER_INLINE Floats Widened(const char* from) {
    return reinterpret_cast<Floats>(
        _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
  }
  static MUSTER_INLINE void Narrowed(char* to, Floats f) {
    const auto quiet = reinterpret_cast<__m256>(QuietBits(f));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm256_cvtps_ph(quiet, _MM_FROUND_TO_NEAREST_INT));
  }
#endif
};
#else
// The conversions of Fabian Giesen, "half_to_float_fast4" and "float_to_half_fast3_rtne": exact,
// and equal to F16C's. No intermediate result is a denormal float32, so programs that flush those
// to zero get the same.
struct Float16Format {
  using Register = FloatPair;
  using Tile = PairFormat;
  static constexpr size_t kBytes = kVectorBytes;
  static MUSTER_INLINE Register Load(const char* from) {
    const Words words = LoadVector<Words>(from);
    return {Widened(words & 0xFFFFU), Widened(words >> 16)};
  }
  static MUSTER_INLINE void Store(char* to, Register r) {
    StoreVector(to, Narrowed(r.first) | (Narrowed(r.second) << 16));
  }

 private:
  static constexpr uint32_t kRebias = (127U - 15U) << 23;

  static MUSTER_INLINE Floats Widened(Words half) {
    const Words exponent_bits = Words{} + 0x0F800000U;
    const Words shifted = (half & 0x7FFFU) << 13;
    const Words exponent = shifted & exponent_bits;
    const Words normal = shifted + kRebias;
    const Words special = normal + ((128U - 16U) << 23);  // infinity, NaN
    const Floats tiny = FloatsOf(normal + (1U << 23)) - FloatsOf(Words{} + (113U << 23));
    const Words magnitude = exponent == exponent_bits ? special
                            : exponent == Words{}     ? BitsOf(tiny)
                                                      : normal;
    return FloatsOf(magnitude | ((half & 0x8000U) << 16));
  }

  static MUSTER_INLINE Words Narrowed(Floats f) {
    const Words bits = QuietBits(f);
    const Words sign = bits & 0x80000000U;
    const Words magnitude = bits ^ sign;
    const Words infinity = Words{} + (255U << 23);
    const Words special = magnitude > infinity ? Words{} + 0x7E00U : Words{} + 0x7C00U;
    // Added to a value below 2^-14, it leaves the bits of a float16 denormal, rounded.
    const Words magic = Words{} + ((127U - 15U + 23U - 10U + 1U) << 23);
    const Words tiny = BitsOf(FloatsOf(magnitude) + FloatsOf(magic)) - magic;
    const Words odd = (magnitude >> 13) & 1U;
    const Words normal = (magnitude - kRebias + 0xFFFU + odd) >> 13;
    const Words half = magnitude >= Words{} + ((127U + 16U) << 23) ? special
                       : magnitude < Words{} + (113U << 23)        ? tiny
                                                                   : normal;
    return half | (sign >> 16);
  }
};
#endif

}  // namespace
}  // namespace muster
