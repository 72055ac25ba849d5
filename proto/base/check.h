// CHECK: what cannot happen. Prints file, line and the condition, then aborts; never compiled out.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                                          \
  do {                                                                                            \
    if (!(condition)) {                                                                           \
      std::fprintf(stderr, "muster: %s:%d: cannot happen: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                               \
    }                                                                                             \
  } while (false)
