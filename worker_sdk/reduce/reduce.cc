#include "worker_sdk/reduce/reduce.h"

#include <cstring>
#include <string>

#include "worker_sdk/reduce/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace muster {
namespace {

#if defined(__x86_64__)
bool HasF16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
bool HasAvx2() { return __builtin_cpu_supports("avx2") != 0 && HasF16c(); }
bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}
#endif

struct Usable {
  const Kernels* list[4] = {&base_kernels};
  const Kernels* widest = &base_kernels;

  Usable() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (HasAvx2()) list[1] = widest = &avx2_kernels;
    if (HasAvx512()) list[2] = widest = &avx512_kernels;
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
  Here().widest->reduce[static_cast<int>(dtype)][static_cast<int>(op)](static_cast<char*>(dst),
                                                                       srcs, n, bytes);
}

void Divide(void* data, size_t count, DType dtype, uint32_t n) {
  if (n == 1) return;
  Here().widest->divide[static_cast<int>(dtype)](static_cast<char*>(data), count * SizeOf(dtype),
                                                 n);
}

}  // namespace muster
