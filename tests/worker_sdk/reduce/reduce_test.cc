#include "worker_sdk/reduce/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/worker_sdk/reduce/naive.h"
#include "worker_sdk/reduce/kernels.h"

namespace muster {
namespace {

using naive::Brain;
using naive::Half;

class Random {  // SplitMix64
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

template <typename T>
T FromBits(uint64_t bits) {
  T t{};
  std::memcpy(&t, &bits, sizeof t);
  return t;
}

// Half of them any bits (NaN, infinities, denormals), half numbers whose sums are ordinary.
template <typename T>
T AnyElement(Random& random) {
  const uint64_t bits = random.Next();
  if constexpr (!std::is_integral_v<T>) {
    if ((bits >> 63) != 0) {
      const double small = static_cast<double>(static_cast<int>(bits % 4001)) / 64 - 31;
      using Number = decltype(naive::Number(T{}));
      return naive::FromNumber<T>(static_cast<Number>(small));
    }
  }
  return FromBits<T>(bits);
}

template <typename T>
std::vector<T> Elements(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<T> made(count);
  for (T& t : made) t = AnyElement<T>(random);
  return made;
}

template <typename T>
std::vector<std::vector<T>> Sources(int n, size_t count) {
  std::vector<std::vector<T>> made(static_cast<size_t>(n));
  for (size_t s = 0; s < made.size(); ++s) made[s] = Elements<T>(count, 100 + s);
  return made;
}

template <typename T>
std::vector<const void*> Pointers(const std::vector<std::vector<T>>& from, int n, size_t start) {
  std::vector<const void*> made(static_cast<size_t>(n));
  for (size_t s = 0; s < made.size(); ++s) made[s] = &from[s][start];
  return made;
}

template <typename T>
std::vector<T> NaiveReduction(const std::vector<std::vector<T>>& from, int n, ReduceOp op) {
  std::vector<T> result(from[0].size());
  for (size_t i = 0; i < result.size(); ++i) {
    auto sum = naive::Number(from[0][i]);
    for (int s = 1; s < n; ++s) {
      sum = naive::Combined(sum, naive::Number(from[static_cast<size_t>(s)][i]), op);
    }
    result[i] = naive::FromNumber<T>(sum);
  }
  return result;
}

std::vector<const Kernels*> Widths() {
  std::vector<const Kernels*> found;
  for (const Kernels* const* k = KernelsHere(); *k != nullptr; ++k) found.push_back(*k);
  return found;
}

// The first element whose bits differ, or an empty string.
template <typename T>
std::string Difference(const T* got, const T* want, size_t count) {
  const auto* got_bytes = reinterpret_cast<const unsigned char*>(got);
  const auto* want_bytes = reinterpret_cast<const unsigned char*>(want);
  if (std::memcmp(got_bytes, want_bytes, count * sizeof(T)) == 0) return "";
  size_t at = 0;
  while (got_bytes[at] == want_bytes[at]) ++at;
  const size_t i = at / sizeof(T);
  uint64_t bits[2] = {};
  std::memcpy(&bits[0], &got[i], sizeof(T));
  std::memcpy(&bits[1], &want[i], sizeof(T));
  return "element " + std::to_string(i) + ": bits " + std::to_string(bits[0]) + ", want " +
         std::to_string(bits[1]);
}

constexpr size_t kCounts[] = {0, 1, 7, 1000, 4099};
constexpr size_t kStarts[] = {0, 1, 5};
constexpr size_t kLength = 4099 + 5 + 1;

// What `kernel(width, dst, srcs, bytes)` makes of any part of the first `n` of `from`, at every
// width; nothing beside that part is written.
template <typename T, typename Kernel>
void ExpectAtEveryWidth(const std::vector<std::vector<T>>& from, int n, const std::vector<T>& want,
                        const Kernel& kernel) {
  for (const Kernels* width : Widths()) {
    for (const size_t count : kCounts) {
      for (const size_t start : kStarts) {
        const std::vector<const void*> srcs = Pointers(from, n, start);
        const std::vector<T> before = Elements<T>(kLength, 7);
        std::vector<T> got = before;
        kernel(*width, reinterpret_cast<char*>(&got[start]), srcs.data(), count * sizeof(T));
        std::vector<T> expected = before;
        std::copy_n(want.begin() + static_cast<ptrdiff_t>(start), count,
                    expected.begin() + static_cast<ptrdiff_t>(start));
        ASSERT_EQ(Difference(got.data(), expected.data(), kLength), "")
            << width->name << " n " << n << " count " << count << " start " << start;
      }
    }
  }
}

template <typename T>
void ExpectReductions(DType dtype, ReduceOp op) {
  const std::vector<std::vector<T>> from = Sources<T>(32, kLength);
  for (const int n : {2, 3, 4, 5, 6, 7, 8, 9, 10, 32}) {
    ExpectAtEveryWidth(from, n, NaiveReduction(from, n, op),
                       [&](const Kernels& width, char* dst, const void* const* srcs, size_t bytes) {
                         width.reduce[static_cast<int>(dtype)][static_cast<int>(op)](dst, srcs, n,
                                                                                     bytes);
                       });
  }
}

template <typename T>
void ExpectAnyPlace(DType dtype, ReduceOp op) {
  for (const int n : {1, 2, 5, 12}) {
    const std::vector<std::vector<T>> from = Sources<T>(n, 1000);
    const std::vector<T> want = n == 1 ? from[0] : NaiveReduction(from, n, op);
    std::vector<T> apart(want.size());
    ReduceMany(apart.data(), Pointers(from, n, 0).data(), n, apart.size(), dtype, op);
    ASSERT_EQ(Difference(apart.data(), want.data(), want.size()), "") << n;
    for (int place = 0; place < n; ++place) {
      std::vector<std::vector<T>> buffers = from;
      const std::vector<const void*> srcs = Pointers(buffers, n, 0);
      std::vector<T>& dst = buffers[static_cast<size_t>(place)];
      ReduceMany(dst.data(), srcs.data(), n, dst.size(), dtype, op);
      ASSERT_EQ(Difference(dst.data(), want.data(), want.size()), "") << n << " in " << place;
    }
  }
}

template <typename T>
void ExpectAll(DType dtype) {
  ASSERT_EQ(sizeof(T), SizeOf(dtype));
  for (int op = 0; op < kReduceOps; ++op) {
    if (!CheckReduction(dtype, static_cast<ReduceOp>(op)).ok()) continue;
    SCOPED_TRACE(std::string(Name(dtype)) + " " + Name(static_cast<ReduceOp>(op)));
    ExpectReductions<T>(dtype, static_cast<ReduceOp>(op));
    ExpectAnyPlace<T>(dtype, static_cast<ReduceOp>(op));
  }
}

TEST(Reduce, AllOfInt8) { ExpectAll<int8_t>(DType::kInt8); }
TEST(Reduce, AllOfInt16) { ExpectAll<int16_t>(DType::kInt16); }
TEST(Reduce, AllOfInt32) { ExpectAll<int32_t>(DType::kInt32); }
TEST(Reduce, AllOfInt64) { ExpectAll<int64_t>(DType::kInt64); }
TEST(Reduce, AllOfUInt8) { ExpectAll<uint8_t>(DType::kUInt8); }
TEST(Reduce, AllOfUInt16) { ExpectAll<uint16_t>(DType::kUInt16); }
TEST(Reduce, AllOfUInt32) { ExpectAll<uint32_t>(DType::kUInt32); }
TEST(Reduce, AllOfUInt64) { ExpectAll<uint64_t>(DType::kUInt64); }
TEST(Reduce, AllOfFloat16) { ExpectAll<Half>(DType::kFloat16); }
TEST(Reduce, AllOfBFloat16) { ExpectAll<Brain>(DType::kBFloat16); }
TEST(Reduce, AllOfFloat32) { ExpectAll<float>(DType::kFloat32); }
TEST(Reduce, AllOfFloat64) { ExpectAll<double>(DType::kFloat64); }

// --- 16-bit floats: every value there is. ---

template <typename T>
std::vector<T> EveryValue() {
  std::vector<T> every(65536);
  for (uint32_t i = 0; i < 65536; ++i) every[i].bits = static_cast<uint16_t>(i);
  return every;
}

// Every value with `other`, at every width: read exactly, rounded to nearest even.
template <typename T>
void ExpectWithEvery(DType dtype, ReduceOp op, T other) {
  const std::vector<std::vector<T>> from = {EveryValue<T>(), std::vector<T>(65536, other)};
  const std::vector<T> want = NaiveReduction(from, 2, op);
  const void* srcs[] = {from[0].data(), from[1].data()};
  for (const Kernels* width : Widths()) {
    std::vector<T> got(65536);
    width->reduce[static_cast<int>(dtype)][static_cast<int>(op)](
        reinterpret_cast<char*>(got.data()), srcs, 2, got.size() * sizeof(T));
    ASSERT_EQ(Difference(got.data(), want.data(), got.size()), "")
        << width->name << " " << Name(op) << " with bits " << other.bits;
  }
}

// Products with these are exact in float32, and lie on, below and above the middle of two elements;
// some are denormal, some beyond the largest.
template <typename T>
void ExpectRounding(DType dtype, const std::vector<float>& others) {
  for (const float other : others) {
    ExpectWithEvery(dtype, ReduceOp::kProd, naive::ElementOf<T>(other));
    ExpectWithEvery(dtype, ReduceOp::kSum, naive::ElementOf<T>(other));
  }
  Random random(3);
  for (int i = 0; i < 50; ++i) {
    const T other = {static_cast<uint16_t>(random.Next())};
    ExpectWithEvery(dtype, ReduceOp::kProd, other);
    ExpectWithEvery(dtype, ReduceOp::kSum, other);
  }
}

TEST(Reduce, EveryFloat16IsReadAndRounded) {
  ExpectRounding<Half>(DType::kFloat16,
                       {-0.0F, 1.0F, 0.5F, 1.5F, 3.0F, -1.0009765625F, 0.0001220703125F,
                        6.103515625e-05F, 5.9604645e-08F, 65504.0F, 1.25F, 1.75F, 16.015625F});
}
TEST(Reduce, EveryBFloat16IsReadAndRounded) {
  ExpectRounding<Brain>(DType::kBFloat16, {-0.0F, 1.0F, 0.5F, 1.5F, 3.0F, -1.0078125F, 1e-38F,
                                           9.2e-41F, 3.3895e38F, 1.25F, 1.75F, 16.125F});
}

TEST(Reduce, ASumWithMinusZeroIsTheValueItself) {
  const std::vector<Half> every = EveryValue<Half>();
  const std::vector<Half> zeros(65536, Half{0x8000});
  const void* srcs[] = {every.data(), zeros.data()};
  std::vector<Half> got(65536);
  ReduceMany(got.data(), srcs, 2, got.size(), DType::kFloat16, ReduceOp::kSum);
  for (size_t i = 0; i < got.size(); ++i) {
    const bool nan = (i & 0x7FFF) > 0x7C00;
    ASSERT_EQ(got[i].bits, nan ? 0x7E00 : i);
  }
}

TEST(Reduce, SumsOf16BitsAreRoundedOnce) {
  // Each of the ones alone would be lost: the next number after 2048 is 2050, after 256 it is 258.
  const Half half[] = {naive::ElementOf<Half>(2048), naive::ElementOf<Half>(1)};
  const void* halves[] = {&half[0], &half[1], &half[1]};
  Half half_sum = {};
  ReduceMany(&half_sum, halves, 3, 1, DType::kFloat16, ReduceOp::kSum);
  EXPECT_EQ(naive::Number(half_sum), 2050);
  const Brain brain[] = {naive::ElementOf<Brain>(256), naive::ElementOf<Brain>(1)};
  const void* brains[] = {&brain[0], &brain[1], &brain[1]};
  Brain brain_sum = {};
  ReduceMany(&brain_sum, brains, 3, 1, DType::kBFloat16, ReduceOp::kSum);
  EXPECT_EQ(naive::Number(brain_sum), 258);
}

// --- Means of 16-bit floats. ---

template <typename T>
std::vector<T> NaiveMean(const std::vector<std::vector<T>>& from,
                         const std::vector<uint32_t>& weights) {
  std::vector<T> result(from[0].size());
  for (size_t i = 0; i < result.size(); ++i) {
    float all = 0;
    for (const uint32_t weight : weights) all += static_cast<float>(weight);
    // A power of two: no bit is lost by it, and no sum is beyond float32.
    const float scale = std::exp2(-std::ceil(std::log2(all)));
    float sum = naive::Number(from[0][i]) * (static_cast<float>(weights[0]) * scale);
    for (size_t s = 1; s < weights.size(); ++s) {
      sum += naive::Number(from[s][i]) * (static_cast<float>(weights[s]) * scale);
    }
    result[i] = naive::FromNumber<T>(sum / (all * scale));
  }
  return result;
}

template <typename T>
void ExpectMeans(DType dtype, bool weighted) {
  const std::vector<std::vector<T>> from = Sources<T>(32, kLength);
  for (const int n : {1, 2, 3, 8, 9, 10, 17, 18, 32}) {
    std::vector<uint32_t> weights(static_cast<size_t>(n), 1);
    if (weighted) {
      for (size_t s = 0; s < weights.size(); ++s) weights[s] = 1 + static_cast<uint32_t>(s) * 3 % 7;
    }
    const uint32_t* const given = weighted ? weights.data() : nullptr;
    const std::vector<T> want = NaiveMean(from, weights);
    ExpectAtEveryWidth(from, n, want,
                       [&](const Kernels& width, char* dst, const void* const* srcs, size_t bytes) {
                         width.mean[static_cast<int>(dtype)](dst, srcs, given, n, bytes);
                       });
    for (int place = 0; place < n; ++place) {
      std::vector<std::vector<T>> buffers = from;
      const std::vector<const void*> srcs = Pointers(buffers, n, 0);
      std::vector<T>& dst = buffers[static_cast<size_t>(place)];
      MeanMany(dst.data(), srcs.data(), given, n, dst.size(), dtype);
      const std::vector<T>& result = n > 1 ? want : from[0];  // one is copied, NaNs as they are
      ASSERT_EQ(Difference(dst.data(), result.data(), want.size()), "") << n << " in " << place;
    }
  }
}

TEST(Mean, OfAnyPlaceAndWidth) {
  for (const bool weighted : {false, true}) {
    ExpectMeans<Half>(DType::kFloat16, weighted);
    ExpectMeans<Brain>(DType::kBFloat16, weighted);
  }
}

TEST(Mean, TheSumMayBeBeyondTheLargestNumber) {
  const std::vector<std::vector<Half>> from(20, {naive::ElementOf<Half>(60000)});
  Half mean = {};
  MeanMany(&mean, Pointers(from, 20, 0).data(), nullptr, 20, 1, DType::kFloat16);
  EXPECT_EQ(naive::Number(mean), 60000);
}

// Every finite number of the type, of which some sums are beyond float32 and some below it.
template <typename T>
void ExpectEqualNumbersToStay(DType dtype) {
  std::vector<T> all;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const T number = std::bit_cast<T>(static_cast<uint16_t>(bits));
    if (std::isfinite(naive::Number(number))) all.push_back(number);
  }
  const uint32_t weights[] = {1, 5, 4000};
  for (const uint32_t* given : {static_cast<const uint32_t*>(nullptr), weights}) {
    const void* const srcs[] = {all.data(), all.data(), all.data()};
    std::vector<T> mean(all.size());
    MeanMany(mean.data(), srcs, given, 3, all.size(), dtype);
    ASSERT_EQ(Difference(mean.data(), all.data(), all.size()), "");
  }
}

TEST(Mean, OfEqualNumbersIsThatNumber) {
  ExpectEqualNumbersToStay<Half>(DType::kFloat16);
  ExpectEqualNumbersToStay<Brain>(DType::kBFloat16);
}

// --- Between float32 and bfloat16. ---

template <typename From, typename To>
void ExpectSumsInto(ReduceKernel Kernels::*kernel) {
  const std::vector<std::vector<From>> from = Sources<From>(32, kLength);
  for (const int n : {1, 2, 3, 5, 9, 10, 32}) {
    for (const size_t count : kCounts) {
      for (const size_t start : kStarts) {
        const std::vector<To> before = Elements<To>(kLength, 7);
        std::vector<To> want = before;
        for (size_t i = start; i < start + count; ++i) {
          float sum = naive::Number(from[0][i]);
          for (size_t s = 1; s < static_cast<size_t>(n); ++s) sum += naive::Number(from[s][i]);
          want[i] = naive::FromNumber<To>(sum);
        }
        const std::vector<const void*> srcs = Pointers(from, n, start);
        for (const Kernels* width : Widths()) {
          std::vector<To> got = before;
          (width->*kernel)(reinterpret_cast<char*>(&got[start]), srcs.data(), n,
                           count * sizeof(From));
          ASSERT_EQ(Difference(got.data(), want.data(), kLength), "")
              << width->name << " n " << n << " count " << count << " start " << start;
        }
      }
    }
  }
}

TEST(Reduce, SumsOfOneTypeIntoTheOther) {
  ExpectSumsInto<float, Brain>(&Kernels::narrow);
  ExpectSumsInto<Brain, float>(&Kernels::widen);
}

TEST(Reduce, ThereAndBackIsTheValueItself) {
  const std::vector<Brain> every = EveryValue<Brain>();
  std::vector<float> wide(every.size());
  std::vector<Brain> back(every.size());
  const void* narrow_src = every.data();
  const void* wide_src = wide.data();
  SumOfBFloat16(wide.data(), &narrow_src, 1, every.size());
  SumIntoBFloat16(back.data(), &wide_src, 1, every.size());
  for (size_t i = 0; i < every.size(); ++i) {
    const bool nan = (i & 0x7FFF) > 0x7F80;
    ASSERT_EQ(back[i].bits, nan ? 0x7FC0 : i);
  }
}

// --- Divide. ---

template <typename T>
T Quotient(T value, uint32_t n) {
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
    return static_cast<T>(static_cast<int64_t>(value) / static_cast<int64_t>(n));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(value) / n);
  } else {
    using Number = decltype(naive::Number(T{}));
    return naive::FromNumber<T>(naive::Number(value) / static_cast<Number>(n));
  }
}

