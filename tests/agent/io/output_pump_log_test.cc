// Log files beside what is shown.
#include <filesystem>

#include "tests/agent/io/output_pump_fixture.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// The worker is then not started, and the job ends as with any failed start.
TEST_F(OutputPumpTest, WithoutAThreadForItsLogAWorkerIsNotOpened) {
  options_.log_dir = folder_;
  Begin(0);
  {
    const NoThreads none;
    const absl::Status refused = pump_->Open(0).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("ulimit -u"));
  }
  EXPECT_TRUE(pump_->round_closed());
  EXPECT_TRUE(pump_->Open(0).ok());
  pump_->CloseRound();
}

// P5
TEST_F(OutputPumpTest, AFileThatCannotBeWrittenIsToldToTheLink) {
  options_.log_dir = folder_;
  ASSERT_TRUE(std::filesystem::create_directory(folder_ + "/job"));
  ASSERT_TRUE(std::filesystem::create_directory(folder_ + "/job/round-1"));
  std::filesystem::create_symlink("/dev/full", folder_ + "/job/round-1/rank-0.out");
  Begin(2);
  WriteAll(ends_[0].out.get(), "zero\n");
  WriteAll(ends_[1].out.get(), "one\n");
  ASSERT_TRUE(RunUntilClosed());
  EXPECT_EQ(link_.Joined(0, 1), "zero\n");  // shown all the same
  ASSERT_EQ(link_.lost.size(), 1u);
  EXPECT_THAT(link_.lost[0], HasSubstr("/job/round-1/rank-0.out: No space left on device"));
  EXPECT_EQ(Content(folder_ + "/job/round-1/rank-1.out"), "one\n");
}

TEST_F(OutputPumpTest, ShowsAndLogsAsAsked) {
  struct Case {
    const char* name;
    std::function<void(OutputOptions&)> set;
    std::string shown;  // rank + stream
    std::string files;
  };
  const Case cases[] = {
      {"plain", [](OutputOptions&) {}, "01 02 11 12 ", ""},
      {"show", [](OutputOptions& o) { o.log_dir = "", o.show = {1}; }, "11 12 ", ""},
      {"show local", [](OutputOptions& o) { o.log_dir = "", o.show_local = {0}; }, "01 02 ", ""},
      {"log_dir", [this](OutputOptions& o) { o.log_dir = folder_; }, "01 02 11 12 ",
       "0out 0err 1out 1err "},
      {"redirects", [this](OutputOptions& o) { o.log_dir = folder_, o.redirects.all = 3; }, "",
       "0out 0err 1out 1err "},
      {"redirect stdout", [this](OutputOptions& o) { o.log_dir = folder_, o.redirects.all = 1; },
       "02 12 ", "0out 1out "},
      {"tee", [this](OutputOptions& o) { o.log_dir = folder_, o.tee.all = 2; }, "01 02 11 12 ",
       "0err 1err "},
      {"redirect and tee",
       [this](OutputOptions& o) { o.log_dir = folder_, o.redirects.all = 3, o.tee.all = 1; },
       "01 11 ", "0out 0err 1out 1err "},
      {"of one rank",
       [this](OutputOptions& o) { o.log_dir = folder_, o.redirects.by_local_rank[1] = 3; },
       "01 02 ", "1out 1err "},
  };
  uint32_t round = 0;
  for (const Case& c : cases) {
    ++round;
    options_ = OutputOptions();
    c.set(options_);
    pump_.reset();
    RunReady();
    link_.chunks.clear();
    Begin(2, 0, round);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      WriteAll(ends_[rank].out.get(), absl::StrCat(rank, "out"));
      WriteAll(ends_[rank].err.get(), absl::StrCat(rank, "err"));
    }
    ASSERT_TRUE(RunUntilClosed()) << c.name;
    std::string shown;
    std::string files;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      for (const uint8_t stream : {uint8_t{1}, uint8_t{2}}) {
        shown += link_.Joined(rank, stream).empty() ? "" : absl::StrCat(rank, stream, " ");
        const std::string text = Content(absl::StrCat(folder_, "/job/round-", round, "/rank-", rank,
                                                      stream == 1 ? ".out" : ".err"));
        files += text.empty() ? "" : absl::StrCat(text, " ");
      }
    }
    EXPECT_EQ(shown, c.shown) << c.name;
    EXPECT_EQ(files, c.files) << c.name;
  }
}

TEST_F(OutputPumpTest, AFileOfItsOwnNameTakesAStream) {
  options_.out_file = folder_ + "/{host}/out-{node_rank}.{rank}";
  Begin(2);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    WriteAll(ends_[rank].out.get(), absl::StrCat(rank, "out\n"));
    WriteAll(ends_[rank].err.get(), absl::StrCat(rank, "err\n"));
  }
  ASSERT_TRUE(RunUntilClosed());
  EXPECT_EQ(link_.Joined(1, 1), "");
  EXPECT_EQ(link_.Joined(1, 2), "1err\n");
  EXPECT_EQ(Content(folder_ + "/node/out-5.0"), "0out\n");
  EXPECT_EQ(Content(folder_ + "/node/out-5.1"), "1out\n");
  Begin(1, 0, /*round=*/2);  // for whatever reason
  int progress = 0;          // of a file alone, too
  pump_->on_progress = [&] { ++progress; };
  WriteAll(ends_[0].out.get(), "again\n");
  ASSERT_TRUE(RunUntilClosed());
  EXPECT_GT(progress, 0);
  EXPECT_EQ(Content(folder_ + "/node/out-5.0"), "0out\n");
  EXPECT_EQ(Content(folder_ + "/node/out-5.0.1"), "again\n");
}

