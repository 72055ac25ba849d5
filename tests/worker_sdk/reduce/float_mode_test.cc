// A thread's own way of rounding, and of treating denormal numbers, changes no bit of a reduction.
#include "worker_sdk/reduce/float_mode.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "worker_sdk/reduce/reduce.h"

namespace muster {
namespace {

#if defined(__x86_64__)
uint32_t Mode() {
  uint32_t word = 0;
  __asm__ volatile("stmxcsr %0" : "=m"(word));
  return word;
}
void SetMode(uint32_t word) { __asm__ volatile("ldmxcsr %0" : : "m"(word)); }
constexpr uint32_t kFlushes = 0x1F80 | 0x8040;  // results and operands
constexpr uint32_t kRoundsUp = 0x1F80 | 0x4000;
constexpr uint32_t kFlags = 0x3F;
#elif defined(__aarch64__)
uint64_t Mode() {
  uint64_t word = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
void SetMode(uint64_t word) { __asm__ volatile("msr fpcr, %0" : : "r"(word)); }
constexpr uint64_t kFlushes = 1U << 24;
constexpr uint64_t kRoundsUp = 1U << 22;
constexpr uint64_t kFlags = 0;
#endif

class InMode : public testing::TestWithParam<decltype(Mode())> {
 protected:
  // What `reduce` leaves in `out` does not depend on the mode, and the mode is left as it was.
  template <typename Function>
  static void ExpectSameBits(std::vector<uint8_t>& out, const std::string& what,
                             const Function& reduce) {
    const std::vector<uint8_t> before = out;
    const auto usual = Mode();
    reduce();
    const std::vector<uint8_t> want = out;
    out = before;
    SetMode(GetParam());
    reduce();
    const auto after = Mode();
    SetMode(usual);
    EXPECT_EQ(out, want) << what;
    EXPECT_EQ(after & ~kFlags, GetParam()) << what;
  }
};

constexpr size_t kCount = 37;  // vectors, and a rest

// Two sources of each type: denormal numbers, and such whose sums and quotients are rounded.
template <typename Bits>
std::vector<Bits> Source(Bits first, Bits step) {
  std::vector<Bits> out(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    out[i] = static_cast<Bits>(first + static_cast<Bits>(i) * step);
  }
  return out;
}

template <typename Bits>
void ExpectOfType(DType dtype, Bits denormal, Bits ordinary, Bits step,
                  void (*expect)(DType, const void*, const void*)) {
  const std::vector<Bits> small = Source<Bits>(denormal, step);
  const std::vector<Bits> left = Source<Bits>(ordinary, step);
  const std::vector<Bits> right = Source<Bits>(static_cast<Bits>(ordinary + 99), 3);
  expect(dtype, small.data(), small.data());
  expect(dtype, left.data(), right.data());
}

void ForFloats(void (*expect)(DType, const void*, const void*)) {
  ExpectOfType<uint16_t>(DType::kFloat16, 3, 0x3C01, 5, expect);
  ExpectOfType<uint16_t>(DType::kBFloat16, 3, 0x3F81, 1, expect);
  ExpectOfType<uint32_t>(DType::kFloat32, 70001, 0x3DCCCCCD, 7919, expect);
  ExpectOfType<uint64_t>(DType::kFloat64, 70001, 0x3FB999999999999AU, 7919, expect);
}

TEST_P(InMode, ReducesToTheSameBits) {
  ForFloats([](DType dtype, const void* left, const void* right) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax}) {
      std::vector<uint8_t> out(kCount * SizeOf(dtype));
      const void* const sources[] = {left, right, left};
      for (const int n : {2, 3}) {
        ExpectSameBits(out, std::string(Name(dtype)) + " " + Name(op),
                       [&] { ReduceMany(out.data(), sources, n, kCount, dtype, op); });
      }
    }
  });
}

TEST_P(InMode, DividesToTheSameBits) {
  ForFloats([](DType dtype, const void* left, const void* right) {
    std::vector<uint8_t> out(kCount * SizeOf(dtype));
    std::memcpy(out.data(), left, out.size());
    ExpectSameBits(out, Name(dtype), [&] { Divide(out.data(), kCount, dtype, 3); });
    if (SizeOf(dtype) == sizeof(uint16_t)) {
      const void* const sources[] = {left, right};
      ExpectSameBits(out, std::string("mean of ") + Name(dtype),
                     [&] { MeanMany(out.data(), sources, nullptr, 2, kCount, dtype); });
    }
  });
}

TEST_P(InMode, DividesIntegersTowardsZero) {
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kUInt32}) {
    std::vector<uint8_t> out(kCount * SizeOf(dtype), 0x7F);
    ExpectSameBits(out, Name(dtype), [&] { Divide(out.data(), kCount, dtype, 7); });
  }
}

TEST_P(InMode, NarrowsAndWidensToTheSameBits) {
  const std::vector<uint32_t> ordinary = Source<uint32_t>(0x3DCCCCCD, 7919);
  const std::vector<uint32_t> small = Source<uint32_t>(70001, 7919);
  const std::vector<uint16_t> narrow = Source<uint16_t>(3, 5);
  for (const auto* source : {&ordinary, &small}) {
    const void* const sources[] = {source->data(), source->data()};
    std::vector<uint8_t> out(kCount * sizeof(uint16_t));
    for (const int n : {1, 2}) {
      ExpectSameBits(out, "narrow", [&] { SumIntoBFloat16(out.data(), sources, n, kCount); });
    }
  }
  const void* const sources[] = {narrow.data(), narrow.data()};
  std::vector<uint8_t> out(kCount * sizeof(float));
  for (const int n : {1, 2}) {
    ExpectSameBits(out, "widen", [&] { SumOfBFloat16(out.data(), sources, n, kCount); });
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, InMode, testing::Values(kFlushes, kRoundsUp), [](const auto& mode) {
  return mode.param == kFlushes ? "flushes" : "rounds_up";
});

}  // namespace
}  // namespace muster
