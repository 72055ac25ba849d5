// Functions of a library that is loaded when it is needed.
#pragma once

#include <dlfcn.h>

namespace muster {

// False: `library` has no such symbol.
template <typename F>
bool FindSymbol(void* library, const char* name, F& out) {
  out = reinterpret_cast<F>(dlsym(library, name));
  return out != nullptr;
}

}  // namespace muster