TEST_F(OutputPumpTest, LinesWithAWordOfAllWorkersGoToOneFile) {
  struct Case {
    uint8_t tee_rank_1;
    std::string want;
  };
  uint32_t round = 0;
  for (const Case& c :
       {Case{0, "[0@node] loss 0\n[1@node] loss 1\n"}, Case{1, "[1@node] loss 1\n"}}) {
    ++round;
    options_ = OutputOptions();
    options_.log_dir = folder_;
    options_.out_filters = {"loss", "nothing"};
    if (c.tee_rank_1 != 0) {
      options_.tee.by_local_rank[1] = c.tee_rank_1;
    }
    pump_.reset();
    RunReady();
    Begin(2, 0, round);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      WriteAll(ends_[rank].out.get(), absl::StrCat("step\nloss ", rank));
      WriteAll(ends_[rank].err.get(), "loss of another stream\n");
      ends_[rank] = {};
      pump_->Drain(rank);
    }
    ASSERT_TRUE(RunUntilClosed());
    const std::string of_node = absl::StrCat(folder_, "/job/round-", round, "/node-5.filtered");
    EXPECT_EQ(Content(of_node + ".out"), c.want);
    EXPECT_EQ(Content(of_node + ".err"), "");
  }
}

TEST_F(OutputPumpTest, TorchrunsLayoutKeepsTheErrorFile) {
  options_.log_dir = folder_;
  options_.log_layout = LogLayout::kTorchrun;
  Begin(1);
  WriteAll(ends_[0].out.get(), "out\n");
  pump_->KeepError(LocalRank{0}, "{}");
  ASSERT_TRUE(RunUntilClosed());
  const std::vector<std::filesystem::path> runs(std::filesystem::directory_iterator(folder_), {});
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_THAT(runs[0].filename().string(), testing::MatchesRegex("job_[0-9a-f]+"));
  EXPECT_EQ(Content(runs[0] / "attempt_0/0/stdout.log"), "out\n");
  EXPECT_EQ(Content(runs[0] / "attempt_0/0/error.json"), "{}");
}

TEST_F(OutputPumpTest, TorchrunsLayoutHasFilesOfTheSilentToo) {
  options_.log_dir = folder_;
  options_.log_layout = LogLayout::kTorchrun;
  options_.redirects.by_local_rank = {{0, 3}, {1, 1}};
  options_.tee.by_local_rank = {{2, 2}};
  Begin(4);
  ASSERT_TRUE(RunUntilClosed());
  const std::vector<std::filesystem::path> runs(std::filesystem::directory_iterator(folder_), {});
  ASSERT_EQ(runs.size(), 1u);
  std::string files;
  for (const char* local : {"0", "1", "2", "3"}) {
    for (const char* name : {"stdout.log", "stderr.log"}) {
      files += std::filesystem::exists(runs[0] / "attempt_0" / local / name)
                   ? absl::StrCat(local, name, " ")
                   : "";
    }
  }
  EXPECT_EQ(files, "0stdout.log 0stderr.log 1stdout.log 2stderr.log ");
}

// A file system that hangs: a FIFO whose open does not return.
TEST_F(OutputPumpTest, HungLogHoldsUpOnlyItsWorker) {
  options_.log_dir = folder_;
  options_.tee.by_local_rank[0] = 1;
  const std::string round = folder_ + "/job/round-1";
  ASSERT_EQ(std::system(absl::StrCat("mkdir -p ", round).c_str()), 0);
  const std::string fifo = round + "/rank-0.out";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  Begin(2);
  StartFlood(2, 24000);  // 24 MB each
  ASSERT_TRUE(RunUntil([this] { return writers_done_ == 1; }));
  EXPECT_EQ(next_[1], 24000u);
  EXPECT_LT(next_[0], 24000u);  // at most kLogFileBytesMax and a turn
  threads_.emplace_back([fifo] {
    const UniqueFd fd(open(fifo.c_str(), O_RDONLY | O_CLOEXEC));
    (void)ReadToEnd(fd.get());
  });
  ASSERT_TRUE(RunUntil([this] { return pump_->round_closed() && pump_->Empty(); }));
  EXPECT_EQ(next_[0], 24000u);
  EXPECT_EQ(torn_, "");
  pump_.reset();
}

TEST_F(OutputPumpTest, LogThatCannotBeMadeIsToldOnce) {
  options_.log_dir = "/proc/none";
  Begin(1);
  WriteAll(ends_[0].out.get(), "a\n");
  RunReady();
  WriteAll(ends_[0].out.get(), "b\n");
  ASSERT_TRUE(RunUntilClosed());
  EXPECT_EQ(link_.Joined(0, 1), "a\nb\n");
  EXPECT_THAT(log_, HasSubstr("/proc/none"));
  EXPECT_EQ(std::count(log_.begin(), log_.end(), '\n'), 1);
}

}  // namespace
}  // namespace muster
