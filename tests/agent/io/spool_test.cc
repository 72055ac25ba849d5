#include "agent/io/spool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "tests/agent/io/loop_test.h"
#include "tests/agent/io/no_threads.h"
#include "tests/agent/io/slow_disk.h"

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

class SpoolTest : public LoopTest {
 protected:
  SpoolTest() {
    SetLogSink([this](LogLevel, absl::string_view text) { log_ += std::string(text) + "\n"; });
  }
  ~SpoolTest() override {
    EXPECT_TRUE(disk_ == nullptr || Settled());  // no file is left for the next test to find
    SetLogSink(nullptr);
  }

  // Nothing is under way on the disk.
  bool Settled() {
    return RunUntil([this] { return disk_->outstanding() == 0; });
  }
  // The next chunk, wherever it is; then it is gone.
  OutputChunk Next(OutputSpool& spool) {
    EXPECT_FALSE(spool.Empty());
    int ready = 0;
    spool.on_ready = [&ready] { ++ready; };
    if (spool.Front() == nullptr) {
      EXPECT_EQ(ready, 0) << "called back from within";
      EXPECT_TRUE(RunUntil([&ready] { return ready > 0; }));
    }
    spool.on_ready = nullptr;
    OutputChunk* const front = spool.Front();
    if (front == nullptr) {
      ADD_FAILURE() << "not there though ready";
      return {};
    }
    OutputChunk chunk = std::move(*front);  // as a link may
    spool.Pop();
    return chunk;
  }

  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
  std::shared_ptr<DiskThread> disk_ = std::make_shared<DiskThread>(&loop_);
  std::string log_;
};

TEST_F(SpoolTest, MemoryThenFileInOrder) {
  OutputSpool spool(disk_, 1000, 100000);
  EXPECT_TRUE(spool.Empty());
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(spool.Full(100));
    spool.Push(Chunk(i, 100));
  }
  ASSERT_TRUE(Settled());
  EXPECT_EQ(spool.memory_bytes(), 1000u);
  EXPECT_GE(spool.file_bytes(), 9000u);
  for (uint32_t i = 0; i < 100; ++i) {
    ASSERT_FALSE(spool.Empty());
    if (spool.Front() != nullptr) {
      EXPECT_EQ(*spool.Front(), Chunk(i, 100));  // until it is popped
    }
    EXPECT_EQ(Next(spool), Chunk(i, 100));
  }
  EXPECT_TRUE(spool.Empty());
  EXPECT_EQ(spool.memory_bytes() + spool.file_bytes(), 0u);
  ASSERT_TRUE(Settled());
  EXPECT_EQ(SpoolFileBytes(), 0u);
  EXPECT_EQ(log_, "");
}

// A mix of pushes and pops by one seed, checked against the numbers of the chunks.
class Mix {
 public:
  Mix(OutputSpool& spool, SplitMix64& rng, uint64_t size_max)
      : spool_(spool), rng_(rng), size_max_(size_max) {}

  void PushOne() {
    const size_t size = rng_.Below(size_max_);
    if (!spool_.Full(size) || rng_.Below(4) == 0) {
      spool_.Push(Chunk(pushed_++, size));
      sizes_.push_back(size);
    }
  }
  // False when it is not there yet.
  bool PopOne() {
    OutputChunk* const front = spool_.Front();
    if (front == nullptr) {
      return false;
    }
    EXPECT_EQ(*front, Chunk(popped_, sizes_[popped_]));
    if (rng_.Below(2) == 0) {
      const OutputChunk moved = std::move(*front);  // as a link may
    }
    spool_.Pop();
    ++popped_;
    return true;
  }
  bool AllCame() const { return popped_ == pushed_; }

 private:
  OutputSpool& spool_;
  SplitMix64& rng_;
  const uint64_t size_max_;
  uint32_t pushed_ = 0;
  uint32_t popped_ = 0;
  std::vector<size_t> sizes_;
};

