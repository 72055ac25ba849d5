#include "worker_sdk/transport/copy.h"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace muster {
namespace {

constexpr uint64_t kBlock = 64;
constexpr uint64_t kSmall = 1024;        // below it memcpy() takes a loop, too
constexpr uint64_t kLinesMin = 2 << 10;  // `rep movsb` takes a while to begin

bool HasQuickMoves() {
#if defined(__x86_64__)
  constexpr unsigned kQuickMoves = 1U << 9;  // ERMS
  unsigned signature = 0;
  unsigned vendor[4] = {};  // and an end
  unsigned eax = 0;
  unsigned features = 0;
  unsigned unused = 0;
  return __get_cpuid(0, &eax, &vendor[0], &vendor[2], &vendor[1]) != 0 &&
         __get_cpuid(1, &signature, &eax, &unused, &unused) != 0 &&
         __get_cpuid_count(7, 0, &eax, &features, &unused, &unused) != 0 &&
         IsZen5(reinterpret_cast<const char*>(vendor), signature) && (features & kQuickMoves) != 0;
#else
  return false;
#endif
}

}  // namespace

bool IsZen5(const char* vendor, unsigned signature) {
  const unsigned family = (signature >> 8 & 0xF) + (signature >> 20 & 0xFF);
  return std::strcmp(vendor, "AuthenticAMD") == 0 && family == 0x1A;
}

bool CopiesWholeLines() {
  static const bool does = HasQuickMoves();
  return does;
}

void CopyByLoop(uint8_t* dst, const uint8_t* src, uint64_t bytes) {
  if (bytes >= kSmall) {
    for (; bytes >= kBlock; bytes -= kBlock, dst += kBlock, src += kBlock) {
      std::memcpy(dst, src, kBlock);    // four vectors
      asm volatile("" : : : "memory");  // else compilers make one memcpy() of the loop
    }
  }
  std::memcpy(dst, src, bytes);
}

void CopyByWholeLines(uint8_t* dst, const uint8_t* src, uint64_t bytes) {
  if (bytes == 0) {
    return;
  }
#if defined(__x86_64__)
  dst[bytes - 1] = src[bytes - 1];  // sanitizers see this one
  asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
#else
  std::memcpy(dst, src, bytes);
#endif
}

void CopyBytes(uint8_t* dst, const uint8_t* src, uint64_t bytes) {
  if (bytes >= kLinesMin && CopiesWholeLines()) {
    CopyByWholeLines(dst, src, bytes);
  } else {
    CopyByLoop(dst, src, bytes);
  }
}

}  // namespace muster
