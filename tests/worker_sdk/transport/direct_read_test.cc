#include "worker_sdk/transport/direct_read.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "proto/base/check.h"

namespace muster {
namespace {

constexpr size_t kBytes = 3u << 20;

// Another process, and memory that only it has written to.
class Neighbour {
 public:
  Neighbour() {
    int pipe_ends[2];
    CHECK(pipe(pipe_ends) == 0);
    process_ = fork();
    if (process_ == 0) {
      const DirectReader theirs;
      DirectReader::Allow();
      for (size_t i = 0; i < kBytes; ++i) {
        memory_[i] = static_cast<uint8_t>(i * 7 + i / 256);
      }
      const DirectCard card = theirs.card();
      CHECK(write(pipe_ends[1], &card, sizeof(card)) == sizeof(card));
      pause();
      _exit(0);
    }
    CHECK(read(pipe_ends[0], &card_, sizeof(card_)) == sizeof(card_));
    close(pipe_ends[0]);
    close(pipe_ends[1]);
  }
  ~Neighbour() { End(); }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;
  void End() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
      process_ = -1;
    }
  }
  const DirectCard& card() const { return card_; }
  uint64_t memory() const { return reinterpret_cast<uint64_t>(memory_.data()); }

 private:
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(kBytes);
  pid_t process_ = -1;
  DirectCard card_;
};

TEST(DirectReadTest, ReadsWhatAnotherProcessHas) {
  const Neighbour other;
  DirectReader reader;
  ASSERT_TRUE(reader.Meet({reader.card(), other.card()}));
  std::vector<uint8_t> got(kBytes);
  ASSERT_TRUE(reader.Read(1, got.data(), other.memory(), kBytes).ok());
  for (size_t i = 0; i < kBytes; ++i) {
    ASSERT_EQ(got[i], static_cast<uint8_t>(i * 7 + i / 256)) << i;
  }
  ASSERT_TRUE(reader.Read(1, got.data(), other.memory() + 13, 1).ok());
  EXPECT_EQ(got[0], static_cast<uint8_t>(13 * 7));
  EXPECT_TRUE(reader.Read(1, nullptr, 0, 0).ok());
}

TEST(DirectReadTest, AnotherProcessOfThatNumberIsNotRead) {
  const Neighbour other;
  DirectReader reader;
  DirectCard wrong = other.card();
  wrong.word ^= 1;
  EXPECT_FALSE(reader.Meet({reader.card(), wrong}));
  wrong = other.card();
  wrong.process = getpid();  // what is at that address is ours
  EXPECT_FALSE(reader.Meet({reader.card(), wrong}));
}

TEST(DirectReadTest, OneThatIsGoneAndMemoryThatIsNotThere) {
  Neighbour other;
  DirectReader reader;
  ASSERT_TRUE(reader.Meet({other.card()}));
  std::vector<uint8_t> got(kBytes);
  const Status no_memory = reader.Read(0, got.data(), 16, 8);
  EXPECT_EQ(no_memory.code(), StatusCode::kInternal) << no_memory.ToString();
  other.End();
  const Status gone = reader.Read(0, got.data(), other.memory(), kBytes);
  EXPECT_EQ(gone.code(), StatusCode::kUnavailable) << gone.ToString();
  EXPECT_FALSE(reader.Meet({reader.card(), other.card()}));
}

TEST(DirectRead, WhatNobodyMayReadIsKnownBefore) {
  const DirectReader reader;
  constexpr size_t kPage = 4096;
  void* const pages =
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED);
  EXPECT_TRUE(reader.MayBeRead(pages, 2 * kPage));
  EXPECT_TRUE(reader.MayBeRead(pages, 1));
  EXPECT_TRUE(reader.MayBeRead(nullptr, 0));
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  EXPECT_FALSE(reader.MayBeRead(pages, 2 * kPage));
  EXPECT_FALSE(reader.MayBeRead(nullptr, 0)) << "nor does this process read others";
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  CHECK(mprotect(static_cast<uint8_t*>(pages) + kPage, kPage, PROT_NONE) == 0);
  EXPECT_TRUE(reader.MayBeRead(pages, kPage));
  EXPECT_FALSE(reader.MayBeRead(pages, kPage + 1));
  CHECK(munmap(pages, 2 * kPage) == 0);
}

}  // namespace
}  // namespace muster
