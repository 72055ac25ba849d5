// How this thread's processor rounds, and whether it flushes denormal numbers to zero, is the
// program's to choose (std::fesetround, torch.set_flush_denormal), thread by thread; what several
// ranks compute each for itself must not depend on it.
#pragma once

#include <cstdint>

namespace muster {

// While it lives, this thread rounds to nearest even, keeps denormal numbers and traps nothing.
// Then it does what it did before.
class DefaultFloatMode {
 public:
  DefaultFloatMode() : before_(Get()) {
    if (!IsDefault()) {
      Set(kDefault);
    }
  }
  ~DefaultFloatMode() {
    if (!IsDefault()) {
      Set(before_);
    }
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
#if defined(__x86_64__)
  using Word = uint32_t;                    // MXCSR
  static constexpr Word kDefault = 0x1F80;  // all exceptions masked
  static constexpr Word kFlags = 0x3F;      // say what has happened, and change nothing
  static Word Get() {
    Word word = 0;
    __asm__ volatile("stmxcsr %0" : "=m"(word) : : "memory");
    return word;
  }
  static void Set(Word word) { __asm__ volatile("ldmxcsr %0" : : "m"(word) : "memory"); }
#elif defined(__aarch64__)
  using Word = uint64_t;  // FPCR; the flags are in FPSR
  static constexpr Word kDefault = 0;
  static constexpr Word kFlags = 0;
  static Word Get() {
    Word word = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word) : : "memory");
    return word;
  }
  static void Set(Word word) { __asm__ volatile("msr fpcr, %0" : : "r"(word) : "memory"); }
#else
  using Word = uint32_t;  // not known how
  static constexpr Word kDefault = 0;
  static constexpr Word kFlags = 0;
  static Word Get() { return kDefault; }
  static void Set(Word /*word*/) {}
#endif
  bool IsDefault() const { return (before_ & ~kFlags) == kDefault; }

  const Word before_;
};

}  // namespace muster
