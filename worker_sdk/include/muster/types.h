// Element types and reductions of a collective.
#pragma once

#include <cstddef>
#include <cstdint>

#include "muster/export.h"

namespace muster {

// The numbers are part of the C ABI and travel between ranks: they never change.
enum class DType : uint8_t {
  kInt8 = 0,
  kInt16 = 1,
  kInt32 = 2,
  kInt64 = 3,
  kUInt8 = 4,
  kUInt16 = 5,
  kUInt32 = 6,
  kUInt64 = 7,
  kFloat16 = 8,   // IEEE binary16; sums are kept in float32 and rounded once a node
  kBFloat16 = 9,  // the upper half of a float32; likewise
  kFloat32 = 10,
  kFloat64 = 11,
};
inline constexpr int kDTypes = 12;

// Integers wrap around. Min and max of a NaN and a number are NaN.
enum class ReduceOp : uint8_t {
  kSum = 0,
  // The sum divided by the number of ranks; integers: towards zero. Of float16 and bfloat16
  // each node rounds the mean of its ranks, and the mean of those means is rounded once more (among
  // more than 8 nodes, of few numbers, once for each level of a tree): of equal numbers it is that
  // number, and it is finite where all numbers are.
  kAvg = 1,
  kProd = 2,
  kMin = 3,
  kMax = 4,
  kBitAnd = 5,  // the three of them: integers only
  kBitOr = 6,
  kBitXor = 7,
};
inline constexpr int kReduceOps = 8;

// What reductions of float32 by sum or avg send between nodes (Communicator::SetWire). The numbers
// are part of the C ABI and travel between ranks: they never change.
enum class Wire : uint8_t {
  kFull = 0,
  kBFloat16 = 1,  // half the bytes, rounded to nearest even
};
inline constexpr int kWires = 2;

// Who a message is received from, where that is whoever sends first.
inline constexpr int kAnyRank = -1;

// Bytes of one element.
constexpr size_t SizeOf(DType dtype) {
  constexpr uint8_t kSizes[kDTypes] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  return kSizes[static_cast<int>(dtype)];
}

// "float32", "sum": as Python and messages spell them.
MUSTER_EXPORT const char* Name(DType dtype);
MUSTER_EXPORT const char* Name(ReduceOp op);
MUSTER_EXPORT const char* Name(Wire wire);  // "full", "bf16"

}  // namespace muster
