// Disks that hang or are slow: nothing waits for them but what has to.
#include "tests/agent/io/output_pump_fixture.h"

namespace muster {
namespace {

// What a flood may have written while all are held up: memory, what the disk is busy with, and per
// worker a turn, a pipe and a buffer.
constexpr size_t kHeldUpAt = kOutputMemoryMax + 3 * kOutputSpoolBatch + 5 * (size_t{2} << 20);

// P1, P2: a disk that hangs under a flood holds workers up, whatever --output-overflow says, and
// loses nothing.
TEST_F(OutputPumpTest, HungSpoolHoldsUpWorkersAndNotTheLoop) {
  for (const OverflowMode overflow : {OverflowMode::kBlock, OverflowMode::kDrop}) {
    pump_.reset();
    received_ = written_ = writers_done_ = 0;
    next_.clear();
    options_.overflow = overflow;
    auto gate = std::make_shared<Gate>();
    disks_.spool = GatedDisk(&loop_, gate);
    bool reads = false;
    link_.take = [&reads](const OutputChunk&) { return reads; };
    Begin(5);
    StartFlood(5, 24000);  // 120 MB
    ASSERT_TRUE(RunUntil([this] { return written_ > kOutputMemoryMax + kOutputSpoolBatch; }));
    RunTicks(10, 50);  // of the pump's own pauses
    EXPECT_LT(written_, kHeldUpAt);
    EXPECT_EQ(writers_done_, 0u);
    reads = true;
    pump_->OnWritable();
    EXPECT_GT(received_, 5u * 10000u);  // what is older than the hung batch
    EXPECT_FALSE(pump_->Empty());
    RunTicks(10, 1);
    reads = false;
    RunTicks(10, 50);  // workers go on, into the memory that is free again
    gate->Open();
    ASSERT_TRUE(RunUntil([this] { return pump_->round_closed(); }));
    EXPECT_FALSE(pump_->Empty());
    reads = true;
    pump_->OnWritable();
    ASSERT_TRUE(RunUntil([this] { return pump_->Empty(); }));
    EXPECT_EQ(received_, 5u * 24000u);
    EXPECT_EQ(torn_, "");
    EXPECT_EQ(log_, "");
  }
}

// P2: every work of the disk takes a tenth of a second, and the loop's timer does not notice.
TEST_F(OutputPumpTest, SlowSpoolKeepsTheLoopTurning) {
  disks_.spool = SlowDisk(&loop_, std::chrono::milliseconds(100));
  int budget = 0;
  link_.take = [&budget](const OutputChunk&) { return budget-- > 0; };
  Begin(3);
  StartFlood(3, 30000);  // 90 MB
  struct Beat {
    uint64_t last = uv_hrtime();
    uint64_t longest = 0;
    int count = 0;
  } beat;
  uv_timer_t timer;
  uv_timer_init(&loop_, &timer);
  timer.data = &beat;
  uv_timer_start(
      &timer,
      [](uv_timer_t* handle) {
        Beat& its = *static_cast<Beat*>(handle->data);
        const uint64_t now = uv_hrtime();
        its.longest = std::max(its.longest, now - its.last);
        its.last = now;
        ++its.count;
      },
      10, 10);
  EXPECT_TRUE(RunUntil([this] { return pump_->round_closed(); }));
  EXPECT_TRUE(RunUntil([&] {  // a reader that takes a little at a time, so that checking is no gap
    budget = 20;
    pump_->OnWritable();
    return pump_->Empty();
  }));
  uv_close(reinterpret_cast<uv_handle_t*>(&timer), nullptr);
  RunReady();
  EXPECT_LT(beat.longest / 1000000, 800u);
  EXPECT_GT(beat.count, 20);
  EXPECT_EQ(received_, 3u * 30000u);
  EXPECT_EQ(torn_, "");
  EXPECT_EQ(log_, "");
}

// P3: a log folder that hangs holds up those that write to it, after kLogFileBytesMax each.
TEST_F(OutputPumpTest, HungLogFolderHoldsUpItsWritersAndNotTheLoop) {
  options_.log_dir = folder_;
  options_.tee.by_local_rank[0] = options_.tee.by_local_rank[1] = 1;
  auto gate = std::make_shared<Gate>();
  disks_.logs = GatedDisk(&loop_, gate);
  Begin(3);
  StartFlood(3, 24000);  // 24 MB each
  ASSERT_TRUE(RunUntil([this] { return writers_done_ == 1; }));
  RunTicks(10, 50);
  EXPECT_EQ(writers_done_, 1u);
  EXPECT_EQ(next_[2], 24000u);
  EXPECT_LT(written_, (24u << 20) + 2 * (kLogFileBytesMax + (size_t{2} << 20)));
  EXPECT_FALSE(pump_->Empty());
  gate->Open();
  ASSERT_TRUE(RunUntil([this] { return pump_->round_closed() && pump_->Empty(); }));
  EXPECT_EQ(received_, 3u * 24000u);
  EXPECT_EQ(torn_, "");
  std::string wanted;
  for (uint64_t i = 0; i < 24000; ++i) {
    wanted += FloodLine(i);
  }
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(Content(absl::StrCat(folder_, "/job/round-1/rank-", rank, ".out")) == wanted);
  }
}

// Nobody reads any more while the disk hangs: workers end, and so does the pump.
TEST_F(OutputPumpTest, DiscardWhileTheDiskHangs) {
  auto gate = std::make_shared<Gate>();
  disks_.spool = GatedDisk(&loop_, gate);
  link_.take = [](const OutputChunk&) { return false; };
  Begin(5);
  StartFlood(5, 24000);
  ASSERT_TRUE(RunUntil([this] { return written_ > kOutputMemoryMax + kOutputSpoolBatch; }));
  int empty = 0;
  pump_->on_empty = [&empty] { ++empty; };
  pump_->Discard();
  EXPECT_GT(empty, 0);
  ASSERT_TRUE(RunUntil([this] { return pump_->round_closed(); }));
  EXPECT_TRUE(pump_->Empty());
  EXPECT_EQ(received_, 0u);
  disks_ = {};
  pump_.reset();
  RunReady();
  EXPECT_EQ(uv_loop_alive(&loop_), 0);
  gate->Open();
}

// P4
TEST_F(OutputPumpTest, LogsOfARoundLongGoneAreGivenUp) {
  auto gate = std::make_shared<Gate>();
  disks_.logs = GatedDisk(&loop_, gate);
  options_.log_dir = folder_;
  for (uint32_t round = 1; round <= 4; ++round) {
    Begin(2, 0, round);
    for (const OutputPump::WorkerEnds& ends : ends_) {
      WriteAll(ends.out.get(), "first\n");
      RunReady();
      WriteAll(ends.out.get(), "second\n");  // waits behind the write
    }
    CloseEnds();
    pump_->CloseRound();
    EXPECT_EQ(std::count(log_.begin(), log_.end(), '\n'), round < 3 ? 0 : round - 2) << log_;
  }
  EXPECT_THAT(log_, ::testing::HasSubstr(folder_));
  gate->Open();
  ASSERT_TRUE(RunUntil([this] { return pump_->Empty(); }));
  const auto written = [this](int round) {
    return Content(absl::StrCat(folder_, "/job/round-", round, "/rank-0.out"));
  };
  EXPECT_EQ(written(1), "first\n");
  EXPECT_EQ(written(3), "first\nsecond\n");
  EXPECT_EQ(written(4), "first\nsecond\n");
}

TEST_F(OutputPumpTest, NoThreadWithoutNeed) {
  disks_ = {std::make_shared<DiskThread>(&loop_, [] { ADD_FAILURE(); }),
            std::make_shared<DiskThread>(&loop_, [] { ADD_FAILURE(); })};
  bool reads = false;
  link_.take = [&reads](const OutputChunk&) { return reads; };
  Begin(4);
  for (const OutputPump::WorkerEnds& ends : ends_) {
    WriteAll(ends.out.get(), "some\n");
    WriteAll(ends.err.get(), "more\n");
  }
  RunReady();
  reads = true;
  pump_->OnWritable();
  ASSERT_TRUE(RunUntilClosed());
  EXPECT_EQ(link_.chunks.size(), 8u);
  EXPECT_EQ(disks_.spool->outstanding() + disks_.logs->outstanding(), 0u);
}

}  // namespace
}  // namespace muster
