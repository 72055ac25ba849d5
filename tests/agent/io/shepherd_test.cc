#include "agent/io/shepherd.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/core/exec_hint.h"
#include "agent/io/process_tree.h"
#include "agent/io/shepherd_client.h"
#include "agent/io/spawn.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "tests/agent/io/shepherd_fixture.h"

namespace muster {
namespace {

TEST_F(ShepherdTest, RunsAWorker) {
  const std::string out = RunOne(
      {"/", {"sh", "-c", "echo $A $B; pwd; cat; exit 7"}, {kPath, "A=1"}}, {"B=two\nlines \xff"});
  EXPECT_EQ(out, "1 two lines \xff\n/\n");  // stdin is /dev/null
  EXPECT_EQ(WEXITSTATUS(ends_[0].wait_status), 7);
  EXPECT_TRUE(ends_[0].alone);
  EXPECT_GT(ends_[0].peak_bytes, 100000u);
}

// The first thread's own times can be read until it is reaped; the kernel adds up what ended below.
TEST_F(ShepherdTest, SaysHowLongAWorkerRan) {
  constexpr char kSpins[] = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
  RunOne(Shell(absl::StrCat(kSpins, "; (", kSpins, ")")));
  const EndTimes& times = ends_[0].times;
  EXPECT_GT(times.ran, 0);
  EXPECT_GT(times.cpu, times.ran);
}

TEST_F(ShepherdTest, NotAloneWhileAChildOfTheWorkerLives) {
  Start().SetProgram(Shell("setsid sleep 1000 & exit 0"));
  TestPipe output = MakePipe();
  SpawnOn(0, output);
  output.writer.Reset();
  ASSERT_TRUE(RunUntil([this] { return ends_.size() == 1; }));
  EXPECT_FALSE(ends_[0].alone);
  client_->Clear();
  ASSERT_TRUE(RunUntil([this] { return cleared_ == 1; }));
  EXPECT_EQ(ReadToEnd(output.reader.get()), "");
}

TEST_F(ShepherdTest, SaysWhatCouldNotBeRun) {
  const std::string file = absl::StrCat(::testing::TempDir(), "/muster-plain-", getpid());
  const UniqueFd made(open(file.c_str(), O_WRONLY | O_CREAT, 0644));
  const struct {
    WorkerProgram program;
    int error;
    std::string what;
  } cases[] = {
      {{"", {"no-such-program"}, {kPath}},
       ENOENT,
       absl::StrCat("exec no-such-program: No such file or directory",
                    ExecHint("no-such-program", ENOENT, FileKind::kNone))},
      {{"", {"sh"}, {"PATH=/none"}},
       ENOENT,
       absl::StrCat("exec sh: No such file or directory", ExecHint("sh", ENOENT, FileKind::kNone))},
      {{"", {""}, {kPath}},
       ENOENT,
       absl::StrCat("exec : No such file or directory", ExecHint("", ENOENT, FileKind::kNone))},
      {{"", {file}, {kPath}},
       EACCES,
       absl::StrCat("exec ", file, ": Permission denied", ExecHint(file, EACCES, FileKind::kFile))},
      {{"/", {"./tmp"}, {kPath}}, EACCES, "exec ./tmp: Permission denied; it is a folder"},
      {{"/none", {"sh"}, {kPath}},
       ENOENT,
       "chdir /none: No such file or directory on this node; --wdir DIR names one that is there, "
       "--ship FILE brings the program along"},
  };
  for (const auto& c : cases) {
    failures_.clear();
    EXPECT_EQ(RunOne(c.program), "");
    ASSERT_EQ(failures_.size(), 1u) << c.what;
    EXPECT_EQ(failures_[0].first, c.error) << c.what;
    EXPECT_EQ(failures_[0].second, c.what);
  }
  unlink(file.c_str());
}

TEST_F(ShepherdTest, SearchesThePathOfTheWorker) {
  std::string folder = absl::StrCat(::testing::TempDir(), "/muster-path-XXXXXX");
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string program = absl::StrCat(folder, "/my program");
  {
    const UniqueFd fd(open(program.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0755));
    ASSERT_GT(write(fd.get(), "echo found $1\n", 14), 0);  // a script without "#!"
  }
  EXPECT_EQ(RunOne({"", {"my program", "it"}, {absl::StrCat("PATH=/none::", folder, ":/bin")}}),
            "found it\n");
  unlink(program.c_str());
  rmdir(folder.c_str());
}

// Numbers of our descriptors that survive an exec.
std::set<int> OpenWithoutCloexec() {
  std::set<int> out;
  for (int fd = 0; fd < 256; ++fd) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) {
      out.insert(fd);
    }
  }
  return out;
}

