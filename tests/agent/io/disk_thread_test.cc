#include "agent/io/disk_thread.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/agent/io/loop_test.h"
#include "tests/agent/io/no_threads.h"
#include "tests/agent/io/slow_disk.h"

namespace muster {
namespace {

size_t Threads() {
  size_t count = 0;
  DIR* folder = opendir("/proc/self/task");
  while (const dirent* entry = readdir(folder)) {
    count += entry->d_name[0] != '.' ? 1 : 0;
  }
  closedir(folder);
  return count;
}

class DiskThreadTest : public LoopTest {
 protected:
  bool LoopAlive() { return uv_loop_alive(&loop_) != 0; }
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

// D1
TEST_F(DiskThreadTest, WorksAndDonesComeInOrder) {
  DiskThread disk(&loop_);
  ASSERT_TRUE(disk.Start().ok());
  const std::thread::id loop_thread = std::this_thread::get_id();
  auto worked = std::make_shared<std::vector<int>>();
  std::vector<int> done;
  for (int i = 0; i < 1000; ++i) {
    std::function<void()> tell;
    if (i % 7 != 0) {  // a `done` may be empty
      tell = [&, worked, i] {
        EXPECT_EQ(std::this_thread::get_id(), loop_thread);
        done.push_back(i);
      };
    }
    disk.Run(
        [worked, i, loop_thread] {
          EXPECT_NE(std::this_thread::get_id(), loop_thread);
          worked->push_back(i);
        },
        std::move(tell));
    EXPECT_TRUE(done.empty() || done.back() < i) << "called back from within Run";
    if (i % 50 == 0) {
      uv_run(&loop_, UV_RUN_NOWAIT);
    }
  }
  ASSERT_TRUE(RunUntil([&] { return disk.outstanding() == 0; }));
  std::vector<int> all;
  std::vector<int> wanted;
  for (int i = 0; i < 1000; ++i) {
    all.push_back(i);
    if (i % 7 != 0) {
      wanted.push_back(i);
    }
  }
  EXPECT_EQ(*worked, all);
  EXPECT_EQ(done, wanted);
}

TEST_F(DiskThreadTest, DoneMayRunMore) {
  DiskThread disk(&loop_);
  ASSERT_TRUE(disk.Start().ok());
  int turns = 0;
  std::function<void()> again = [&] {
    if (++turns < 100) {
      disk.Run([] {}, again);
    }
  };
  disk.Run([] {}, again);
  uv_run(&loop_, UV_RUN_DEFAULT);  // ends when nothing is outstanding
  EXPECT_EQ(turns, 100);
}

// D1: what a work owns goes on the thread, before its `done`.
TEST_F(DiskThreadTest, WorkIsDestroyedOnTheThread) {
  struct Owned {
    ~Owned() { *died_on = std::this_thread::get_id(); }
    std::shared_ptr<std::thread::id> died_on;
  };
  DiskThread disk(&loop_);
  ASSERT_TRUE(disk.Start().ok());
  auto died_on = std::make_shared<std::thread::id>();
  auto ran_on = std::make_shared<std::thread::id>();
  auto owned = std::make_shared<Owned>();
  owned->died_on = died_on;
  bool done = false;
  disk.Run([owned = std::move(owned), ran_on] { *ran_on = std::this_thread::get_id(); },
           [&] {
             EXPECT_EQ(*died_on, *ran_on);
             done = true;
           });
  EXPECT_TRUE(RunUntil([&] { return done; }));
}

// D2
TEST_F(DiskThreadTest, HungWorkHoldsUpNeitherLoopNorDestructor) {
  auto disk = std::make_unique<DiskThread>(&loop_);
  ASSERT_TRUE(disk->Start().ok());
  auto after = std::make_shared<Gate>();
  int done = 0;
  disk->Run([gate = gate_] { EXPECT_TRUE(gate->Wait()); }, [&] { ++done; });
  disk->Run([after] { after->Open(); }, [&] { ++done; });
  ASSERT_TRUE(gate_->Reached());
  RunReady();
  EXPECT_EQ(done, 0);
  EXPECT_EQ(disk->outstanding(), 2u);
  disk.reset();
  RunReady();
  EXPECT_FALSE(LoopAlive());  // D3: nothing was left open
  gate_->Open();
  EXPECT_TRUE(after->Wait());  // what was accepted still runs
  RunReady();
  EXPECT_EQ(done, 0);
}

TEST_F(DiskThreadTest, DestroyedByItsOwnDone) {
  auto disk = std::make_unique<DiskThread>(&loop_);
  ASSERT_TRUE(disk->Start().ok());
  int done = 0;
  for (int i = 0; i < 3; ++i) {
    disk->Run([] {},
              [&] {
                ++done;
                disk.reset();
              });
  }
  ASSERT_TRUE(RunUntil([&] { return done > 0; }));
  RunReady();
  EXPECT_EQ(done, 1);
  EXPECT_FALSE(LoopAlive());
}

// The end of a work and of the DiskThread at the same time, in any order.
TEST_F(DiskThreadTest, DestroyedAnyTime) {
  for (int i = 0; i < 2000; ++i) {
    DiskThread disk(&loop_);
    ASSERT_TRUE(disk.Start().ok());
    auto turns = std::make_shared<std::atomic<int>>(0);
    disk.Run([turns] { ++*turns; }, [] {});
    disk.Run([turns] { ++*turns; }, [] {});
    while (*turns < i % 3) {
      std::this_thread::yield();
    }
    uv_run(&loop_, UV_RUN_NOWAIT);
  }
  RunReady();
}

// D3
TEST_F(DiskThreadTest, IdleHoldsNothing) {
  const size_t before = Threads();
  {
    DiskThread unused(&loop_);
    EXPECT_FALSE(LoopAlive());
  }
  EXPECT_FALSE(LoopAlive());
  EXPECT_LE(Threads(), before);  // those of other tests may have ended
  DiskThread disk(&loop_);
  ASSERT_TRUE(disk.Start().ok());
  disk.Run([] {}, nullptr);
  EXPECT_TRUE(LoopAlive());
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(disk.outstanding(), 0u);
  EXPECT_FALSE(LoopAlive());
  disk.Run([] {}, nullptr);  // and once more
  EXPECT_TRUE(LoopAlive());
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_FALSE(LoopAlive());
}

// A hung disk is nobody else's: libuv's pool has four threads for all.
TEST_F(DiskThreadTest, WithoutAThreadItSaysSoAndCanStartLater) {
  DiskThread disk(&loop_);
  {
    const NoThreads none;
    EXPECT_EQ(disk.Start().code(), absl::StatusCode::kResourceExhausted);
  }
  RunReady();
  EXPECT_FALSE(LoopAlive());
  ASSERT_TRUE(disk.Start().ok());
  ASSERT_TRUE(disk.Start().ok());  // nothing more
  bool done = false;
  disk.Run([] {}, [&] { done = true; });
  EXPECT_TRUE(RunUntil([&] { return done; }));
}

TEST_F(DiskThreadTest, ManyHungDisksHoldUpNobodyElse) {
  std::vector<std::unique_ptr<DiskThread>> hung;
  for (int i = 0; i < 8; ++i) {
    hung.push_back(std::make_unique<DiskThread>(&loop_));
    ASSERT_TRUE(hung.back()->Start().ok());
    hung.back()->Run([gate = gate_] { EXPECT_TRUE(gate->Wait()); }, nullptr);
  }
  bool pooled = false;
  bool own = false;
  uv_work_t request;
  request.data = &pooled;
  uv_queue_work(
      &loop_, &request, [](uv_work_t*) {},
      [](uv_work_t* done, int) { *static_cast<bool*>(done->data) = true; });
  DiskThread disk(&loop_);
  ASSERT_TRUE(disk.Start().ok());
  disk.Run([] {}, [&] { own = true; });
  EXPECT_TRUE(RunUntil([&] { return pooled && own; }));
  gate_->Open();
  EXPECT_TRUE(RunUntil([&] {
    return std::all_of(hung.begin(), hung.end(),
                       [](const auto& one) { return one->outstanding() == 0; });
  }));
}

}  // namespace
}  // namespace muster
