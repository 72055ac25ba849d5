#include "proto/base/fd_message.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>
#include <vector>

namespace muster {
namespace {

size_t OpenDescriptors() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  size_t count = 0;
  while (readdir(folder.get()) != nullptr) {
    ++count;
  }
  return count;
}

class FdMessageTest : public testing::Test {
 protected:
  FdMessageTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    here_.Reset(ends[0]);
    there_.Reset(ends[1]);
  }

  // One byte with as many copies of our own descriptor.
  void Send(size_t descriptors) {
    char byte = 'x';
    iovec part = {&byte, 1};
    std::vector<char> control(CMSG_SPACE(descriptors * sizeof(int)));
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    const std::vector<int> numbers(descriptors, there_.get());
    std::memcpy(CMSG_DATA(header), numbers.data(), descriptors * sizeof(int));
    ASSERT_EQ(sendmsg(there_.get(), &message, 0), 1);
  }

  UniqueFd Receive() {
    char byte = 0;
    iovec part = {&byte, 1};
    UniqueFd fd;
    EXPECT_EQ(ReceiveWithFd(here_.get(), &part, 1, fd, 0), 1);
    return fd;
  }

  UniqueFd here_;
  UniqueFd there_;
};

TEST_F(FdMessageTest, OneDescriptorComesWithAMessage) {
  char byte = 'x';
  iovec part = {&byte, 1};
  ASSERT_EQ(SendWithFd(there_.get(), &part, 1, there_.get(), 0), 1);
  EXPECT_TRUE(Receive().valid());
  ASSERT_EQ(SendWithFd(there_.get(), &part, 1, -1, 0), 1);
  EXPECT_FALSE(Receive().valid());
}

// A worker that means harm would else use up the descriptors of its agent.
TEST_F(FdMessageTest, OfSeveralNoneStaysOpen) {
  const size_t before = OpenDescriptors();
  for (const size_t descriptors : {2u, 3u, 8u}) {
    Send(descriptors);
    EXPECT_FALSE(Receive().valid()) << descriptors;
    EXPECT_EQ(OpenDescriptors(), before) << descriptors;
  }
}

}  // namespace
}  // namespace muster
