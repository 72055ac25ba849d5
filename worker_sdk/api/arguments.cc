#include "worker_sdk/api/arguments.h"

#include <cstddef>
#include <limits>
#include <string>

namespace muster {
namespace {

// Elements that any memory could hold.
int64_t CountMax(DType dtype) {
  return std::numeric_limits<ptrdiff_t>::max() / static_cast<int64_t>(SizeOf(dtype));
}

// So many are within CountMax() of any type, also times any number of ranks (2^31 - 1).
constexpr int64_t kCountFitsAlways = int64_t{1} << 28;
static_assert(kCountFitsAlways <= std::numeric_limits<ptrdiff_t>::max() / (int64_t{8} << 31));

Status Invalid(const char* call, const std::string& why) {
  return Status(StatusCode::kInvalidArgument, std::string(call) + ": " + why);
}

Status CheckDType(const char* call, DType dtype) {
  const auto code = static_cast<unsigned>(dtype);
  if (code < static_cast<unsigned>(kDTypes)) return Status();
  return Invalid(call, "dtype: want one of DType, 0.." + std::to_string(kDTypes - 1) + ", got " +
                           std::to_string(static_cast<int>(dtype)));
}

}  // namespace

Status CheckOp(const char* call, ReduceOp op) {
  const auto code = static_cast<unsigned>(op);
  if (code < static_cast<unsigned>(kReduceOps)) return Status();
  return Invalid(call, "op: want one of ReduceOp, 0.." + std::to_string(kReduceOps - 1) + ", got " +
                           std::to_string(static_cast<int>(op)));
}

Status CheckCount(const char* call, int64_t count, DType dtype, int blocks) {
  if (Status status = CheckDType(call, dtype); !status.ok()) return status;
  if (count >= 0 && count <= kCountFitsAlways) return Status();  // a division takes its time
  if (count < 0) return Invalid(call, "count: want 0 or more, got " + std::to_string(count));
  const int64_t most = CountMax(dtype) / blocks;
  if (count <= most) return Status();
  return Invalid(call, "count: want at most " + std::to_string(most) + " elements of " +
                           Name(dtype) + ", got " + std::to_string(count));
}

Status CheckCounts(const char* call, const char* name, const int64_t* counts, int size,
                   DType dtype) {
  if (Status status = CheckDType(call, dtype); !status.ok()) return status;
  if (counts == nullptr) return Invalid(call, std::string(name) + ": a null pointer");
  int64_t left = CountMax(dtype);
  for (int i = 0; i < size; ++i) {
    if (counts[i] < 0 || counts[i] > left) {
      const std::string limit = counts[i] < 0
                                    ? "0 or more"
                                    : "at most " + std::to_string(CountMax(dtype)) +
                                          " elements of " + Name(dtype) + " with those before it";
      return Invalid(call, std::string(name) + "[" + std::to_string(i) + "]: want " + limit +
                               ", got " + std::to_string(counts[i]));
    }
    left -= counts[i];
  }
  return Status();
}

Status CheckBuffer(const char* call, const char* name, const void* buffer, int64_t count,
                   DType dtype) {
  if (count == 0) return Status();
  if (buffer == nullptr) return Invalid(call, std::string(name) + ": a null pointer");
  if (reinterpret_cast<uintptr_t>(buffer) % SizeOf(dtype) == 0) return Status();
  return Invalid(call, std::string(name) + ": want an address that is a multiple of " +
                           std::to_string(SizeOf(dtype)) + " for " + Name(dtype) + ", got " +
                           std::to_string(reinterpret_cast<uintptr_t>(buffer)));
}

bool Overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a);
  const auto b_begin = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && a_begin < b_begin + static_cast<uintptr_t>(b_bytes) &&
         b_begin < a_begin + static_cast<uintptr_t>(a_bytes);
}

Status CheckRank(const char* call, const char* name, int rank, int size) {
  if (rank >= 0 && rank < size) return Status();
  return Invalid(call, std::string(name) + ": want 0.." + std::to_string(size - 1) + ", got " +
                           std::to_string(rank));
}

Status CheckSource(const char* call, const char* name, int rank, int size) {
  if (rank == kAnyRank || CheckRank(call, name, rank, size).ok()) return Status();
  return Invalid(call, std::string(name) + ": want 0.." + std::to_string(size - 1) + ", or " +
                           std::to_string(kAnyRank) + " for any rank, got " + std::to_string(rank));
}

Status CheckTag(const char* call, int tag) {
  if (tag >= 0) return Status();
  return Invalid(call, "tag: want 0 or more, got " + std::to_string(tag));
}

}  // namespace muster