template <typename T>
void ExpectDivided(DType dtype) {
  SCOPED_TRACE(Name(dtype));
  std::vector<T> values = Elements<T>(4099, 11);
  if constexpr (sizeof(T) == 2) {
    for (uint64_t i = 0; i < 65536; ++i) values.push_back(FromBits<T>(i));
  }
  if constexpr (std::is_integral_v<T>) {
    for (int i = -300; i <= 300; ++i) {
      values.push_back(static_cast<T>(i));
      values.push_back(static_cast<T>(std::numeric_limits<T>::max() - static_cast<T>(i & 127)));
      values.push_back(static_cast<T>(std::numeric_limits<T>::min() + static_cast<T>(i & 127)));
    }
  }
  for (const uint32_t n :
       {2U, 3U, 7U, 16U, 64U, 127U, 1000U, 4097U, 65535U, 0x01000001U, 0x80000001U, 0xFFFFFFFFU}) {
    for (const Kernels* width : Widths()) {
      std::vector<T> got = values;
      width->divide[static_cast<int>(dtype)](reinterpret_cast<char*>(got.data()),
                                             got.size() * sizeof(T), n);
      for (T& value : got) {
        const T want = Quotient(values[static_cast<size_t>(&value - got.data())], n);
        ASSERT_EQ(Difference(&value, &want, 1), "")
            << width->name << " n " << n << " at " << &value - got.data();
      }
    }
  }
}

