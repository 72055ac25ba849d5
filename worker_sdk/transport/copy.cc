#include "worker_sdk/transport/copy.h"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace muster {
namespace {

bool LoopIsFaster() {
#if defined(__x86_64__)
  unsigned eax = 0;
  unsigned vendor[4] = {};  // and an end
  unsigned signature = 0;
  unsigned unused = 0;
  return __get_cpuid(0, &eax, &vendor[0], &vendor[2], &vendor[1]) != 0 &&
         __get_cpuid(1, &signature, &eax, &unused, &unused) != 0 &&
         IsZen3(reinterpret_cast<const char*>(vendor), signature);
#else
  return false;
#endif
}

}  // namespace

// AMD's manuals: the family is 19h, as of Zen 4, whose models are 10h-1Fh and from 60h on.
bool IsZen3(const char* vendor, unsigned signature) {
  const unsigned family = (signature >> 8 & 0xF) + (signature >> 20 & 0xFF);
  const unsigned model = (signature >> 4 & 0xF) | (signature >> 12 & 0xF0);
  return std::strcmp(vendor, "AuthenticAMD") == 0 && family == 0x19 &&
         (model < 0x10 || (model >= 0x20 && model < 0x60));
}

void CopyByLoop(uint8_t* dst, const uint8_t* src, uint64_t bytes) {
  constexpr uint64_t kBlock = 64;
  constexpr uint64_t kSmall = 1024;  // below it memcpy() takes a loop, too
  if (bytes >= kSmall) {
    for (; bytes >= kBlock; bytes -= kBlock, dst += kBlock, src += kBlock) {
      std::memcpy(dst, src, kBlock);    // four vectors
      asm volatile("" : : : "memory");  // else compilers make one memcpy() of the loop
    }
  }
  std::memcpy(dst, src, bytes);
}

bool CopiesByLoop() {
  static const bool by_loop = LoopIsFaster();
  return by_loop;
}

void CopyBytes(uint8_t* dst, const uint8_t* src, uint64_t bytes) {
  if (CopiesByLoop()) {
    CopyByLoop(dst, src, bytes);
  } else {
    std::memcpy(dst, src, bytes);
  }
}

}  // namespace muster
