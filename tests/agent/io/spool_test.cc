#include "agent/io/spool.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"

namespace muster {
namespace {

OutputChunk Chunk(uint32_t number, size_t size) {
  OutputChunk chunk;
  chunk.rank = number;
  chunk.local_rank = number % 7;
  chunk.node_rank = number % 5;
  chunk.stream = static_cast<uint8_t>(1 + number % 2);
  chunk.ends_line = number % 3 == 0;
  chunk.split = number % 4 == 0;
  chunk.bytes = std::string(size, static_cast<char>(number));
  return chunk;
}

// The size on disk of our unlinked files.
uint64_t SpoolFileBytes() {
  uint64_t bytes = 0;
  for (int fd = 3; fd < 64; ++fd) {
    struct stat facts {};
    if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink == 0) {
      bytes += static_cast<uint64_t>(facts.st_size);
    }
  }
  return bytes;
}

class SpoolTest : public ::testing::Test {
 protected:
  SpoolTest() {
    SetLogSink([this](LogLevel, absl::string_view text) { log_ += std::string(text) + "\n"; });
  }
  ~SpoolTest() override { SetLogSink(nullptr); }
  std::string log_;
};

TEST_F(SpoolTest, MemoryThenFileInOrder) {
  OutputSpool spool(1000, 100000);
  EXPECT_TRUE(spool.Empty());
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(spool.Full(100));
    spool.Push(Chunk(i, 100));
  }
  EXPECT_EQ(spool.memory_bytes(), 1000u);
  EXPECT_GE(spool.file_bytes(), 9000u);
  for (uint32_t i = 0; i < 100; ++i) {
    ASSERT_FALSE(spool.Empty());
    EXPECT_EQ(spool.Front(), Chunk(i, 100));
    EXPECT_EQ(spool.Front(), Chunk(i, 100));  // until it is popped
    spool.Pop();
  }
  EXPECT_TRUE(spool.Empty());
  EXPECT_EQ(spool.memory_bytes() + spool.file_bytes(), 0u);
  EXPECT_EQ(log_, "");
}

// S1 and S2 over any mix of pushes and pops.
TEST_F(SpoolTest, KeepsOrderAndBoundsForAnyUse) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SplitMix64 rng(seed);
    const size_t memory_max = rng.Below(3000);
    const uint64_t file_max = rng.Below(3) == 0 ? 0 : rng.Below(20000);
    OutputSpool spool(memory_max, file_max);
    uint32_t pushed = 0;
    uint32_t popped = 0;
    std::vector<size_t> sizes;
    for (int i = 0; i < 3000; ++i) {
      if (rng.Below(100) < (i / 300 % 2 == 0 ? 60u : 40u)) {
        const size_t size = rng.Below(700);
        if (!spool.Full(size) || rng.Below(4) == 0) {
          spool.Push(Chunk(pushed++, size));
          sizes.push_back(size);
        }
      } else if (!spool.Empty()) {
        OutputChunk& front = spool.Front();
        ASSERT_EQ(front, Chunk(popped, sizes[popped])) << "seed " << seed;
        if (rng.Below(2) == 0) {
          const OutputChunk moved = std::move(front);  // as a link may
        }
        spool.Pop();
        ++popped;
      }
    }
    ASSERT_LE(SpoolFileBytes(), file_max);
    while (!spool.Empty()) {
      ASSERT_EQ(spool.Front(), Chunk(popped, sizes[popped])) << "seed " << seed;
      spool.Pop();
      ++popped;
    }
    ASSERT_EQ(popped, pushed);
    ASSERT_EQ(spool.memory_bytes() + spool.file_bytes(), 0u);
  }
  EXPECT_EQ(log_, "");
}

// A reader that is always a little behind: the file never empties, and never grows.
TEST_F(SpoolTest, FileStaysBoundedWhenItNeverEmpties) {
  OutputSpool spool(0, 10000);
  for (uint32_t i = 0; i < 10; ++i) {
    spool.Push(Chunk(i, 500));
  }
  for (uint32_t i = 10; i < 5000; ++i) {
    spool.Push(Chunk(i, 500));
    ASSERT_EQ(spool.Front(), Chunk(i - 10, 500));
    spool.Pop();
  }
  EXPECT_GT(SpoolFileBytes(), 0u);
  EXPECT_LE(SpoolFileBytes(), 10000u);
}

TEST_F(SpoolTest, ClearForgetsAll) {
  OutputSpool spool(1000, 2000);
  for (int life = 0; life < 2; ++life) {
    for (uint32_t i = 0; i < 50; ++i) {
      spool.Push(Chunk(i, 100));
    }
    EXPECT_GT(spool.file_bytes(), 0u);
    spool.Clear();
    EXPECT_TRUE(spool.Empty());
    EXPECT_FALSE(spool.Full(1000));
    EXPECT_EQ(spool.memory_bytes() + spool.file_bytes() + SpoolFileBytes(), 0u);
  }
  spool.Push(Chunk(3, 10));
  EXPECT_EQ(spool.Front(), Chunk(3, 10));
}

TEST_F(SpoolTest, WithoutAFileMemoryIsTheBound) {
  OutputSpool spool(1000, 0);
  EXPECT_FALSE(spool.Full(1000));
  EXPECT_TRUE(spool.Full(1001));
  spool.Push(Chunk(0, 1000));
  EXPECT_TRUE(spool.Full(1));
  spool.Push(Chunk(1, 10));  // read already: kept
  EXPECT_EQ(spool.memory_bytes(), 1010u);
  EXPECT_EQ(spool.file_bytes(), 0u);
  EXPECT_EQ(SpoolFileBytes(), 0u);
  EXPECT_EQ(log_, "");
}

TEST_F(SpoolTest, NoFolderMeansMemoryOnly) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  setenv("TMPDIR", "/proc/none", 1);
  OutputSpool spool(100, 10000);
  for (uint32_t i = 0; i < 5; ++i) {
    spool.Push(Chunk(i, 90));
  }
  before != nullptr ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
  EXPECT_TRUE(spool.Full(90));
  EXPECT_THAT(log_, testing::HasSubstr("/proc/none"));
  EXPECT_EQ(std::count(log_.begin(), log_.end(), '\n'), 1);
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(spool.Front(), Chunk(i, 90));
    spool.Pop();
  }
  EXPECT_TRUE(spool.Empty());
}

// The disk fills up under us (here: the limit of a file's size): what is in the file still comes
// first.
TEST_F(SpoolTest, FullDiskKeepsOrder) {
  const auto old = signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tight = {2000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &tight);
  OutputSpool spool(500, 100000);
  for (uint32_t i = 0; i < 40; ++i) {
    spool.Push(Chunk(i, 100));
  }
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, old);
  EXPECT_GT(spool.file_bytes(), 1000u);
  EXPECT_LE(spool.file_bytes(), 2000u);
  EXPECT_TRUE(spool.Full(100));
  EXPECT_THAT(log_, testing::HasSubstr("cannot grow"));
  EXPECT_EQ(std::count(log_.begin(), log_.end(), '\n'), 1);
  for (uint32_t i = 0; i < 40; ++i) {
    ASSERT_EQ(spool.Front(), Chunk(i, 100));
    spool.Pop();
    if (i == 20) {
      spool.Push(Chunk(40, 100));
    }
  }
  EXPECT_EQ(spool.Front(), Chunk(40, 100));
  spool.Pop();
  EXPECT_TRUE(spool.Empty());
}

}  // namespace
}  // namespace muster
