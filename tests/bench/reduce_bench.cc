// reduce-bench [DTYPE]: the kernels of worker_sdk/reduce against loops that one would write, as
// CSV.
//   dtype,op,n,bytes    n sources of so many bytes each, into a buffer of their size
//   ours                what ReduceMany() takes on this machine, GB/s: (n + 1) * bytes / time
//   base,avx2,avx512    the same loops at each width that this machine can execute
//   plain               dst[i] = a[i] op b[i] (then dst[i] op= c[i], ...), compiled by -O3
//   clones              the same, by target_clones for AVX-512, AVX2 and the base
//   memcpy              of one source, GB/s: 2 * bytes / time
// Each is the best of many short bursts; the variants take turns, so that what else the machine
// does meets all of them alike, and each has a call before its burst: one of the others may take
// so long that all caches are somebody else's then.
// Of 2 sources of float32 or float64 in the first-level cache, ours reach 0.8 of the clones'
// throughput: they make every NaN the same one, for equal bits on every rank.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "muster/types.h"
#include "worker_sdk/reduce/kernels.h"
#include "worker_sdk/reduce/reduce.h"

#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define MUSTER_CLONES \
  __attribute__((optimize("O3"), target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MUSTER_CLONES
#endif
#if defined(__clang__)
#define MUSTER_PLAIN
#else
#define MUSTER_PLAIN __attribute__((optimize("O3")))
#endif

namespace muster {
namespace {

// --- The loops that one would write. ---

inline __attribute__((always_inline)) float Widened(uint16_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float f = 0;
  std::memcpy(&f, &word, sizeof f);
  return f;
}
inline __attribute__((always_inline)) uint16_t Narrowed(float f) {
  uint32_t word = 0;
  std::memcpy(&word, &f, sizeof f);
  const uint32_t rounded = (word + 0x7FFFU + ((word >> 16) & 1U)) >> 16;
  return static_cast<uint16_t>(f != f ? 0x7FC0U : rounded);
}

template <typename T, typename Combine>
inline __attribute__((always_inline)) void Each(void* dst, const void* left, const void* right,
                                                size_t count, Combine combine) {
  T* d = static_cast<T*>(dst);
  const T* l = static_cast<const T*>(left);
  const T* r = static_cast<const T*>(right);
  for (size_t i = 0; i < count; ++i) d[i] = static_cast<T>(combine(l[i], r[i]));
}

#define MUSTER_LOOPS(name, type, combine)                                                         \
  MUSTER_PLAIN void Plain##name(void* dst, const void* left, const void* right, size_t count) {   \
    Each<type>(dst, left, right, count, combine);                                                 \
  }                                                                                               \
  MUSTER_CLONES void Clones##name(void* dst, const void* left, const void* right, size_t count) { \
    Each<type>(dst, left, right, count, combine);                                                 \
  }

MUSTER_LOOPS(SumInt8, uint8_t, [](uint8_t a, uint8_t b) { return a + b; })
MUSTER_LOOPS(SumInt16, uint16_t, [](uint16_t a, uint16_t b) { return a + b; })
MUSTER_LOOPS(SumInt32, uint32_t, [](uint32_t a, uint32_t b) { return a + b; })
MUSTER_LOOPS(SumInt64, uint64_t, [](uint64_t a, uint64_t b) { return a + b; })
MUSTER_LOOPS(ProdInt64, uint64_t, [](uint64_t a, uint64_t b) { return a * b; })
MUSTER_LOOPS(MaxInt8, int8_t, [](int8_t a, int8_t b) { return a > b ? a : b; })
MUSTER_LOOPS(SumBFloat16, uint16_t,
             [](uint16_t a, uint16_t b) { return Narrowed(Widened(a) + Widened(b)); })
MUSTER_LOOPS(SumFloat32, float, [](float a, float b) { return a + b; })
MUSTER_LOOPS(ProdFloat32, float, [](float a, float b) { return a * b; })
MUSTER_LOOPS(MaxFloat32, float, [](float a, float b) { return (a > b || a != a) ? a : b; })
MUSTER_LOOPS(SumFloat64, double, [](double a, double b) { return a + b; })
#if defined(__FLT16_MAX__)
MUSTER_LOOPS(SumFloat16, _Float16,
             [](_Float16 a, _Float16 b) { return static_cast<float>(a) + static_cast<float>(b); })
#endif

using Loop = void (*)(void* dst, const void* left, const void* right, size_t count);
struct Case {
  DType dtype;
  ReduceOp op;
  Loop plain;
  Loop clones;
};
const Case cases[] = {
    {DType::kInt8, ReduceOp::kSum, PlainSumInt8, ClonesSumInt8},
    {DType::kInt8, ReduceOp::kMax, PlainMaxInt8, ClonesMaxInt8},
    {DType::kInt16, ReduceOp::kSum, PlainSumInt16, ClonesSumInt16},
    {DType::kInt32, ReduceOp::kSum, PlainSumInt32, ClonesSumInt32},
    {DType::kInt64, ReduceOp::kSum, PlainSumInt64, ClonesSumInt64},
    {DType::kInt64, ReduceOp::kProd, PlainProdInt64, ClonesProdInt64},
#if defined(__FLT16_MAX__)
    {DType::kFloat16, ReduceOp::kSum, PlainSumFloat16, ClonesSumFloat16},
#else
    {DType::kFloat16, ReduceOp::kSum, nullptr, nullptr},
#endif
    {DType::kBFloat16, ReduceOp::kSum, PlainSumBFloat16, ClonesSumBFloat16},
    {DType::kFloat32, ReduceOp::kSum, PlainSumFloat32, ClonesSumFloat32},
    {DType::kFloat32, ReduceOp::kProd, PlainProdFloat32, ClonesProdFloat32},
    {DType::kFloat32, ReduceOp::kMax, PlainMaxFloat32, ClonesMaxFloat32},
    {DType::kFloat64, ReduceOp::kSum, PlainSumFloat64, ClonesSumFloat64},
};

// --- Measuring. ---

using Clock = std::chrono::steady_clock;
using Work = std::function<void()>;

double SecondsOf(const Work& work, int times) {
  work();
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) work();
  return std::chrono::duration<double>(Clock::now() - start).count() / times;
}

// Seconds of each, the best of their turns.
std::vector<double> Best(const std::vector<Work>& works) {
  constexpr double kBurst = 200e-6;
  constexpr double kTurns = 25;
  std::vector<int> times;
  std::vector<double> best;
  for (const Work& work : works) {
    best.push_back(std::min(SecondsOf(work, 1), SecondsOf(work, 1)));
    times.push_back(std::max(1, static_cast<int>(kBurst / best.back())));
  }
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t w = 0; w < works.size(); ++w) {
      best[w] = std::min(best[w], SecondsOf(works[w], times[w]));
    }
  }
  return best;
}