TEST_F(ShepherdTest, WorkerHasOnlyTheDescriptorsItShould) {
  const TestPipe of_caller = MakePipe(0);  // left open on purpose: a job server, a lock
  std::set<int> expected = OpenWithoutCloexec();
  expected.insert({0, 1, 2, kWorkerDoorFd, kWorkerLifeFd});
  const std::string out = RunOne(
      Shell("i=0; while [ $i -lt 256 ]; do [ -e /proc/$$/fd/$i ] && echo $i; i=$((i+1)); done"));
  std::set<int> open_there;
  for (const absl::string_view line : absl::StrSplit(out, '\n', absl::SkipEmpty())) {
    int fd = -1;
    ASSERT_TRUE(absl::SimpleAtoi(line, &fd));
    open_there.insert(fd);
  }
  EXPECT_EQ(open_there, expected);
}

TEST_F(ShepherdTest, ExitIsSeenWhereTheCallerIgnoresSigchld) {
  const auto old = signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(RunOne(Shell("grep SigIgn /proc/self/status; exit 3")).size(), 25u);
  EXPECT_EQ(WEXITSTATUS(ends_[0].wait_status), 3);
  signal(SIGCHLD, old);
}

TEST_F(ShepherdTest, WorkerIgnoresWhatTheCallerIgnoresButSigpipe) {
  const auto old_pipe = signal(SIGPIPE, SIG_IGN);
  const auto old_hup = signal(SIGHUP, SIG_IGN);
  EXPECT_EQ(RunOne(Shell("exec grep SigIgn /proc/self/status")), "SigIgn:\t0000000000000001\n");
  signal(SIGPIPE, old_pipe);
  signal(SIGHUP, old_hup);
}

TEST_F(ShepherdTest, WorkerDiesBySignalAndSaysSo) {
  RunOne(Shell("kill -SEGV $$"));
  EXPECT_EQ(WTERMSIG(ends_[0].wait_status), SIGSEGV);
}

TEST_F(ShepherdTest, SignalsReachEveryProcessGroup) {
  // The child says so itself: right after its fork it would take the signal with its parent's trap.
  Start().SetProgram(
      Shell("trap 'echo got; exit 3' USR1; sh -c 'echo ready; exec sleep 1000' & "
            "while :; do wait; done"));
  TestPipe output = MakePipe();
  for (uint32_t i = 0; i < 3; ++i) {
    SpawnOn(i, output);
  }
  output.writer.Reset();
  ASSERT_TRUE(RunUntil([this] { return pids_.size() == 3; }));
  EXPECT_EQ(ReadBytes(output.reader.get(), 18), "ready\nready\nready\n");
  client_->Signal(SIGUSR1);
  ASSERT_TRUE(RunUntil([this] { return ends_.size() == 3; }));
  for (const auto& [rank, end] : ends_) {
    EXPECT_EQ(WEXITSTATUS(end.wait_status), 3) << rank;
  }
  EXPECT_EQ(ReadToEnd(output.reader.get()), "got\ngot\ngot\n");  // the sleeps are gone too
}

