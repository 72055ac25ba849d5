#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "agent/io/pseudo_terminal.h"
#include "tests/agent/io/output_pump_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST_F(OutputPumpTest, ATerminalsBytesPassAsTheyComeUntilItsWorkerIsGone) {
  std::string got;
  link_.on_chunk = [&](const OutputChunk& chunk) {
    EXPECT_EQ(chunk.rank, 3u);
    got += chunk.bytes;
  };
  Begin(0, /*rank_first=*/3);
  absl::StatusOr<PseudoTerminal> terminal = OpenPseudoTerminal(30, 100);
  ASSERT_TRUE(terminal.ok()) << terminal.status();
  winsize size{};
  EXPECT_EQ(ioctl(terminal->workers.get(), TIOCGWINSZ, &size), 0);
  EXPECT_EQ(size.ws_row, 30);
  EXPECT_EQ(size.ws_col, 100);
  const std::string name = ptsname(terminal->ours.get());
  UniqueFd kept(dup(terminal->workers.get()));
  ASSERT_TRUE(pump_->OpenTerminal(0, std::move(terminal->ours), std::move(kept)).ok());
  WriteAll(terminal->workers.get(), "name? ");
  EXPECT_TRUE(RunUntil([&] { return got == "name? "; }));
  terminal->workers.Reset();  // which is not the end: it opens it again
  RunReady();
  EXPECT_FALSE(pump_->round_closed());
  terminal->workers.Reset(open(name.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  WriteAll(terminal->workers.get(), "two\nlines\n");
  EXPECT_TRUE(RunUntil([&] { return got == "name? two\r\nlines\r\n"; }));
  terminal->workers.Reset();
  EXPECT_EQ(pump_->Drain(0), "name? two\r\nlines\r\n");
  EXPECT_TRUE(pump_->round_closed() && pump_->Empty());
}

TEST_F(OutputPumpTest, CarriesLinesWithTheirSource) {
  Begin(2, /*rank_first=*/10);
  WriteAll(ends_[1].out.get(), "a\nb\n");
  WriteAll(ends_[1].err.get(), "e\nla");
  WriteAll(ends_[0].err.get(), "st");
  ASSERT_TRUE(RunUntilClosed());
  EXPECT_TRUE(pump_->round_closed());
  EXPECT_EQ(link_.Joined(11, 1), "a\nb\n");
  EXPECT_EQ(link_.Joined(11, 2), "e\nla");
  EXPECT_EQ(link_.Joined(10, 2), "st");
  const OutputChunk last = {10, 0, 5, 2, false, false, "st"};
  EXPECT_EQ(std::count(link_.chunks.begin(), link_.chunks.end(), last), 1);
}

TEST_F(OutputPumpTest, NoLineIsTornHoweverItIsWritten) {
  Begin(3);
  std::map<std::pair<uint32_t, uint8_t>, std::string> wanted;
  SplitMix64 rng(1);
  for (int i = 0; i < 3000; ++i) {
    const auto rank = static_cast<uint32_t>(rng.Below(3));
    const auto stream = static_cast<uint8_t>(1 + rng.Below(2));
    std::string bytes(rng.Below(12), static_cast<char>('a' + rank));
    if (rng.Below(3) == 0) {
      bytes.insert(rng.Below(bytes.size() + 1), "\n");
    }
    wanted[{rank, stream}] += bytes;
    WriteAll((stream == 1 ? ends_[rank].out : ends_[rank].err).get(), bytes);
    if (rng.Below(4) == 0) {
      uv_run(&loop_, UV_RUN_NOWAIT);
    }
  }
  RunReady();
  for (const OutputChunk& chunk : link_.chunks) {
    EXPECT_TRUE(chunk.ends_line);
    EXPECT_EQ(chunk.bytes.back(), '\n');
  }
  ASSERT_TRUE(RunUntilClosed());
  for (const auto& [source, bytes] : wanted) {
    EXPECT_EQ(link_.Joined(source.first, source.second), bytes);
  }
}

TEST_F(OutputPumpTest, PartialLinesOnlyWhereTheyAreWanted) {
  options_.partial_err = true;
  options_.prefix = false;
  Begin(1);
  WriteAll(ends_[0].out.get(), "never");
  WriteAll(ends_[0].err.get(), "prompt> ");
  ASSERT_TRUE(RunUntil([this] { return !link_.chunks.empty(); }));
  EXPECT_EQ(link_.Joined(0, 2), "prompt> ");
  EXPECT_FALSE(link_.chunks[0].ends_line);
  EXPECT_EQ(link_.Joined(0, 1), "");
  WriteAll(ends_[0].err.get(), "10%\r");  // at once
  RunReady();
  EXPECT_EQ(link_.Joined(0, 2), "prompt> 10%\r");
  WriteAll(ends_[0].err.get(), "a");
  RunReady();
  WriteAll(ends_[0].err.get(), "b");
  ASSERT_TRUE(RunUntil([this] { return link_.Joined(0, 2).back() == 'b'; }));
  EXPECT_EQ(link_.Joined(0, 2), "prompt> 10%\rab");
}

// Of many workers on a terminal each update would be a line of its own.
TEST_F(OutputPumpTest, BarsOfManyWorkersAreShownNowAndThen) {
  options_.partial_err = true;
  options_.prefix = true;
  bars_.terminal = absl::Milliseconds(300);
  Begin(2);
  for (const char* state : {"\r 10%", "\r 20%", "\r 30%"}) {
    WriteAll(ends_[0].err.get(), state);
    RunReady();
  }
  EXPECT_TRUE(link_.chunks.empty());
  ASSERT_TRUE(RunUntil([this] { return !link_.chunks.empty(); }));
  EXPECT_EQ(link_.chunks.size(), 1u);
  EXPECT_EQ(link_.Joined(0, 2), "\r 10%\r 20%\r 30%");
  WriteAll(ends_[0].err.get(), "\r100%\n");  // whole lines are shown at once
  ASSERT_TRUE(RunUntil([this] { return link_.chunks.size() == 2; }));
  EXPECT_EQ(link_.chunks[1].bytes, "\r100%\n");
}

TEST_F(OutputPumpTest, ABarThatGrowsForLongIsAlsoShownInAPipe) {
  bars_.pipe = absl::Milliseconds(300);
  Begin(2);
  WriteAll(ends_[0].out.get(), "no bar");
  WriteAll(ends_[1].out.get(), "\r 10%");
  RunReady();
  EXPECT_TRUE(link_.chunks.empty());
  ASSERT_TRUE(RunUntil([this] { return !link_.chunks.empty(); }));
  EXPECT_EQ(link_.Joined(1, 1), "\r 10%");
  EXPECT_FALSE(link_.chunks[0].ends_line);
  EXPECT_FALSE(link_.chunks[0].split);
  EXPECT_EQ(link_.Joined(0, 1), "");
}

TEST_F(OutputPumpTest, LongLinesAreSplit) {
  const std::string line(3 * kLineBytesMax, 'x');
  Begin(1);
  threads_.emplace_back([this, &line] {
    WriteAll(ends_[0].out.get(), line);
    WriteAll(ends_[0].out.get(), "\nshort\n");
    ends_[0].out.Reset();
    ends_[0].err.Reset();
    ++writers_done_;
  });
  ASSERT_TRUE(RunUntil([this] { return pump_->round_closed(); }));
  EXPECT_EQ(link_.Joined(0, 1), line + "\nshort\n");
  EXPECT_TRUE(link_.chunks[0].split);
  EXPECT_FALSE(link_.chunks[0].ends_line);
  EXPECT_TRUE(link_.chunks.back().ends_line);
}

TEST_F(OutputPumpTest, StoppedReaderStopsNobody) {
  link_.take = [](const OutputChunk&) { return false; };
  Begin(10);
  StartFlood(10, 20000);  // 200 MB
  ASSERT_TRUE(RunWhileMoving([this] { return writers_done_ == 10 && pump_->round_closed(); }));
  EXPECT_GT(written_, 190u << 20);
  EXPECT_EQ(received_, 0u);
  EXPECT_FALSE(pump_->Empty());
  link_.take = [](const OutputChunk&) { return true; };
  pump_->OnWritable();
  ASSERT_TRUE(RunWhileMoving([this] { return pump_->Empty(); }));
  EXPECT_EQ(received_, 10u * 20000u);
  EXPECT_EQ(torn_, "");
}

TEST_F(OutputPumpTest, SlowReaderGetsAllInOrder) {
  int budget = 0;
  link_.take = [&budget](const OutputChunk&) { return budget-- > 0; };
  Begin(6);
  StartFlood(6, 8000);
  uv_timer_t reader;
  uv_timer_init(&loop_, &reader);
  struct Grant {
    OutputPump* pump;
    int* budget;
  } grant = {pump_.get(), &budget};
  reader.data = &grant;
  uv_timer_start(
      &reader,
      [](uv_timer_t* timer) {
        const Grant& to = *static_cast<Grant*>(timer->data);
        *to.budget = 7;
        to.pump->OnWritable();
      },
      1, 1);
  EXPECT_TRUE(RunWhileMoving([this] { return pump_->round_closed() && pump_->Empty(); }));
  uv_close(reinterpret_cast<uv_handle_t*>(&reader), nullptr);
  RunReady();
  EXPECT_EQ(received_, 6u * 8000u);
  EXPECT_EQ(torn_, "");
}

TEST_F(OutputPumpTest, FullSpoolBlocks) {
  options_.spool_bytes_max = 4u << 20;
  link_.take = [](const OutputChunk&) { return false; };
  Begin(5);
  StartFlood(5, 50000);  // 50 MB each: more than all bounds together
  // Held up once less than a turn's room is left in the file; what pipes hold besides may be
  // little.
  ASSERT_TRUE(RunWhileMoving([this] { return written_ > kOutputMemoryMax + (2u << 20); }));
  RunTicks(10, 50);  // of the pump's own pauses
  // Per worker one turn more, and what pipe and writer hold.
  EXPECT_LT(written_, kOutputMemoryMax + (4u << 20) + (size_t{10} << 20));
  EXPECT_EQ(writers_done_, 0u);
  link_.take = [](const OutputChunk&) { return true; };
  pump_->OnWritable();
  ASSERT_TRUE(RunWhileMoving([this] { return pump_->round_closed() && pump_->Empty(); }));
  EXPECT_EQ(received_, 5u * 50000u);
  EXPECT_EQ(torn_, "");
}

// Pauses go by bytes: where the kernel refuses larger pipes, workers do not crawl at a pipe a
// pause.
TEST_F(OutputPumpTest, SmallPipesGoAtTheSamePace) {
  link_.take = [](const OutputChunk&) { return false; };
  Begin(2);
  for (const OutputPump::WorkerEnds& ends : ends_) {
    ASSERT_EQ(fcntl(ends.out.get(), F_SETPIPE_SZ, 4096), 4096);
  }
  StartFlood(2, 20000);  // 20 MB each: 10,000 pipes
  ASSERT_TRUE(RunWhileMoving([this] { return pump_->round_closed(); }));
  link_.take = [](const OutputChunk&) { return true; };
  pump_->OnWritable();
  EXPECT_TRUE(pump_->Empty());  // all of it was in memory
  EXPECT_EQ(received_, 2u * 20000u);
}

TEST_F(OutputPumpTest, FullSpoolDropsAndCounts) {
  options_.spool_bytes_max = 4u << 20;
  options_.overflow = OverflowMode::kDrop;
  in_full_ = false;
  link_.take = [](const OutputChunk&) { return false; };
  Begin(5);
  StartFlood(5, 24000);
  ASSERT_TRUE(RunWhileMoving([this] { return pump_->round_closed(); }));
  link_.take = [](const OutputChunk&) { return true; };
  pump_->OnWritable();
  ASSERT_TRUE(RunWhileMoving([this] { return pump_->Empty(); }));
  EXPECT_EQ(torn_, "");
  EXPECT_GT(received_, 5u * 10000u);
  EXPECT_LT(received_, 5u * 24000u);
  EXPECT_THAT(log_, HasSubstr(absl::StrCat("drop: ", size_t{120000} - received_, " lines")));
}

TEST_F(OutputPumpTest, DiscardLetsWorkersEnd) {
  link_.take = [](const OutputChunk&) { return false; };
  options_.spool_bytes_max = 4u << 20;
  Begin(5);
  StartFlood(5, 24000);
  ASSERT_TRUE(RunWhileMoving([this] { return written_ > kOutputMemoryMax + (2u << 20); }));
  EXPECT_FALSE(pump_->Empty());
  int empty = 0;
  pump_->on_empty = [&empty] { ++empty; };
  pump_->Discard();
  EXPECT_GT(empty, 0);
  ASSERT_TRUE(RunUntil([this] { return pump_->round_closed(); }));
  EXPECT_TRUE(pump_->Empty());
  EXPECT_EQ(received_, 0u);
}

// The link finds out that nobody reads in the middle of Send.
TEST_F(OutputPumpTest, DiscardFromWithinSend) {
  bool dead = false;
  link_.take = [](const OutputChunk&) { return false; };
  link_.on_chunk = [&](const OutputChunk&) {
    EXPECT_FALSE(dead) << "sent after the end";
    dead = true;
    pump_->Discard();
    pump_->OnWritable();
  };
  Begin(5);
  WriteAll(ends_[0].out.get(), "a\n");
  RunReady();
  WriteAll(ends_[1].out.get(), "b\n");
  RunReady();
  EXPECT_FALSE(pump_->Empty());
  link_.take = [](const OutputChunk&) { return true; };
  pump_->OnWritable();
  EXPECT_TRUE(dead);
  EXPECT_TRUE(pump_->Empty());
  WriteAll(ends_[1].out.get(), "c\nd");
  ASSERT_TRUE(RunUntilClosed());
}

TEST_F(OutputPumpTest, CloseRoundTakesWhatIsThereAndNoMore) {
  Begin(5);
  const UniqueFd stray(fcntl(ends_[0].out.get(), F_DUPFD_CLOEXEC, 3));
  WriteAll(ends_[0].out.get(), "last\nwords");
  WriteAll(ends_[1].err.get(), "e\n");
  CloseEnds();
  pump_->CloseRound();
  EXPECT_TRUE(pump_->round_closed());
  EXPECT_EQ(link_.Joined(0, 1), "last\nwords");
  EXPECT_EQ(link_.Joined(1, 2), "e\n");
  EXPECT_EQ(write(stray.get(), "x", 1), -1);
  Begin(1, 0, 2);
  WriteAll(ends_[0].out.get(), "next\n");
  ASSERT_TRUE(RunUntilClosed());
  EXPECT_EQ(link_.Joined(0, 1), "last\nwordsnext\n");
}

TEST_F(OutputPumpTest, WhoHasTheOutputOfEndedWorkersOpenIsWaitedFor) {
  Begin(3, /*rank_first=*/4);
  UniqueFd stray(fcntl(ends_[1].err.get(), F_DUPFD_CLOEXEC, 3));
  WriteAll(ends_[2].out.get(), std::string(64u << 10, 'x'));
  CloseEnds();
  int closed = 0;
  pump_->on_round_closed = [&] { ++closed; };
  for (uint32_t local = 0; local < 3; ++local) {
    pump_->Drain(local);
  }
  EXPECT_THAT(pump_->open_ranks(), testing::ElementsAre(5));
  EXPECT_FALSE(pump_->round_closed());
  WriteAll(stray.get(), "sorted\n");
  RunReady();
  EXPECT_EQ(closed, 0);
  stray.Reset();
  ASSERT_TRUE(RunUntil([&] { return closed > 0; }));
  EXPECT_TRUE(pump_->round_closed());
  EXPECT_EQ(link_.Joined(5, 2), "sorted\n");
  pump_->CloseRound();
  EXPECT_EQ(closed, 1);
}

TEST_F(OutputPumpTest, CloseRoundEndsThoughAStrayWriterNeverStops) {
  Begin(1);
  threads_.emplace_back([stray = fcntl(ends_[0].out.get(), F_DUPFD_CLOEXEC, 3)] {
    const UniqueFd fd(stray);
    const std::string lines(100000, '\n');
    while (write(fd.get(), lines.data(), lines.size()) > 0) {
    }
  });
  ASSERT_TRUE(RunUntil([this] { return !link_.chunks.empty(); }));
  link_.on_chunk = [](const OutputChunk&) {};
  pump_->Drain(0);
  pump_->CloseRound();
  EXPECT_TRUE(pump_->round_closed());
}

TEST_F(OutputPumpTest, DrainGivesTheLastLinesOfStderr) {
  Begin(4);
  std::string many;
  for (int i = 0; i < 100; ++i) {
    many += absl::StrCat("line ", i, "\n");
  }
  WriteAll(ends_[0].err.get(), many);
  WriteAll(ends_[0].out.get(), "out\n");
  WriteAll(ends_[1].err.get(), std::string(20000, 'x') + "end");
  WriteAll(ends_[2].err.get(), std::string(6000, 'y') + "\n" + std::string(5000, 'z') + "\nend");
  std::string last20;
  for (int i = 80; i < 100; ++i) {
    last20 += absl::StrCat("line ", i, "\n");
  }
  EXPECT_EQ(pump_->Drain(0), last20);  // without a turn of the loop
  EXPECT_EQ(link_.Joined(0, 1), "out\n");
  EXPECT_EQ(pump_->Drain(1), std::string(kStderrTailBytes - 3, 'x') + "end");
  EXPECT_TRUE(pump_->Drain(2) == std::string(5000, 'z') + "\nend");
  EXPECT_EQ(pump_->Drain(3), "");
  WriteAll(ends_[0].err.get(), "more");
  CloseEnds();
  EXPECT_EQ(pump_->Drain(0), last20.substr(last20.find('\n') + 1) + "more");
  for (uint32_t i = 1; i < 4; ++i) {
    pump_->Drain(i);
  }
  EXPECT_TRUE(pump_->round_closed());
}

TEST_F(OutputPumpTest, NoDescriptorIsAnErrorWithAWayOut) {
  Begin(1);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const UniqueFd next(open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (const int room : {0, 3}) {  // none at all, and none for stderr
    const rlimit tight = {static_cast<rlim_t>(next.get() + 1 + room), before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &tight);
    const absl::StatusOr<OutputPump::WorkerEnds> ends = pump_->Open(1);
    setrlimit(RLIMIT_NOFILE, &before);
    EXPECT_TRUE(absl::IsResourceExhausted(ends.status()));
    EXPECT_THAT(std::string(ends.status().message()), HasSubstr("ulimit -n"));
  }
  ASSERT_TRUE(RunUntilClosed());
}

}  // namespace
}  // namespace muster
