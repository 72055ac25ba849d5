#include "agent/io/channel_relay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <thread>

#include "tests/agent/io/no_threads.h"

namespace muster {
namespace {

struct TwoEnds {
  UniqueFd read_end;
  UniqueFd write_end;
};
TwoEnds MakePipe() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

void WriteAll(int fd, const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    pollfd entry{fd, POLLOUT, 0};
    poll(&entry, 1, -1);
    const ssize_t n = write(fd, bytes.data() + sent, bytes.size() - sent);
    ASSERT_TRUE(n > 0 || errno == EAGAIN);
    sent += n > 0 ? static_cast<size_t>(n) : 0;
  }
}

std::string ReadToEnd(int fd) {
  std::string all;
  char bytes[65536];
  while (true) {
    pollfd entry{fd, POLLIN, 0};
    poll(&entry, 1, -1);
    const ssize_t n = read(fd, bytes, sizeof(bytes));
    if (n == 0) {
      return all;
    }
    if (n > 0) {
      all.append(bytes, static_cast<size_t>(n));
    }
  }
}

std::string Pattern(size_t size) {
  std::string out(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    out[i] = static_cast<char>((i * 7 + i / 251) & 0xff);
  }
  return out;
}

TEST(ChannelRelay, WithoutAThreadItDoesNotStart) {
  const NoThreads none;
  TwoEnds in = MakePipe();
  TwoEnds out = MakePipe();
  EXPECT_EQ(ChannelRelay::Start(std::move(in.read_end), std::move(out.write_end)).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(ChannelRelay, CopiesBothWaysAndDrains) {
  std::signal(SIGPIPE, SIG_IGN);
  TwoEnds in = MakePipe();
  TwoEnds out = MakePipe();
  auto relay = ChannelRelay::Start(std::move(in.read_end), std::move(out.write_end));
  ASSERT_TRUE(relay.ok());
  UniqueFd socket = (*relay)->TakeSocket();
  const std::string down = Pattern(3 << 20);
  const std::string up = Pattern(5 << 20);
  std::string got_down;
  std::string got_up;
  std::thread writer([&] {
    WriteAll(in.write_end.get(), down);
    in.write_end.Reset();
  });
  std::thread far_reader([&] { got_up = ReadToEnd(out.read_end.get()); });
  std::thread near_reader([&] { got_down = ReadToEnd(socket.get()); });
  WriteAll(socket.get(), up);
  writer.join();
  near_reader.join();  // the end of `in` is the end of the socket
  socket.Reset();
  (*relay)->Drain(absl::Seconds(60));
  relay->reset();  // closes `out`
  far_reader.join();
  EXPECT_EQ(got_down, down);
  EXPECT_EQ(got_up, up);
}

TEST(ChannelRelay, OneSocketIsUsedAsItIs) {
  int fds[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  const UniqueFd far(fds[1]);
  UniqueFd in(fds[0]);
  const int number = in.get();
  auto relay = ChannelRelay::Start(std::move(in), UniqueFd(fcntl(number, F_DUPFD_CLOEXEC, 3)));
  ASSERT_TRUE(relay.ok());
  EXPECT_EQ((*relay)->TakeSocket().get(), number);
}

TEST(ChannelRelay, EndsAlthoughNobodyReads) {
  TwoEnds in = MakePipe();
  TwoEnds out = MakePipe();
  auto relay = ChannelRelay::Start(std::move(in.read_end), std::move(out.write_end));
  ASSERT_TRUE(relay.ok());
  UniqueFd socket = (*relay)->TakeSocket();
  const std::string bytes(4 << 20, 'x');
  while (write(socket.get(), bytes.data(), bytes.size()) > 0) {
  }
  socket.Reset();
  (*relay)->Drain(absl::Milliseconds(1));
  relay->reset();  // returns
}

TEST(ChannelRelay, AReaderThatWentAwayEndsTheSocket) {
  std::signal(SIGPIPE, SIG_IGN);
  TwoEnds in = MakePipe();
  TwoEnds out = MakePipe();
  auto relay = ChannelRelay::Start(std::move(in.read_end), std::move(out.write_end));
  ASSERT_TRUE(relay.ok());
  UniqueFd socket = (*relay)->TakeSocket();
  out.read_end.Reset();
  ASSERT_EQ(write(socket.get(), "x", 1), 1);
  EXPECT_EQ(ReadToEnd(socket.get()), "");
}

}  // namespace
}  // namespace muster
