#include "agent/io/spawn.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/agent/io/loop_test.h"

namespace muster {
namespace {

class SpawnTest : public ::testing::Test {
 protected:
  SpawnTest() {
    std::string name = absl::StrCat(::testing::TempDir(), "/muster-spawn-XXXXXX");
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    getrlimit(RLIMIT_NOFILE, &files_);
  }
  ~SpawnTest() override {
    EXPECT_EQ(std::system(absl::StrCat("rm -rf '", folder_, "'").c_str()), 0);
  }

  std::string File(const std::string& name, const std::string& text, mode_t mode) {
    std::string path = absl::StrCat(folder_, "/", name);
    std::ofstream(path) << text;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }

  struct Ran {
    SpawnResult result;
    int status = -1;
    std::string out;
    std::string err;
  };
  Ran Run(std::vector<std::string> candidates, std::vector<std::string> argv,
          const std::string& wdir = "", std::vector<std::string> env = {}) {
    SpawnRequest request;
    request.wdir = wdir.c_str();
    for (std::string& candidate : candidates) {
      request.candidates.push_back(candidate.data());
    }
    for (std::string& argument : argv) {
      request.argv.push_back(argument.data());
    }
    for (std::string& variable : env) {
      request.envp.push_back(variable.data());
    }
    request.argv.push_back(nullptr);
    request.envp.push_back(nullptr);
    request.limits = {{RLIMIT_NOFILE, files_}};
    TestPipe in = MakePipe();
    TestPipe out = MakePipe();
    TestPipe err = MakePipe();
    in.writer.Reset();
    request.stdin_fd = in.reader.get();
    request.stdout_fd = out.writer.get();
    request.stderr_fd = err.writer.get();
    Ran ran;
    ran.result = Spawn(request);
    out.writer.Reset();
    err.writer.Reset();
    ran.out = ReadToEnd(out.reader.get());
    ran.err = ReadToEnd(err.reader.get());
    if (ran.result.pid > 0) {
      EXPECT_EQ(waitpid(ran.result.pid, &ran.status, 0), ran.result.pid);
    }
    return ran;
  }

