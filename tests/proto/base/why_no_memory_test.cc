#include "proto/base/why_no_memory.h"

#include <gtest/gtest.h>

#include "proto/base/arena_memory.h"

namespace muster {
namespace {

// A soft limit of this process, while it lives.
class Limited {
 public:
  Limited(decltype(RLIMIT_FSIZE) resource, rlim_t value) : resource_(resource) {
    getrlimit(resource_, &before_);
    const rlimit now = {value, before_.rlim_max};
    EXPECT_EQ(setrlimit(resource_, &now), 0);
  }
  ~Limited() { setrlimit(resource_, &before_); }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;

 private:
  const decltype(RLIMIT_FSIZE) resource_;
  rlimit before_ = {};
};

// SIGXFSZ would end this test.
TEST(WhyNoMemory, TheLimitOfFileSizes) {
  const Limited limited(RLIMIT_FSIZE, 65536);
  EXPECT_TRUE(MakeSealedMemory("test", 65536).valid());
  EXPECT_FALSE(MakeSealedMemory("test", 65537).valid());
  EXPECT_EQ(WhyNoMemory(errno, 65537),
            "File too large: 65537 bytes of shared memory are wanted, and the limit of file sizes "
            "is 65536 bytes (ulimit -f 64): raise it (ulimit -f unlimited)");
}

TEST(WhyNoMemory, TheLimitOfDescriptors) {
  const Limited limited(RLIMIT_NOFILE, 3);
  EXPECT_FALSE(MakeSealedMemory("test", 1).valid());
  const char* const why =
      "Too many open files: this process may have 3 (ulimit -n 3): raise it (ulimit -n 65536), or "
      "close some";
  EXPECT_EQ(WhyNoMemory(errno, 1), why);
  EXPECT_EQ(WhyNoDescriptor(EMFILE), why);
}

TEST(WhyNoMemory, TheLimitOfMemory) {
  const Limited limited(RLIMIT_AS, rlim_t{1} << 40);
  EXPECT_EQ(WhyNoMemory(ENOMEM, 4096),
            "Cannot allocate memory: 4096 bytes of shared memory are wanted, and the limit of this "
            "process's memory is 1099511627776 bytes (ulimit -v 1073741824): raise it (ulimit -v "
            "unlimited)");
}

TEST(WhyNoMemory, WithoutALimitTheMachineHasNone) {
  const Limited limited(RLIMIT_AS, RLIM_INFINITY);
  EXPECT_EQ(WhyNoMemory(ENOMEM, 4096),
            "Cannot allocate memory: 4096 bytes of shared memory are wanted: free some memory, or "
            "raise the limit of the container or cgroup");
}

}  // namespace
}  // namespace muster