TEST_F(ShepherdTest, ClearEndsSessionsAndDoubleForks) {
  Start().SetProgram(Shell(kEvasiveScript));
  TestPipe output = MakePipe();
  SpawnOn(0, output);
  output.writer.Reset();
  EXPECT_EQ(ReadBytes(output.reader.get(), 6).size(), 6u);
  client_->Clear();
  ASSERT_TRUE(RunUntil([this] { return cleared_ == 1; }));
  EXPECT_EQ(WTERMSIG(ends_[0].wait_status), SIGKILL);  // told before kCleared
  EXPECT_EQ(ReadToEnd(output.reader.get()), "");
  // The shepherd lives on for the next round.
  ends_.clear();
  pids_.clear();
  TestPipe next = MakePipe();
  SpawnOn(1, next);
  next.writer.Reset();
  EXPECT_EQ(ReadBytes(next.reader.get(), 6).size(), 6u);
  client_->Clear();
  ASSERT_TRUE(RunUntil([this] { return cleared_ == 2; }));
}

// What a worker left behind is told from what another one has: by the environment, also in a
// session of its own, and by the process group, also without an environment.
TEST_F(ShepherdTest, ClearWorkerEndsWhatThatOneLeftBehind) {
  Start().SetProgram(
      Shell("setsid sleep 1000 & (env -i sleep 1000 &); echo ready; exec sleep 1000"));
  std::vector<TestPipe> outputs;
  for (uint32_t i = 0; i < 2; ++i) {
    outputs.push_back(MakePipe());
    SpawnOn(i, outputs[i], {"MUSTER_JOB_ID=j", absl::StrCat("MUSTER_LOCAL_RANK=", i)});
    outputs[i].writer.Reset();
    EXPECT_EQ(ReadBytes(outputs[i].reader.get(), 6), "ready\n");
  }
  ASSERT_TRUE(RunUntil([this] { return pids_.size() == 2; }));
  kill(pids_[0], SIGKILL);
  ASSERT_TRUE(RunUntil([this] { return ends_.size() == 1; }));
  client_->ClearWorker(0);
  EXPECT_EQ(ReadToEnd(outputs[0].reader.get()), "");
  // The reaper, the shepherd, and all of the other one; what was killed has yet to be reaped.
  EXPECT_TRUE(RunUntil([] { return Descendants().size() == 2u + 3u; }));
  // One that never ran left nothing, and an index begins anew.
  client_->ClearWorker(2);
  pids_.erase(0);
  ends_.erase(0);
  outputs[0] = MakePipe();
  SpawnOn(0, outputs[0]);
  outputs[0].writer.Reset();
  EXPECT_EQ(ReadBytes(outputs[0].reader.get(), 6), "ready\n");
  client_->Clear();
  ASSERT_TRUE(RunUntil([this] { return cleared_ == 1; }));
}

TEST_F(ShepherdTest, KilledShepherdLeavesNothing) {
  Start().SetProgram(Shell(kEvasiveScript));
  TestPipe output = MakePipe();
  for (uint32_t i = 0; i < 3; ++i) {
    SpawnOn(i, output);
  }
  output.writer.Reset();
  ASSERT_TRUE(RunUntil([this] { return pids_.size() == 3; }));
  EXPECT_EQ(ReadBytes(output.reader.get(), 18).size(), 18u);
  // A child of ours that is none of its descendants goes on: the reaper ends those alone.
  TestPipe held = MakePipe();
  const pid_t spared = fork();
  if (spared == 0) {
    held.writer.Reset();
    (void)ReadToEnd(held.reader.get());
    _exit(5);
  }
  kill(client_->pid(), SIGKILL);
  ASSERT_TRUE(RunUntil([this] { return dead_ == 1; }));
  EXPECT_EQ(ReadToEnd(output.reader.get()), "");
  held.writer.Reset();
  int status = 0;
  EXPECT_EQ(waitpid(spared, &status, 0), spared);
  EXPECT_EQ(WEXITSTATUS(status), 5);
}

// At any point of a round's start.
TEST_F(ShepherdTest, KilledShepherdLeavesNothingAtAnyMoment) {
  for (size_t after = 0; after <= 40; after += 4) {
    dead_ = 0;
    pids_.clear();
    failures_.clear();
    ends_.clear();
    Start().SetProgram(Shell("setsid sleep 1000 & (setsid sleep 1000 &); exec sleep 1000"));
    TestPipe output = MakePipe();
    for (uint32_t i = 0; i < 40; ++i) {
      SpawnOn(i, output);
    }
    output.writer.Reset();
    ASSERT_TRUE(RunUntil([&] { return pids_.size() >= after; }));
    kill(client_->pid(), SIGKILL);
    ASSERT_TRUE(RunUntil([this] { return dead_ == 1; }));
    EXPECT_EQ(ReadToEnd(output.reader.get()), "") << after;
    EXPECT_EQ(Descendants().size(), 2u);  // the reaper and the next shepherd
  }
}

