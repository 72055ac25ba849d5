// One message on a unix socket, with one descriptor beside it. Without Abseil: the worker SDK uses
// it too. Neither call waits longer than its socket and `flags` say.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "proto/base/unique_fd.h"

namespace muster {

// sendmsg() of `parts`; `fd` stays the caller's, -1 = none goes along. -1, with errno: not sent.
inline ssize_t SendWithFd(int socket, iovec* parts, size_t count, int fd, int flags) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  }
  ssize_t sent = -1;
  do {
    sent = sendmsg(socket, &message, flags | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

// recvmsg() into `parts`; a descriptor that came along goes into `fd`. Of several none is kept: no
// message of ours has them. 0: the other side is gone (or, on a datagram socket, an empty message);
// -1: errno says why.
inline ssize_t ReceiveWithFd(int socket, iovec* parts, size_t count, UniqueFd& fd, int flags) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];  // with its padding, room for two
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got = -1;
  do {
    got = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  const cmsghdr* header = got < 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
    return got;
  }
  const size_t came = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (size_t i = 0; i < came; ++i) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(header) + i * sizeof(number), sizeof(number));
    fd.Reset(number);  // closes the one before
  }
  if (came > 1) {
    fd.Reset();
  }
  return got;
}

}  // namespace muster
