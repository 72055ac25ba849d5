// What is wrong with the arguments of a collective, as far as one rank can see: InvalidArgument
// that names the call, the argument, the limit and the value. `call` is spelled as in muster.h
// without its prefix: "all_reduce".
#pragma once

#include <cstdint>

#include "muster/status.h"
#include "muster/types.h"

namespace muster {

Status CheckOp(const char* call, ReduceOp op);
// Of a type that there is. `blocks`: how many times `count` elements the longer buffer holds (1, or
// the number of ranks).
Status CheckCount(const char* call, int64_t count, DType dtype, int blocks);
// The same. `counts`: of the parts of `size` ranks, one behind another in a buffer; `name` is the
// argument's.
Status CheckCounts(const char* call, const char* name, const int64_t* counts, int size,
                   DType dtype);
// `name` is the argument's. Null is good for no elements.
Status CheckBuffer(const char* call, const char* name, const void* buffer, int64_t count,
                   DType dtype);
bool Overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes);
// `name`: "root".
Status CheckRank(const char* call, const char* name, int rank, int size);
// The same, or kAnyRank.
Status CheckSource(const char* call, const char* name, int rank, int size);
Status CheckTag(const char* call, int tag);

}  // namespace muster