TEST(Divide, TowardsZeroAndRoundedOnce) {
  ExpectDivided<int8_t>(DType::kInt8);
  ExpectDivided<int16_t>(DType::kInt16);
  ExpectDivided<int32_t>(DType::kInt32);
  ExpectDivided<int64_t>(DType::kInt64);
  ExpectDivided<uint8_t>(DType::kUInt8);
  ExpectDivided<uint16_t>(DType::kUInt16);
  ExpectDivided<uint32_t>(DType::kUInt32);
  ExpectDivided<uint64_t>(DType::kUInt64);
  ExpectDivided<Half>(DType::kFloat16);
  ExpectDivided<Brain>(DType::kBFloat16);
  ExpectDivided<float>(DType::kFloat32);
  ExpectDivided<double>(DType::kFloat64);
}

TEST(Divide, ByOneChangesNothing) {
  std::vector<float> values = Elements<float>(100, 1);
  const std::vector<float> before = values;
  Divide(values.data(), values.size(), DType::kFloat32, 1);
  EXPECT_EQ(Difference(values.data(), before.data(), before.size()), "");
}

// --- What exists. ---

TEST(CheckReduction, BitOperationsAreForIntegers) {
  for (int d = 0; d < kDTypes; ++d) {
    for (int o = 0; o < kReduceOps; ++o) {
      const bool ok = CheckReduction(static_cast<DType>(d), static_cast<ReduceOp>(o)).ok();
      EXPECT_EQ(ok,
                d < static_cast<int>(DType::kFloat16) || o < static_cast<int>(ReduceOp::kBitAnd));
      for (const Kernels* width : Widths()) EXPECT_EQ(width->reduce[d][o] != nullptr, ok);
    }
  }
  const Status status = CheckReduction(DType::kBFloat16, ReduceOp::kBitXor);
  EXPECT_EQ(status.ToString(),
            "INVALID_ARGUMENT: reduction bxor is for integers, got bfloat16: use sum, avg, prod, "
            "min or max");
}

TEST(Names, OfEveryTypeAndOperation) {
  std::vector<std::string> names;
  names.reserve(kDTypes + kReduceOps);
  for (int d = 0; d < kDTypes; ++d) names.emplace_back(Name(static_cast<DType>(d)));
  for (int o = 0; o < kReduceOps; ++o) names.emplace_back(Name(static_cast<ReduceOp>(o)));
  EXPECT_THAT(names,
              testing::ElementsAre("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                                   "uint64", "float16", "bfloat16", "float32", "float64", "sum",
                                   "avg", "prod", "min", "max", "band", "bor", "bxor"));
  EXPECT_EQ(Status().ToString(), "OK");
}

}  // namespace
}  // namespace muster
