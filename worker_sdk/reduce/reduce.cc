#include "worker_sdk/reduce/reduce.h"

#include <cstring>
#include <string>

#include "worker_sdk/reduce/float_mode.h"
#include "worker_sdk/reduce/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace muster {
namespace {

#if defined(__x86_64__)
// Of the processor and the system together. By hand: __builtin_cpu_supports() would bring libgcc's
// constructor into the library, and clang does not know every name.
struct Processor {
  bool avx2 = false;    // and F16C
  bool avx512 = false;  // F, BW, DQ and VL

  Processor() {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_OSXSAVE) == 0) return;
    const bool f16c = (ecx & bit_F16C) != 0;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return;
    constexpr unsigned kAvx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    avx2 = f16c && (ebx & bit_AVX2) != 0 && SystemKeeps(0x06);
    avx512 = avx2 && (ebx & kAvx512) == kAvx512 && SystemKeeps(0xE6);
  }

 private:
  // Whether registers of these kinds (bits of XCR0) survive a change of task.
  static bool SystemKeeps(unsigned kinds) {
    unsigned low = 0;
    unsigned high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & kinds) == kinds;
  }
};
#endif

struct Usable {
  const Kernels* list[4] = {&base_kernels};
  const Kernels* widest = &base_kernels;

  Usable() {
#if defined(__x86_64__)
    const Processor processor;
    if (processor.avx2) list[1] = widest = &avx2_kernels;
    if (processor.avx512) list[2] = widest = &avx512_kernels;
#endif
  }
};

// Found out at the first call: libmuster runs nothing before main().
const Usable& Here() {
  static const Usable usable;
  return usable;
}

bool IsFloat(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}
bool IsBitwise(ReduceOp op) {
  return op == ReduceOp::kBitAnd || op == ReduceOp::kBitOr || op == ReduceOp::kBitXor;
}

}  // namespace

const Kernels* const* KernelsHere() { return Here().list; }

Status CheckReduction(DType dtype, ReduceOp op) {
  if (!IsFloat(dtype) || !IsBitwise(op)) return Status();
  return Status(StatusCode::kInvalidArgument, std::string("reduction ") + Name(op) +
                                                  " is for integers, got " + Name(dtype) +
                                                  ": use sum, avg, prod, min or max");
}

void ReduceMany(void* dst, const void* const* srcs, int n, size_t count, DType dtype, ReduceOp op) {
  const size_t bytes = count * SizeOf(dtype);
  if (n == 1) {
    if (dst != srcs[0] && bytes != 0) std::memcpy(dst, srcs[0], bytes);
    return;
  }
  const DefaultFloatMode mode;
  Here().widest->reduce[static_cast<int>(dtype)][static_cast<int>(op)](static_cast<char*>(dst),
                                                                       srcs, n, bytes);
}

void MeanMany(void* dst, const void* const* srcs, const uint32_t* weights, int n, size_t count,
              DType dtype) {
  const size_t bytes = count * SizeOf(dtype);
  if (n == 1) {
    if (dst != srcs[0] && bytes != 0) std::memcpy(dst, srcs[0], bytes);
    return;
  }
  const DefaultFloatMode mode;
  Here().widest->mean[static_cast<int>(dtype)](static_cast<char*>(dst), srcs, weights, n, bytes);
}

void SumIntoBFloat16(void* dst, const void* const* srcs, int n, size_t count) {
  const DefaultFloatMode mode;
  Here().widest->narrow(static_cast<char*>(dst), srcs, n, count * SizeOf(DType::kFloat32));
}

void SumOfBFloat16(void* dst, const void* const* srcs, int n, size_t count) {
  const DefaultFloatMode mode;
  Here().widest->widen(static_cast<char*>(dst), srcs, n, count * SizeOf(DType::kBFloat16));
}

void Divide(void* data, size_t count, DType dtype, uint32_t n) {
  if (n == 1) return;
  const DefaultFloatMode mode;
  Here().widest->divide[static_cast<int>(dtype)](static_cast<char*>(data), count * SizeOf(dtype),
                                                 n);
}

}  // namespace muster
