// While it lives no thread can be started, as where the limit of processes is reached (which does
// not hold for root): the default stack is larger than any address space.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

namespace muster {

class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(pthread_getattr_default_np(&before_), 0);
    pthread_attr_t impossible;
    EXPECT_EQ(pthread_getattr_default_np(&impossible), 0);
    EXPECT_EQ(pthread_attr_setstacksize(&impossible, size_t{1} << 50), 0);
    EXPECT_EQ(pthread_setattr_default_np(&impossible), 0);
    pthread_attr_destroy(&impossible);
  }
  ~NoThreads() {
    EXPECT_EQ(pthread_setattr_default_np(&before_), 0);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace muster
