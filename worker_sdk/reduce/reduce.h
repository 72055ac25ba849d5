// The arithmetic of reductions, on memory of this process.
//
// 1. Bits depend on the values and their order alone: not on the vector width of the machine, on
//    alignment, on how a caller cuts a buffer into pieces, or on how the calling thread rounds and
//    whether it flushes denormal numbers to zero (float_mode.h). Nothing is contracted (a*b+c) or
//    reassociated.
// 2. A NaN that results is always the same one (positive, quiet, no payload): which of two NaNs an
//    addition passes on is up to the compiler otherwise.
// 3. float16 and bfloat16, as sources or as result, are accumulated in float32 and rounded (to
//    nearest even) once a call.
//
// Threads: any; no state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "muster/status.h"
#include "muster/types.h"

namespace muster {

// InvalidArgument where `op` does not exist for `dtype`: bit operations are for integers.
Status CheckReduction(DType dtype, ReduceOp op);

// dst[i] = srcs[0][i] op srcs[1][i] op ... op srcs[n-1][i], in this order, n >= 1, for an operation
// that CheckReduction() allows. One source is copied as it is. kAvg adds as kSum does: Divide() is
// its last step. Sources and dst are aligned to the element at least; dst may be one of the
// sources, otherwise it must not overlap any.
void ReduceMany(void* dst, const void* const* srcs, int n, size_t count, DType dtype, ReduceOp op);

// The same sums, of float32 into bfloat16: one source is rounded. And of bfloat16 into float32: one
// source is converted, exactly. No source overlaps dst.
void SumIntoBFloat16(void* dst, const void* const* srcs, int n, size_t count);
void SumOfBFloat16(void* dst, const void* const* srcs, int n, size_t count);

// dst[i] = (weights[0] * srcs[0][i] + ... + weights[n-1] * srcs[n-1][i]) / (the sum of weights), of
// float16 or bfloat16, rounded once: finite where the sources are, also where their sum is not, and
// of equal numbers that number. n >= 1; `weights` below 2^16 in all, or null: each is 1. One source
// is copied as it is. Places of dst as above.
void MeanMany(void* dst, const void* const* srcs, const uint32_t* weights, int n, size_t count,
              DType dtype);

// data[i] /= n, n >= 1; integers towards zero.
void Divide(void* data, size_t count, DType dtype, uint32_t n);

}  // namespace muster