// S1, S2 and S4 over any mix of pushes, pops and moments at which the disk gets its turn.
TEST_F(SpoolTest, KeepsOrderAndBoundsForAnyUse) {
  for (uint64_t seed = 1; seed <= 90 && !HasFailure(); ++seed) {
    ASSERT_TRUE(Settled());  // the last one's file is closed
    SplitMix64 rng(seed);
    // The larger ones have batches of many chunks.
    const size_t memory_max = rng.Below(seed % 2 == 0 ? 3000 : 100000);
    const uint64_t file_max = rng.Below(3) == 0 ? 0 : rng.Below(seed % 2 == 0 ? 20000 : 300000);
    OutputSpool spool(disk_, memory_max, file_max);
    bool waits = false;
    spool.on_ready = [&] {
      EXPECT_TRUE(waits);
      waits = false;
    };
    Mix mix(spool, rng, seed % 2 == 0 ? 700 : 3000);
    for (int i = 0; i < 3000; ++i) {
      if (rng.Below(100) < (i / 300 % 2 == 0 ? 60u : 40u)) {
        mix.PushOne();
      } else if (!spool.Empty() && !waits) {
        waits = !mix.PopOne();
      }
      if (rng.Below(seed % 5 + 1) == 0) {
        uv_run(&loop_, UV_RUN_NOWAIT);
      }
      ASSERT_LE(spool.file_bytes(), file_max);
    }
    ASSERT_TRUE(Settled());
    ASSERT_LE(SpoolFileBytes(), file_max);
    while (!spool.Empty()) {
      ASSERT_TRUE(RunUntil([&] { return !waits; })) << "seed " << seed;
      waits = !mix.PopOne();
    }
    ASSERT_TRUE(mix.AllCame()) << "seed " << seed;
    ASSERT_EQ(spool.memory_bytes() + spool.file_bytes(), 0u);
    ASSERT_TRUE(Settled());
    ASSERT_EQ(SpoolFileBytes(), 0u) << "seed " << seed;
  }
  EXPECT_EQ(log_, "");
}

// A reader that is always a little behind: the file never empties, and never grows.
TEST_F(SpoolTest, FileStaysBoundedWhenItNeverEmpties) {
  OutputSpool spool(disk_, 0, 10000);
  for (uint32_t i = 0; i < 10; ++i) {
    spool.Push(Chunk(i, 500));
  }
  for (uint32_t i = 10; i < 5000; ++i) {
    spool.Push(Chunk(i, 500));
    ASSERT_EQ(Next(spool), Chunk(i - 10, 500));
    ASSERT_LE(spool.file_bytes(), 10000u);
  }
  ASSERT_TRUE(Settled());
  EXPECT_GT(SpoolFileBytes(), 0u);
  EXPECT_LE(SpoolFileBytes(), 10000u);
}

// As with a full disk: all stays in memory, and the bounds of memory hold.
TEST_F(SpoolTest, WithoutAThreadItIsMemoryOnly) {
  const NoThreads none;
  OutputSpool spool(disk_, 1000, 100000);
  for (uint32_t i = 0; i < 30; ++i) {
    spool.Push(Chunk(i, 100));
  }
  EXPECT_TRUE(spool.Full(1));
  EXPECT_EQ(spool.file_bytes(), 0u);
  for (uint32_t i = 0; i < 30; ++i) {
    ASSERT_EQ(Next(spool), Chunk(i, 100));
  }
  EXPECT_TRUE(spool.Empty());
}

TEST_F(SpoolTest, ClearForgetsAll) {
  OutputSpool spool(disk_, 1000, 2000);
  for (int life = 0; life < 2; ++life) {
    for (uint32_t i = 0; i < 50; ++i) {
      spool.Push(Chunk(i, 100));
    }
    ASSERT_TRUE(Settled());
    EXPECT_GT(spool.file_bytes(), 0u);
    spool.Clear();
    EXPECT_TRUE(spool.Empty());
    EXPECT_FALSE(spool.Full(1000));
    EXPECT_EQ(spool.memory_bytes() + spool.file_bytes(), 0u);
    ASSERT_TRUE(Settled());
    EXPECT_EQ(SpoolFileBytes(), 0u);
  }
  spool.Push(Chunk(3, 10));
  EXPECT_EQ(Next(spool), Chunk(3, 10));
}

