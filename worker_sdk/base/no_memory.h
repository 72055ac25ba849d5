// How it is told that no memory is left: by words that need none.
#pragma once

#include <new>

#include "muster/status.h"

namespace muster {

// Its text fits into the string itself, and so do copies of it.
inline Status NoMemory() { return {StatusCode::kResourceExhausted, "out of memory"}; }

// What `call` returns, or `otherwise` where it finds no memory.
template <typename Function, typename Otherwise>
auto WithMemory(const Function& call, const Otherwise& otherwise) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return otherwise();
  }
}
// The same of a Status, or what may be one.
template <typename Function>
auto OrNoMemory(const Function& call) -> decltype(call()) {
  return WithMemory(call, [] { return decltype(call())(NoMemory()); });
}

}  // namespace muster