TEST_F(ShepherdTest, ManyWorkersAtOnce) {
  constexpr uint32_t kWorkers = 300;
  Start().SetProgram(Shell("echo x; exit $((R % 100))"));
  TestPipe output = MakePipe();
  for (uint32_t i = 0; i < kWorkers; ++i) {
    SpawnOn(i, output, {absl::StrCat("R=", i)});
  }
  output.writer.Reset();
  ASSERT_TRUE(RunUntil([this] { return ends_.size() == kWorkers; }));
  for (const auto& [rank, end] : ends_) {
    EXPECT_EQ(WEXITSTATUS(end.wait_status), static_cast<int>(rank % 100));
  }
  EXPECT_EQ(ReadToEnd(output.reader.get()).size(), 2 * kWorkers);
  EXPECT_TRUE(failures_.empty());
}

// The I/O process is frozen, and its socket full of news: the lease still ends the workers.
// The kernel may give a child that is just being made the SIGSTOP, and not the SIGCONT.
TEST_F(ShepherdTest, APauseOfAMomentLeavesNoChildStanding) {
  Start().SetProgram(Shell("while echo; do (:); done"));
  TestPipe output = MakePipe();
  SpawnOn(0, output);
  output.writer.Reset();
  ASSERT_EQ(fcntl(output.reader.get(), F_SETFL, O_NONBLOCK), 0);
  char bytes[4096];
  const auto goes_on = [&] { return read(output.reader.get(), bytes, sizeof(bytes)) > 0; };
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(RunUntil(goes_on)) << "after pause " << i;
    client_->Signal(SIGSTOP);
    client_->Signal(SIGCONT);
    while (goes_on()) {
    }
  }
}

TEST_F(ShepherdTest, LeaseHoldsWhileNobodyReadsTheNews) {
  constexpr uint32_t kWorkers = 250;  // orders fit the socket, spawns and exits together do not
  Start().SetProgram(Shell("echo x; [ \"$R\" = last ] && exec sleep 1000"));
  TestPipe output = MakePipe();
  TestPipe patient = MakePipe();
  for (uint32_t i = 0; i < kWorkers; ++i) {
    SpawnOn(i, output);
  }
  SpawnOn(kWorkers, patient, {"R=last"});
  client_->SetLease(absl::ToUnixNanos(BootNow() + absl::Seconds(3)));
  output.writer.Reset();
  patient.writer.Reset();
  EXPECT_EQ(ReadToEnd(output.reader.get()).size(), 2 * kWorkers);  // the loop stands still
  EXPECT_EQ(ReadToEnd(patient.reader.get()), "x\n");
  ASSERT_TRUE(RunUntil([this] { return lease_ended_ == 1; }));
  EXPECT_EQ(ends_.size(), kWorkers + 1);
  EXPECT_EQ(WTERMSIG(ends_[kWorkers].wait_status), SIGKILL);
}

TEST_F(ShepherdTest, LeaseCanBeRenewedAndTakenBack) {
  Start().SetProgram(Shell("echo x; exec sleep 1000"));
  TestPipe output = MakePipe();
  SpawnOn(0, output);
  output.writer.Reset();
  client_->SetLease(absl::ToUnixNanos(BootNow() + absl::Hours(1)));
  client_->SetLease(0);
  EXPECT_EQ(ReadBytes(output.reader.get(), 2), "x\n");
  EXPECT_TRUE(ends_.empty());
  client_->SetLease(absl::ToUnixNanos(BootNow() - absl::Milliseconds(1)));  // over already
  ASSERT_TRUE(RunUntil([this] { return lease_ended_ == 1; }));
  EXPECT_EQ(ends_.size(), 1u);
}