// Each begins with a cache line, and lies a page's odd part from the next, so that they do not
// compete for the same places of a cache.
struct Buffers {
  Buffers(int n, size_t bytes)
      : step(bytes + 4096 + 5 * kLine), memory((step * static_cast<size_t>(n + 1) + kLine) / 8) {
    uint64_t state = 1;
    for (uint64_t& word : memory) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      word = (state & 0x3F0F3F0F3F0F3F0FU) | 0x3000300030003000U;  // finite in every float type
    }
    char* first = reinterpret_cast<char*>(memory.data());
    first += (kLine - reinterpret_cast<uintptr_t>(first) % kLine) % kLine;
    for (int s = 0; s <= n; ++s) at.push_back(first + step * static_cast<size_t>(s));
  }
  static constexpr size_t kLine = 64;
  size_t step;
  std::vector<uint64_t> memory;
  std::vector<char*> at;
};

void Measure(const Case& c, int n, size_t bytes) {
  Buffers buffers(n, bytes);
  const std::vector<const void*> srcs(buffers.at.begin() + 1, buffers.at.end());
  char* dst = buffers.at[0];
  const size_t count = bytes / SizeOf(c.dtype);

  std::vector<Work> works;
  works.emplace_back([&] { ReduceMany(dst, srcs.data(), n, count, c.dtype, c.op); });
  for (const Kernels* const* k = KernelsHere(); *k != nullptr; ++k) {
    const ReduceKernel kernel = (*k)->reduce[static_cast<int>(c.dtype)][static_cast<int>(c.op)];
    works.emplace_back([=, &srcs] { kernel(dst, srcs.data(), n, bytes); });
  }
  const size_t widths = works.size() - 1;
  for (const Loop loop : {c.plain, c.clones}) {
    works.emplace_back([=, &srcs] {
      if (loop == nullptr) return;
      loop(dst, srcs[0], srcs[1], count);
      for (size_t s = 2; s < srcs.size(); ++s) loop(dst, dst, srcs[s], count);
    });
  }
  works.emplace_back([=, &srcs] { std::memcpy(dst, srcs[0], bytes); });

  const std::vector<double> seconds = Best(works);
  const double moved = static_cast<double>(bytes) * (n + 1) / 1e9;
  std::printf("%s,%s,%d,%zu,%.1f", Name(c.dtype), Name(c.op), n, bytes, moved / seconds[0]);
  for (size_t w = 0; w < 3; ++w) {
    if (w < widths) {
      std::printf(",%.1f", moved / seconds[1 + w]);
    } else {
      std::printf(",");
    }
  }
  for (size_t w = widths + 1; w < widths + 3; ++w) {
    if (c.plain != nullptr) {
      std::printf(",%.1f", moved / seconds[w]);
    } else {
      std::printf(",");
    }
  }
  std::printf(",%.1f\n", 2 * static_cast<double>(bytes) / 1e9 / seconds.back());
  std::fflush(stdout);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  constexpr size_t kTotalMax = size_t{256} << 20;
  std::printf("dtype,op,n,bytes,ours,base,avx2,avx512,plain,clones,memcpy\n");
  for (const muster::Case& c : muster::cases) {
    if (argc > 1 && std::string_view(argv[1]) != muster::Name(c.dtype)) continue;
    for (const int n : {2, 3, 8, 32}) {
      for (const size_t bytes :
           {size_t{4} << 10, size_t{64} << 10, size_t{1} << 20, size_t{16} << 20}) {
        if (bytes * static_cast<size_t>(n + 1) <= kTotalMax) muster::Measure(c, n, bytes);
      }
    }
  }
  return 0;
}