// Clear while a write, a read or both are under way, with what comes next in front of their end.
TEST_F(SpoolTest, ClearWithWorkUnderWay) {
  disk_ = GatedDisk(&loop_, gate_);
  OutputSpool spool(disk_, 1000, 100000);
  for (int life = 0; life < 20; ++life) {
    gate_->Open();
    for (uint32_t i = 0; i < 60; ++i) {
      spool.Push(Chunk(i, 100));
    }
    if (life % 2 == 1) {  // a read, too
      ASSERT_TRUE(Settled());
      gate_->Close();
      while (spool.Front() != nullptr) {
        spool.Pop();
      }
    } else {
      gate_->Close();
    }
    spool.Push(Chunk(60, 100));
    EXPECT_GT(disk_->outstanding(), 0u);
    spool.Clear();
    EXPECT_TRUE(spool.Empty());
    EXPECT_EQ(spool.memory_bytes() + spool.file_bytes(), 0u);
    for (uint32_t i = 100; i < 140; ++i) {
      spool.Push(Chunk(i, 100));
    }
    for (uint32_t i = 100; i < 105; ++i) {  // in memory: there at once, though the disk hangs
      ASSERT_NE(spool.Front(), nullptr);
      EXPECT_EQ(Next(spool), Chunk(i, 100));
    }
    EXPECT_LE(disk_->outstanding(), 4u);
    gate_->Open();
    for (uint32_t i = 105; i < 140; ++i) {
      ASSERT_EQ(Next(spool), Chunk(i, 100));
    }
    EXPECT_TRUE(spool.Empty());
    ASSERT_TRUE(Settled());
    EXPECT_EQ(SpoolFileBytes(), 0u);
  }
  EXPECT_EQ(log_, "");
}

// S3 and S5
TEST_F(SpoolTest, HungDiskBlocksNothingAndLosesNothing) {
  disk_ = GatedDisk(&loop_, gate_);
  const size_t memory_max = 160000;
  OutputSpool spool(disk_, memory_max, 10u << 20);
  EXPECT_EQ(spool.slack(), 20000u);
  uint32_t pushed = 0;
  while (!spool.Behind()) {
    ASSERT_LT(pushed, 10000u);
    EXPECT_FALSE(spool.Full(1000));  // nothing is dropped for it
    spool.Push(Chunk(pushed++, 1000));
    RunReady();
  }
  EXPECT_GT(spool.memory_bytes(), memory_max);
  EXPECT_LE(spool.memory_bytes(), memory_max + spool.slack() + 1000);
  EXPECT_EQ(spool.file_bytes(), 0u);
  EXPECT_EQ(disk_->outstanding(), 1u);
  uint32_t popped = 0;
  while (OutputChunk* front = spool.Front()) {
    EXPECT_EQ(*front, Chunk(popped++, 1000));
    spool.Pop();
  }
  EXPECT_EQ(popped, memory_max / 1000);
  EXPECT_FALSE(spool.Empty());
  EXPECT_FALSE(spool.Behind());
  gate_->Open();
  for (; popped < pushed; ++popped) {
    ASSERT_EQ(Next(spool), Chunk(popped, 1000));
  }
  EXPECT_TRUE(spool.Empty());
  EXPECT_EQ(log_, "");
}

// S5: the disk that has caught up holds nobody up.
TEST_F(SpoolTest, BehindEndsByItself) {
  disk_ = GatedDisk(&loop_, gate_);
  OutputSpool spool(disk_, 160000, 10u << 20);
  uint32_t pushed = 0;
  while (!spool.Behind()) {
    spool.Push(Chunk(pushed++, 1000));
  }
  gate_->Open();
  ASSERT_TRUE(RunUntil([&] { return !spool.Behind(); }));
  ASSERT_TRUE(Settled());
  EXPECT_LE(spool.memory_bytes(), 160000u);
  EXPECT_GT(spool.file_bytes(), 0u);
  for (uint32_t i = 0; i < pushed; ++i) {
    ASSERT_EQ(Next(spool), Chunk(i, 1000));
    ASSERT_LE(spool.memory_bytes(), 160000u);
  }
}

// S3: neither does the end.
TEST_F(SpoolTest, HungDiskHoldsUpNoDestructor) {
  disk_ = GatedDisk(&loop_, gate_);
  auto spool = std::make_unique<OutputSpool>(disk_, 1000, 100000);
  spool->on_ready = [] { ADD_FAILURE() << "called back after the end"; };
  for (uint32_t i = 0; i < 50; ++i) {
    spool->Push(Chunk(i, 100));
  }
  while (spool->Front() != nullptr) {
    spool->Pop();
  }
  ASSERT_TRUE(gate_->Reached());
  spool.reset();
  gate_->Open();
  ASSERT_TRUE(Settled());  // ours outlives it
  EXPECT_EQ(SpoolFileBytes(), 0u);
  gate_->Close();
  spool = std::make_unique<OutputSpool>(disk_, 1000, 100000);
  for (uint32_t i = 0; i < 50; ++i) {
    spool->Push(Chunk(i, 100));
  }
  spool.reset();
  auto last = std::make_shared<Gate>();
  disk_->Run([last] { last->Open(); }, nullptr);
  disk_.reset();
  RunReady();
  EXPECT_EQ(uv_loop_alive(&loop_), 0);
  gate_->Open();
  EXPECT_TRUE(last->Wait());
}

