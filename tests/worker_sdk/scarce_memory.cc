#include "tests/worker_sdk/scarce_memory.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace muster {
namespace {

struct Scarcity {
  int left = -1;  // allocations before one fails; negative: none does
  bool all = false;
  bool failed = false;
};
thread_local Scarcity scarcity;

struct Freeing {
  int left = -1;  // times before the work is done; negative: it has been
  void (*work)(void* of) = nullptr;
  void* of = nullptr;
};
thread_local Freeing freeing;

void Free(void* memory) {
  if (memory != nullptr && freeing.left >= 0 && freeing.left-- == 0) {
    freeing.work(freeing.of);
  }
  std::free(memory);
}

bool Fails() {
  if (scarcity.left < 0 || scarcity.left-- > 0) {
    return false;
  }
  scarcity.failed = true;
  scarcity.left = scarcity.all ? 0 : -1;
  return true;
}

}  // namespace

ScarceMemory::ScarceMemory(int first, bool all) { scarcity = {first, all, false}; }
ScarceMemory::~ScarceMemory() { scarcity.left = -1; }
bool ScarceMemory::has_failed() { return scarcity.failed; }

AtFree::AtFree(int number, void (*work)(void* of), void* of) { freeing = {number, work, of}; }
AtFree::~AtFree() { freeing.left = -1; }

}  // namespace muster

void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return muster::Fails() ? nullptr : std::malloc(bytes);
}
void* operator new(size_t bytes) {
  void* const out = operator new(bytes, std::nothrow);
  if (out == nullptr) {
    throw std::bad_alloc();
  }
  return out;
}
void operator delete(void* memory, const std::nothrow_t&) noexcept { muster::Free(memory); }
void operator delete(void* memory) noexcept { muster::Free(memory); }
void operator delete(void* memory, size_t) noexcept { muster::Free(memory); }