TEST_F(ShepherdTest, BigEnvironments) {
  WorkerProgram program = Shell("env | wc -c");
  for (int i = 0; i < 100; ++i) {
    program.environment.push_back(absl::StrCat("V", i, "=", std::string(10 << 10, 'x')));
  }
  int64_t bytes = 0;
  EXPECT_TRUE(
      absl::SimpleAtoi(RunOne(program, {absl::StrCat("OWN=", std::string(50000, 'y'))}), &bytes));
  EXPECT_GT(bytes, 1050000);
  EXPECT_EQ(WEXITSTATUS(ends_[0].wait_status), 0);
}

TEST_F(ShepherdTest, TooBigEnvironments) {
  WorkerProgram program = Shell("env | wc -c");
  EXPECT_EQ(RunOne(program, {absl::StrCat("OWN=", std::string(100000, 'y'))}), "");
  EXPECT_EQ(failures_[0].first, E2BIG);
  failures_.clear();
  program.environment.push_back(absl::StrCat("A=", std::string(200 << 10, 'x')));
  EXPECT_EQ(RunOne(program), "");
  EXPECT_EQ(failures_[0].first, E2BIG);
}

// The shepherd's table of descriptors has room for two of a worker's three: none may take another's
// place.
TEST_F(ShepherdTest, LostDescriptorsAreAnError) {
  Start().SetProgram(Shell("echo x"));
  TestPipe output = MakePipe();
  SpawnOn(0, output);
  ASSERT_TRUE(RunUntil([this] { return ends_.size() == 1; }));
  std::set<int> taken;
  DIR* dir = opendir(absl::StrCat("/proc/", client_->pid(), "/fd").c_str());
  ASSERT_NE(dir, nullptr);
  while (const dirent* entry = readdir(dir)) {
    int fd = -1;
    if (absl::SimpleAtoi(entry->d_name, &fd)) {
      taken.insert(fd);
    }
  }
  closedir(dir);
  int limit = 0;
  for (int room = 0; room < 2; ++limit) {
    room += taken.count(limit) == 0 ? 1 : 0;
  }
  const rlimit tight = {static_cast<rlim_t>(limit), static_cast<rlim_t>(limit)};
  ASSERT_EQ(prlimit(client_->pid(), RLIMIT_NOFILE, &tight, nullptr), 0);
  TestPipe in = MakePipe();
  client_->Spawn(1, {}, {}, std::move(in.reader),
                 UniqueFd(fcntl(output.writer.get(), F_DUPFD_CLOEXEC, 3)),
                 UniqueFd(fcntl(output.writer.get(), F_DUPFD_CLOEXEC, 3)));
  ASSERT_TRUE(RunUntil([this] { return failures_.size() + ends_.size() == 2; }));
  EXPECT_EQ(failures_[1].first, EMFILE);
}

TEST_F(ShepherdTest, StdinReachesTheWorker) {
  Start().SetProgram(Shell("cat"));
  TestPipe output = MakePipe();
  TestPipe in = MakePipe();
  client_->Spawn(0, {}, {}, std::move(in.reader),
                 UniqueFd(fcntl(output.writer.get(), F_DUPFD_CLOEXEC, 3)),
                 UniqueFd(fcntl(output.writer.get(), F_DUPFD_CLOEXEC, 3)));
  output.writer.Reset();
  ASSERT_EQ(write(in.writer.get(), "hello", 5), 5);
  in.writer.Reset();
  ASSERT_TRUE(RunUntil([this] { return ends_.size() == 1; }));
  EXPECT_EQ(ReadToEnd(output.reader.get()), "hello");
}

TEST_F(ShepherdTest, RemovesTheRunFolderAtTheEnd) {
  std::string folder = absl::StrCat(::testing::TempDir(), "/muster-run-XXXXXX");
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  Start().SetRunDir(folder);
  client_->SetProgram(Shell(absl::StrCat("echo > ", folder, "/error.json")));
  TestPipe output = MakePipe();
  SpawnOn(0, output);
  ASSERT_TRUE(RunUntil([this] { return ends_.size() == 1; }));
  client_->Close();
  EXPECT_NE(access(folder.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace muster
