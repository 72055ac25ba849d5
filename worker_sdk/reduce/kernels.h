// The loops behind reduce.h, once for each vector width that a machine may have.
#pragma once

#include <cstddef>
#include <cstdint>

#include "muster/types.h"

namespace muster {

// As ReduceMany() and Divide(), for n >= 2 sources of `bytes` each.
using ReduceKernel = void (*)(char* dst, const void* const* srcs, int n, size_t bytes);
using DivideKernel = void (*)(char* data, size_t bytes, uint32_t n);
// As MeanMany(), for n >= 1 sources of `bytes` each.
using MeanKernel = void (*)(char* dst, const void* const* srcs, const uint32_t* weights, int n,
                            size_t bytes);

struct Kernels {
  const char* name;
  ReduceKernel reduce[kDTypes][kReduceOps];  // null: no such operation for the type
  DivideKernel divide[kDTypes];
  MeanKernel mean[kDTypes];  // null but for floats of 16 bits
  // Sums of n >= 1 sources whose type is not that of dst; `bytes` of each source.
  ReduceKernel narrow;  // float32 into bfloat16
  ReduceKernel widen;   // bfloat16 into float32
};

// What every machine of the architecture can execute.
extern const Kernels base_kernels;
#if defined(__x86_64__)
extern const Kernels avx2_kernels;    // AVX2, F16C
extern const Kernels avx512_kernels;  // AVX-512 F, BW, DQ and VL
#endif

// Those that this machine can execute, narrowest first; ends with null.
const Kernels* const* KernelsHere();

}  // namespace muster