  std::string folder_;
  rlimit files_{};
};

TEST_F(SpawnTest, RunsAProgram) {
  const Ran ran = Run({"/bin/sh"}, {"sh", "-c", "echo $0 $A; pwd; echo err >&2; exit 7", "zero"},
                      "/", {"A=x y"});
  EXPECT_EQ(ran.result.error, 0);
  EXPECT_GT(ran.result.pid, 0);
  EXPECT_EQ(ran.out, "zero x y\n/\n");
  EXPECT_EQ(ran.err, "err\n");
  EXPECT_EQ(WEXITSTATUS(ran.status), 7);
}

TEST_F(SpawnTest, SaysWhyItCannotRun) {
  const std::string plain = File("plain", "#!/bin/sh\n", 0644);
  const std::string dangling = File("dangling", "#!/no/such/interpreter\n", 0755);
  const std::string enoent = absl::StrCat(folder_, "/none");
  const struct {
    const char* name;
    std::vector<std::string> candidates;
    std::string wdir;
    int error;
    const char* step;
  } cases[] = {
      {"no file", {enoent}, "", ENOENT, "exec"},
      {"no candidates", {}, "", ENOENT, "exec"},
      {"empty name", {""}, "", ENOENT, "exec"},
      {"not executable", {plain}, "", EACCES, "exec"},
      {"a folder", {folder_}, "", EACCES, "exec"},
      {"a file as folder", {plain + "/x"}, "", ENOENT, "exec"},
      {"not executable, then none", {plain, enoent}, "", EACCES, "exec"},
      {"none, then not executable", {enoent, plain}, "", EACCES, "exec"},
      {"interpreter missing", {dangling}, "", ENOENT, "exec"},
      {"no working directory", {"/bin/true"}, enoent, ENOENT, "chdir"},
      {"a file as working directory", {"/bin/true"}, plain, ENOTDIR, "chdir"},
  };
  for (const auto& c : cases) {
    const Ran ran = Run(c.candidates, {"x"}, c.wdir);
    EXPECT_EQ(ran.result.error, c.error) << c.name;
    EXPECT_STREQ(ran.result.step, c.step) << c.name;
    EXPECT_EQ(WEXITSTATUS(ran.status), 127) << c.name;
  }
}

TEST_F(SpawnTest, TakesTheFirstCandidateThatRuns) {
  const std::string plain = File("plain", "#!/bin/sh\necho plain\n", 0644);
  const std::string good = File("good", "#!/bin/sh\necho good \"$@\"\n", 0755);
  const Ran ran = Run({folder_ + "/none", plain, good, "/bin/false"}, {"good", "1", "2 3"});
  EXPECT_EQ(ran.result.error, 0);
  EXPECT_EQ(ran.out, "good 1 2 3\n");
}

// What is there but cannot be run for another reason is not replaced by a namesake further on.
TEST_F(SpawnTest, StopsAtTheFirstRealFailure) {
  const std::string loop = folder_ + "/loop";
  ASSERT_EQ(symlink("loop", loop.c_str()), 0);
  const Ran ran = Run({loop, "/bin/true"}, {"true"});
  EXPECT_EQ(ran.result.error, ELOOP);
}

TEST_F(SpawnTest, ScriptWithoutInterpreterGoesToTheShell) {
  const std::string script = File("script", "echo \"$0|$1|$2\"\n", 0755);
  const Ran ran = Run({script}, {"script", "a b", ""});
  EXPECT_EQ(ran.result.error, 0);
  EXPECT_EQ(ran.out, absl::StrCat(script, "|a b|\n"));
}

TEST_F(SpawnTest, TooLongAnArgumentOrEnvironment) {
  EXPECT_EQ(Run({"/bin/true"}, {"true", std::string(200 << 10, 'x')}).result.error, E2BIG);
  EXPECT_EQ(Run({"/bin/true"}, {"true"}, "", {absl::StrCat("A=", std::string(200 << 10, 'x'))})
                .result.error,
            E2BIG);
  const std::vector<std::string> big(100, absl::StrCat("A=", std::string(10 << 10, 'x')));
  EXPECT_EQ(Run({"/bin/true"}, {"true"}, "", big).result.error, 0);  // 1 MiB
}

// SigBlk, SigIgn, SigCgt of the program.
TEST_F(SpawnTest, SignalsAreAsAtLoginButForWhatTheCallerIgnored) {
  sigset_t some;
  sigset_t before;
  sigemptyset(&some);
  sigaddset(&some, SIGTERM);
  sigaddset(&some, SIGUSR1);
  sigprocmask(SIG_BLOCK, &some, &before);
  const auto old_pipe = signal(SIGPIPE, SIG_IGN);
  const auto old_hup = signal(SIGHUP, SIG_IGN);
  const auto old_int = signal(SIGINT, [](int) {});
  ResetSignals();
  const Ran ran = Run({"/bin/cat"}, {"cat", "/proc/self/status"});
  sigset_t now;
  sigprocmask(SIG_SETMASK, &before, &now);
  signal(SIGPIPE, old_pipe);
  signal(SIGHUP, old_hup);
  signal(SIGINT, old_int);
  EXPECT_THAT(ran.out, testing::HasSubstr("SigBlk:\t0000000000000000\n"
                                          "SigIgn:\t0000000000000001\n"  // SIGHUP
                                          "SigCgt:\t0000000000000000\n"));
  EXPECT_EQ(sigismember(&now, SIGTERM), 1);  // the caller's mask is as it was
  EXPECT_EQ(sigismember(&now, SIGINT), 0);
}

TEST_F(SpawnTest, LeadsAProcessGroupAndGetsItsDescriptorLimit) {
  files_.rlim_cur = 123;
  const Ran ran = Run({"/bin/sh"}, {"sh", "-c", "ulimit -Sn; ps -o pgid= -p $$"});
  EXPECT_EQ(ran.out.substr(0, 4), "123\n");
  EXPECT_EQ(std::stoi(ran.out.substr(4)), ran.result.pid);
}

// A caller without stdin, stdout and stderr: the pipes for the worker get their numbers, in an
// order that dup2 alone would destroy.
TEST_F(SpawnTest, PipesOnStandardNumbersReachTheirPlace) {
  TestPipe result = MakePipe();
  const pid_t pid = fork();
  if (pid == 0) {
    // Nothing else is open, whatever the test's caller left: the pipes get the lowest numbers.
    constexpr int kResult = 100;
    dup2(result.writer.get(), kResult);
    close_range(0, kResult - 1, 0);
    int err[2];
    int out[2];
    int in[2];
    if (pipe2(err, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(in, O_CLOEXEC) != 0) {
      _exit(1);
    }
    (void)!write(in[1], "in\n", 3);
    close(in[1]);
    char program[] = "/bin/sh";
    char flag[] = "-c";
    char script[] = "read line; echo out $line; echo err >&2";
    SpawnRequest request;
    request.candidates = {program};
    request.argv = {program, flag, script, nullptr};
    request.envp = {nullptr};
    request.stdin_fd = in[0];
    request.stdout_fd = out[1];
    request.stderr_fd = err[1];
    request.limits = {{RLIMIT_NOFILE, files_}};
    const SpawnResult spawned = Spawn(request);
    close(out[1]);
    close(err[1]);
    const std::string text = absl::StrCat(spawned.error, "|", ReadToEnd(out[0]), "|",
                                          ReadToEnd(err[0]), "|", out[1], err[1]);
    (void)!write(kResult, text.data(), text.size());
    waitpid(spawned.pid, nullptr, 0);
    _exit(0);
  }
  result.writer.Reset();
  EXPECT_EQ(ReadToEnd(result.reader.get()), "0|out in\n|err\n|31");
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

// What the caller holds for a worker under these numbers; 0 = any.
struct Numbers {
  const char* name;
  int out = 0;
  int err = 0;
  int door = 0;
  int pmi = 0;
  bool life_in_place = false;  // all numbers below are in use when that is opened
};

void MoveTo(int number, UniqueFd& fd) {
  if (number != 0) {
    fd.Reset(dup3(fd.get(), number, O_CLOEXEC));
  }
}

// In a process that holds nothing else: what a worker says through each of its descriptors.
std::string SaidByEach(const Numbers& at, const rlimit& files) {
  TestPipe in = MakePipe();
  TestPipe out = MakePipe();
  TestPipe err = MakePipe();
  TestPipe door = MakePipe();
  TestPipe pmi = MakePipe();
  TestPipe life = MakePipe();
  in.writer.Reset();
  MoveTo(at.out, out.writer);
  MoveTo(at.err, err.writer);
  MoveTo(at.door, door.writer);
  MoveTo(at.pmi, pmi.writer);
  if (at.life_in_place) {
    for (int used = 0; used >= 0 && used < kWorkerLifeFd - 1;) {
      used = fcntl(in.reader.get(), F_DUPFD_CLOEXEC, 0);
    }
  }
  const std::string path = absl::StrCat("/proc/self/fd/", life.reader.get());
  std::string life_here = absl::StrCat("/proc/", getpid(), "/fd/", life.reader.get());
  std::string script =
      absl::StrCat("echo out; echo err >&2; echo door >/proc/self/fd/", kWorkerDoorFd,
                   "; echo pmi >/proc/self/fd/", kWorkerPmiFd, "; [ \"$0\" -ef /proc/self/fd/",
                   kWorkerLifeFd, " ] && echo life");
  char program[] = "/bin/sh";
  char flag[] = "-c";
  SpawnRequest request;
  request.candidates = {program};
  request.argv = {program, flag, script.data(), life_here.data(), nullptr};
  request.envp = {nullptr};
  request.stdin_fd = in.reader.get();
  request.stdout_fd = out.writer.get();
  request.stderr_fd = err.writer.get();
  request.door_fd = door.writer.get();
  request.pmi_fd = pmi.writer.get();
  request.life = path.c_str();
  request.limits = {{RLIMIT_NOFILE, files}};
  const SpawnResult spawned = Spawn(request);
  std::string said = absl::StrCat(spawned.error, spawned.step);
  for (TestPipe* pipe : {&out, &err, &door, &pmi}) {
    pipe->writer.Reset();
    absl::StrAppend(&said, "|", ReadToEnd(pipe->reader.get()));
  }
  waitpid(spawned.pid, nullptr, 0);
  return said;
}

// Of a PMI that is only offered, where the caller's limit allows no such number.
TEST_F(SpawnTest, WhatIsOfferedMayBeMissing) {
  TestPipe in = MakePipe();
  TestPipe pmi = MakePipe();
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit few = {kWorkerPmiFd, kWorkerPmiFd};
    setrlimit(RLIMIT_NOFILE, &few);
    char program[] = "/bin/true";
    SpawnRequest request;
    request.candidates = {program};
    request.argv = {program, nullptr};
    request.envp = {nullptr};
    request.stdin_fd = request.stdout_fd = request.stderr_fd = in.reader.get();
    request.pmi_fd = pmi.writer.get();
    const bool refused = Spawn(request).error != 0;
    request.pmi_offered = true;
    _exit(refused && Spawn(request).error == 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
}

// A caller that has many descriptors open holds a worker's own under the numbers that they get in
// it: under one another's, and under the right one, which would close with the exec.
TEST_F(SpawnTest, DescriptorsOnTheNumbersOfOthersReachTheirPlace) {
  constexpr Numbers kCases[] = {
      {.name = "anywhere"},
      {.name = "stdout at the door", .out = kWorkerDoorFd},
      {.name = "stdout at the life", .out = kWorkerLifeFd},
      {.name = "stdout at PMI", .out = kWorkerPmiFd},
      {.name = "stderr at the life", .err = kWorkerLifeFd},
      {.name = "door in place", .door = kWorkerDoorFd},
      {.name = "door at PMI", .door = kWorkerPmiFd},
      {.name = "PMI at the door", .pmi = kWorkerDoorFd},
      {.name = "PMI at the life", .pmi = kWorkerLifeFd},
      {.name = "PMI in place", .pmi = kWorkerPmiFd},
      {.name = "door and PMI swapped", .door = kWorkerPmiFd, .pmi = kWorkerDoorFd},
      {.name = "three in a circle",
       .out = kWorkerPmiFd,
       .err = kWorkerDoorFd,
       .pmi = kWorkerLifeFd},
      {.name = "life in place", .life_in_place = true},
  };
  for (const Numbers& at : kCases) {
    TestPipe result = MakePipe();
    const pid_t pid = fork();
    if (pid == 0) {
      // Whatever the test's caller left open.
      constexpr int kResult = STDERR_FILENO + 1;
      dup2(result.writer.get(), kResult);
      fcntl(kResult, F_SETFD, FD_CLOEXEC);
      close_range(kResult + 1, ~0U, 0);
      const std::string said = SaidByEach(at, files_);
      (void)!write(kResult, said.data(), said.size());
      _exit(0);
    }
    result.writer.Reset();
    EXPECT_EQ(ReadToEnd(result.reader.get()), "0|out\nlife\n|err\n|door\n|pmi\n") << at.name;
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid) << at.name;
  }
}

// The pipe's end alone must do it: the caller lives on, and no death signal is sent.
TEST_F(SpawnTest, ItsGroupIsKilledWhenThePipeOfItsLifeHasNoWriter) {
  TestPipe life = MakePipe();
  TestPipe out = MakePipe();
  const std::string path = absl::StrCat("/proc/self/fd/", life.reader.get());
  char program[] = "/bin/sh";
  char flag[] = "-c";
  char script[] = "(echo begins; sleep 5; echo lives) & wait";
  SpawnRequest request;
  request.candidates = {program};
  request.argv = {program, flag, script, nullptr};
  request.envp = {nullptr};
  request.stdin_fd = life.reader.get();
  request.stdout_fd = out.writer.get();
  request.stderr_fd = out.writer.get();
  request.limits = {{RLIMIT_NOFILE, files_}};
  request.life = path.c_str();
  const SpawnResult spawned = Spawn(request);
  ASSERT_EQ(spawned.error, 0);
  out.writer.Reset();
  ASSERT_EQ(ReadBytes(out.reader.get(), 7), "begins\n");
  life.writer.Reset();
  EXPECT_EQ(ReadToEnd(out.reader.get()), "");
  int status = 0;
  EXPECT_EQ(waitpid(spawned.pid, &status, 0), spawned.pid);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  while (waitpid(-1, nullptr, 0) > 0) {  // its children are ours where we are a sub-reaper
  }
}

}  // namespace
}  // namespace muster
