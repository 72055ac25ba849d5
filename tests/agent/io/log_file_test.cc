#include "agent/io/log_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "tests/agent/io/loop_test.h"
#include "tests/agent/io/no_threads.h"
#include "tests/agent/io/slow_disk.h"

namespace muster {
namespace {

std::string Content(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

class LogFileTest : public LoopTest {
 protected:
  LogFileTest() {
    std::string name = absl::StrCat(::testing::TempDir(), "/muster-log-XXXXXX");
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    SetLogSink([this](LogLevel, absl::string_view text) { log_ += std::string(text) + "\n"; });
  }
  ~LogFileTest() override {
    SetLogSink(nullptr);
    EXPECT_EQ(std::system(absl::StrCat("rm -rf '", folder_, "'").c_str()), 0);
  }
  std::shared_ptr<DiskThread> disk_ = std::make_shared<DiskThread>(&loop_);
  std::string folder_;
  std::string log_;
};

TEST_F(LogFileTest, TheFolderIsMadeOrItIsSaidWhyNot) {
  EXPECT_TRUE(MakeLogFolder("").ok());
  EXPECT_TRUE(MakeLogFolder(folder_ + "/a/b").ok());
  EXPECT_TRUE(MakeLogFolder(folder_ + "/a/b/").ok());
  EXPECT_EQ(access((folder_ + "/a/b").c_str(), X_OK), 0);
  EXPECT_THAT(std::string(MakeLogFolder("/proc/none/x").message()),
              ::testing::HasSubstr("--log-dir /proc/none/x: mkdir /proc/none: No such file"));
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_THAT(std::string(MakeLogFolder(folder_ + "/file").message()),
              ::testing::HasSubstr("/file: Not a directory: no worker was started"));
}

TEST_F(LogFileTest, MakesFoldersAndKeepsOrder) {
  const std::string path = folder_ + "/a/b c/file";
  std::shared_ptr<LogFile> file = LogFile::Make(disk_, path);
  int idle = 0;
  file->on_idle = [&idle] { ++idle; };
  std::string wanted;
  for (int i = 0; i < 2000; ++i) {
    const std::string line = absl::StrCat("line ", i, "\n");
    wanted += line;
    file->Append(line);
    if (i % 100 == 0) {
      uv_run(&loop_, UV_RUN_NOWAIT);
    }
  }
  EXPECT_FALSE(file->idle());
  EXPECT_GT(file->waiting_bytes(), 0u);
  ASSERT_TRUE(RunUntil([&] { return file->idle(); }));
  EXPECT_GT(idle, 0);
  EXPECT_EQ(file->waiting_bytes(), 0u);
  EXPECT_EQ(Content(path), wanted);
}

TEST_F(LogFileTest, WhatIsThereIsKeptOrReplaced) {
  const std::string path = folder_ + "/file";
  const auto write = [&](const std::shared_ptr<LogFile>& file, absl::string_view line) {
    file->Append(line);
    EXPECT_TRUE(RunUntil([&] { return file->idle(); }));
  };
  std::ofstream(path) << "old\n";
  const std::shared_ptr<LogFile> first = LogFile::Make(disk_, path);
  const std::shared_ptr<LogFile> second = LogFile::Make(disk_, path, OldLines::kKept);
  write(first, "a\n");
  write(second, "b\n");
  write(first, "c\n");
  EXPECT_EQ(Content(path), "old\na\nb\nc\n");
  write(LogFile::Make(disk_, path, OldLines::kReplaced), "x\n");
  EXPECT_EQ(Content(path), "x\n");
}

TEST_F(LogFileTest, TroubleIsToldOnceAndWaitsForNobody) {
  for (const std::string& path : {folder_, std::string("/dev/full"), folder_ + "/x/y"}) {
    log_.clear();
    std::ofstream(folder_ + "/x") << "a file";
    std::shared_ptr<LogFile> file = LogFile::Make(disk_, path);
    int idle = 0;
    file->on_idle = [&idle] { ++idle; };
    std::vector<std::string> lost;
    file->on_lost = [&lost](const std::string& why) { lost.push_back(why); };
    file->Append("a");
    file->Append("b");
    ASSERT_TRUE(RunUntil([&] { return idle > 0; }));
    file->Append("c");
    EXPECT_TRUE(file->idle());
    EXPECT_THAT(log_,
                testing::HasSubstr(folder_.substr(0, 4) == path.substr(0, 4) ? folder_ : path));
    EXPECT_EQ(std::count(log_.begin(), log_.end(), '\n'), 1) << log_;
    EXPECT_THAT(lost, testing::ElementsAre(file->lost()));
  }
}

TEST_F(LogFileTest, WithoutAThreadTheProblemIsSaidOnce) {
  const NoThreads none;
  std::shared_ptr<LogFile> file = LogFile::Make(disk_, folder_ + "/file");
  file->Append("a");
  file->Append("b");
  EXPECT_TRUE(file->idle());
  EXPECT_THAT(
      log_, testing::AllOf(testing::HasSubstr(folder_ + "/file"), testing::HasSubstr("ulimit -u")));
  EXPECT_EQ(std::count(log_.begin(), log_.end(), '\n'), 1) << log_;
}

TEST_F(LogFileTest, ADiskThatHangsIsGivenNoMoreThanItsBound) {
  auto gate = std::make_shared<Gate>();
  disk_ = GatedDisk(&loop_, gate);
  ASSERT_TRUE(disk_->Start().ok());
  std::shared_ptr<LogFile> before = LogFile::Make(disk_, folder_ + "/before");
  before->Append("a");
  while (!disk_->Full()) {
    disk_->Run([] {}, nullptr);
  }
  EXPECT_EQ(disk_->outstanding(), kDiskWorksMax);
  std::shared_ptr<LogFile> file = LogFile::Make(disk_, folder_ + "/file");
  file->Append("b");
  file->Append("c");
  EXPECT_TRUE(file->idle());
  EXPECT_THAT(log_, testing::HasSubstr(folder_ + "/file"));
  EXPECT_EQ(std::count(log_.begin(), log_.end(), '\n'), 1) << log_;
  file.reset();
  EXPECT_EQ(disk_->outstanding(), kDiskWorksMax);
  before.reset();  // may close
  gate->Open();
  ASSERT_TRUE(RunUntil([&] { return disk_->outstanding() == 0; }));
  EXPECT_EQ(Content(folder_ + "/before"), "a");
}

// L2: the owner goes while the file system hangs; the write under way still ends.
TEST_F(LogFileTest, OutlivesItsOwnerWhileBusy) {
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::shared_ptr<LogFile> file = LogFile::Make(disk_, fifo);
  file->Append("late");
  RunReady();
  EXPECT_FALSE(file->idle());
  file.reset();
  const UniqueFd reader(open(fifo.c_str(), O_RDONLY | O_CLOEXEC));
  uv_run(&loop_, UV_RUN_DEFAULT);  // until the task has ended
  EXPECT_EQ(ReadToEnd(reader.get()), "late");
}

// L2: and so does everything else of it.
TEST_F(LogFileTest, HungFileHoldsUpNoDestructor) {
  auto gate = std::make_shared<Gate>();
  disk_ = GatedDisk(&loop_, gate);
  const std::string path = folder_ + "/file";
  std::shared_ptr<LogFile> file = LogFile::Make(disk_, path);
  std::shared_ptr<LogFile> other = LogFile::Make(disk_, folder_ + "/other");
  file->on_idle = [] { ADD_FAILURE() << "called back after the end"; };
  file->Append("first");
  file->Append("given up");
  other->Append("x");
  ASSERT_TRUE(gate->Reached());
  file.reset();
  RunReady();
  EXPECT_FALSE(other->idle());
  gate->Open();
  ASSERT_TRUE(RunUntil([&] { return disk_->outstanding() == 0; }));
  EXPECT_TRUE(other->idle());
  EXPECT_EQ(Content(path), "first");
  gate->Close();
  other->Append("y");
  ASSERT_TRUE(gate->Reached());
  other.reset();
  disk_.reset();
  RunReady();
  EXPECT_EQ(uv_loop_alive(&loop_), 0);
  gate->Open();
}

// L1: however it is appended; and the descriptor is closed at the end.
TEST_F(LogFileTest, OneWriteAtATimeAndOneClose) {
  auto gate = std::make_shared<Gate>();
  disk_ = GatedDisk(&loop_, gate);
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const UniqueFd reader(open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::shared_ptr<LogFile> file = LogFile::Make(disk_, fifo);
  std::string wanted;
  for (int i = 0; i < 1000; ++i) {
    file->Append(absl::StrCat(i, "\n"));
    absl::StrAppend(&wanted, i, "\n");
    EXPECT_EQ(disk_->outstanding(), 1u);
  }
  EXPECT_EQ(file->waiting_bytes(), wanted.size());
  gate->Open();
  ASSERT_TRUE(RunUntil([&] { return file->idle(); }));
  file.reset();
  EXPECT_EQ(disk_->outstanding(), 1u);
  ASSERT_TRUE(RunUntil([&] { return disk_->outstanding() == 0; }));
  EXPECT_EQ(ReadToEnd(reader.get()), wanted);
}

TEST_F(LogFileTest, BorrowedDescriptorStaysOpen) {
  const std::string path = folder_ + "/file";
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  std::shared_ptr<LogFile> file = LogFile::OnDescriptor(disk_, fd.get(), "stdout");
  file->Append("a");
  ASSERT_TRUE(RunUntil([&] { return file->idle(); }));
  file.reset();
  EXPECT_EQ(write(fd.get(), "b", 1), 1);
  EXPECT_EQ(Content(path), "ab");
}

}  // namespace
}  // namespace muster