TEST_F(SpoolTest, WithoutAFileMemoryIsTheBound) {
  OutputSpool spool(disk_, 1000, 0);
  EXPECT_FALSE(spool.Full(1000));
  EXPECT_TRUE(spool.Full(1001));
  spool.Push(Chunk(0, 1000));
  EXPECT_TRUE(spool.Full(1));
  spool.Push(Chunk(1, 10));  // read already: kept
  EXPECT_EQ(spool.memory_bytes(), 1010u);
  EXPECT_EQ(spool.file_bytes(), 0u);
  EXPECT_FALSE(spool.Behind());
  EXPECT_EQ(disk_->outstanding(), 0u);
  EXPECT_EQ(SpoolFileBytes(), 0u);
  EXPECT_EQ(*spool.Front(), Chunk(0, 1000));
  EXPECT_EQ(log_, "");
}

TEST_F(SpoolTest, NoFolderMeansMemoryOnly) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  setenv("TMPDIR", "/proc/none", 1);
  OutputSpool spool(disk_, 100, 10000);
  for (uint32_t i = 0; i < 5; ++i) {
    spool.Push(Chunk(i, 90));
  }
  before != nullptr ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
  ASSERT_TRUE(Settled());
  EXPECT_TRUE(spool.Full(90));
  EXPECT_FALSE(spool.Behind());
  EXPECT_THAT(log_, testing::HasSubstr("/proc/none"));
  EXPECT_EQ(std::count(log_.begin(), log_.end(), '\n'), 1);
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_NE(spool.Front(), nullptr);
    EXPECT_EQ(Next(spool), Chunk(i, 90));
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
  OutputSpool spool(disk_, 500, 100000);
  for (uint32_t i = 0; i < 40; ++i) {
    spool.Push(Chunk(i, 100));
  }
  EXPECT_TRUE(Settled());
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, old);
  EXPECT_GT(spool.file_bytes(), 1000u);
  EXPECT_LE(spool.file_bytes(), 2000u);
  EXPECT_TRUE(spool.Full(100));
  EXPECT_FALSE(spool.Behind());
  EXPECT_THAT(log_, testing::HasSubstr("cannot grow"));
  EXPECT_EQ(std::count(log_.begin(), log_.end(), '\n'), 1);
  for (uint32_t i = 0; i < 40; ++i) {
    ASSERT_EQ(Next(spool), Chunk(i, 100));
    if (i == 20) {
      spool.Push(Chunk(40, 100));
    }
  }
  EXPECT_EQ(Next(spool), Chunk(40, 100));
  EXPECT_TRUE(spool.Empty());
}

// The file is cut short behind our back: one line says so, and the rest goes on in memory.
TEST_F(SpoolTest, UnreadableFileIsToldInOneLine) {
  OutputSpool spool(disk_, 500, 100000);
  std::vector<std::string> told;
  spool.on_lost = [&told](const std::string& why) { told.push_back(why); };
  for (uint32_t i = 0; i < 40; ++i) {
    spool.Push(Chunk(i, 100));
  }
  ASSERT_TRUE(Settled());
  for (int fd = 3; fd < 64; ++fd) {
    struct stat facts {};
    if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink == 0) {
      EXPECT_EQ(ftruncate(fd, 50), 0);
    }
  }
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(Next(spool), Chunk(i, 100));
  }
  OutputChunk lost = Next(spool);
  EXPECT_EQ(lost.bytes, "[muster: output lost]\n");
  EXPECT_TRUE(lost.ends_line);
  EXPECT_TRUE(spool.Empty());
  EXPECT_THAT(log_, testing::HasSubstr("could not be read back"));
  EXPECT_THAT(told, testing::ElementsAre(testing::HasSubstr("could not be read back")));
  EXPECT_EQ(std::count(log_.begin(), log_.end(), '\n'), 1);
  ASSERT_TRUE(Settled());
  for (uint32_t i = 0; i < 20; ++i) {
    spool.Push(Chunk(i, 100));
  }
  EXPECT_TRUE(spool.Full(1));
  EXPECT_EQ(disk_->outstanding(), 0u);
  for (uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(Next(spool), Chunk(i, 100));
  }
}

}  // namespace
}  // namespace muster
