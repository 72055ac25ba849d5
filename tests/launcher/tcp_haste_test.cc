#include "launcher/schedule/tcp_haste.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>

#include "tests/agent/io/loop_test.h"
#include "tests/proto/wire/test_loop.h"

namespace muster {
namespace {

struct Listener {
  UniqueFd fd{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};

  Listener() {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd.get(), 5), 0);
    EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  }
};

// What follows runs in a child, as ssh would, and ends with its status.
int Connected(const sockaddr_in& address) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? fd : -1;
}

bool IsHastened(int fd) {
  int on = 0;
  socklen_t size = sizeof on;
  return getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size) == 0 && on == 1;
}

void AwaitHaste(int fd) {
  while (!IsHastened(fd)) {
    sched_yield();
  }
}

pid_t Fork(const std::function<int()>& child) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    _exit(child());
  }
  return pid;
}

int64_t OpenDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

class TcpHasteTest : public testing::Test {
 protected:
  // Until it has ended; its status.
  int StatusOf(pid_t pid) {
    int status = -1;
    bool over = false;
    const auto ended = [&] { return over = over || waitpid(pid, &status, WNOHANG) == pid; };
    loop_.Until(ended, "the child's end");
    return status;
  }

  TestLoop loop_;
  Listener listener_;
  TcpHaste haste_{loop_.get()};
};

TEST_F(TcpHasteTest, AConnectionOfTheChildHoldsNothingBack) {
  TestPipe looked = MakePipe();
  const pid_t child = Fork([&] {
    const int fd = Connected(listener_.address);
    if (fd < 0 || IsHastened(fd) || write(looked.writer.get(), "x", 1) != 1) {
      return 1;
    }
    AwaitHaste(fd);
    return 0;
  });
  looked.writer.Reset();
  EXPECT_EQ(ReadBytes(looked.reader.get(), 1), "x");  // nobody was before it
  haste_.Add(child);
  EXPECT_EQ(StatusOf(child), 0);
}

TEST_F(TcpHasteTest, TheNextConnectionOfTheChildToo) {
  const pid_t child = Fork([&] {
    const int first = Connected(listener_.address);
    AwaitHaste(first);
    shutdown(first, SHUT_RDWR);
    close(accept(listener_.fd.get(), nullptr, nullptr));
    close(first);
    AwaitHaste(Connected(listener_.address));
    return 0;
  });
  haste_.Add(child);
  EXPECT_EQ(StatusOf(child), 0);
}

TEST_F(TcpHasteTest, NothingOfTheConnectionIsLeftHere) {
  const int64_t before = OpenDescriptors();
  const pid_t child = Fork([&] {
    AwaitHaste(Connected(listener_.address));
    pause();
    return 0;
  });
  haste_.Add(child);
  loop_.Until([&] { return OpenDescriptors() > before; }, "the connection");
  haste_.Drop(child);
  EXPECT_EQ(OpenDescriptors(), before);
  kill(child, SIGKILL);
  StatusOf(child);
}

TEST_F(TcpHasteTest, AChildWithoutAConnectionIsLetAloneInTheEnd) {
  const pid_t child = Fork([] {
    pause();
    return 0;
  });
  const int64_t before = OpenDescriptors();
  haste_.Add(child);
  loop_.Until([&] { return haste_.idle(); }, "the end of the haste");
  EXPECT_EQ(OpenDescriptors(), before);
  kill(child, SIGKILL);
  StatusOf(child);
}

}  // namespace
}  // namespace muster
