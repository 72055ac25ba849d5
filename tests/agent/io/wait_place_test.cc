#include "agent/io/wait_place.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

void BeAsleep() {
  const timespec long_enough{60, 0};
  syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &long_enough, nullptr);
}

constexpr absl::Duration kPatience = absl::Seconds(20);

// A process that waits; ended with the object.
class Waiting {
 public:
  explicit Waiting(const std::function<void()>& wait) : pid_(fork()) {
    if (pid_ == 0) {
      setpgid(0, 0);
      wait();
      _exit(0);
    }
  }
  ~Waiting() {
    setpgid(pid_, pid_);
    kill(-pid_, SIGKILL);  // with what it has started
    waitpid(pid_, nullptr, 0);
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  // Once it has come to wait there; else where it was seen last.
  std::string Place(const std::string& awaited) const {
    const absl::Time until = BootNow() + kPatience;
    std::string place;
    do {
      place = WaitSight().Of(pid_);
    } while (place != awaited && BootNow() < until);
    return place;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

TEST(WaitPlace, SleepsAndStops) {
  const Waiting sleeper([] { BeAsleep(); });
  EXPECT_EQ(sleeper.Place("sleep"), "sleep");
  kill(sleeper.pid(), SIGSTOP);
  EXPECT_EQ(sleeper.Place("stopped by a signal"), "stopped by a signal");
}

TEST(WaitPlace, PipesAndLocks) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd in(ends[0]);
  const UniqueFd out(ends[1]);
  char byte = 0;
  const Waiting reader([&] { (void)!read(in.get(), &byte, 1); });
  EXPECT_EQ(reader.Place("read: a pipe"), "read: a pipe");

  std::string path = testing::TempDir() + "wait_place_XXXXXX";
  const UniqueFd file(mkstemp(path.data()));
  ASSERT_EQ(flock(file.get(), LOCK_EX), 0);
  const Waiting locker([&] {
    const int fd = open(path.c_str(), O_RDONLY);
    flock(fd, LOCK_EX);
  });
  EXPECT_EQ(locker.Place("flock: " + path), "flock: " + path);
  unlink(path.c_str());
}

TEST(WaitPlace, ThePeerOfAConnection) {
  const UniqueFd door(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(door.get(), any, size), 0);
  ASSERT_EQ(listen(door.get(), 1), 0);
  ASSERT_EQ(getsockname(door.get(), any, &size), 0);
  const UniqueFd socket_to(socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(connect(socket_to.get(), any, size), 0);
  const std::string peer = absl::StrCat("TCP 127.0.0.1:", ntohs(address.sin_port));
  char byte = 0;
  const Waiting receiver([&] { recv(socket_to.get(), &byte, 1, 0); });
  EXPECT_EQ(receiver.Place("recv: " + peer), "recv: " + peer);
  pollfd one{socket_to.get(), POLLIN, 0};
  const Waiting poller([&] { poll(&one, 1, -1); });
  EXPECT_EQ(poller.Place("poll"), "poll");
}

// As a shell does that runs the program.
TEST(WaitPlace, OfTheOnlyChild) {
  const Waiting parent([] {
    const pid_t child = fork();
    if (child == 0) {
      BeAsleep();
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  });
  EXPECT_EQ(parent.Place("sleep"), "sleep");
}

TEST(WaitPlace, NobodyIsNowhere) { EXPECT_EQ(WaitSight().Of(0x3fffffff), ""); }

}  // namespace
}  // namespace muster
