// For tests that hold thousands of descriptors open, where the soft limit is often 1024.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

namespace muster {

inline void RaiseDescriptors(rlim_t wanted) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::max(limit.rlim_cur, wanted);
  limit.rlim_max = std::max(limit.rlim_max, wanted);  // root may
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0)
      << "this test needs " << wanted << " descriptors: raise the hard limit, `ulimit -Hn`";
}

}  // namespace muster
