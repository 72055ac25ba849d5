#include "agent/probe/pair_io.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/await_fd.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr size_t kSizeBytes = 8;
constexpr unsigned kByteBits = 8;

// Of a call that moved nothing: ok = try again.
absl::Status Failed(ssize_t moved) {
  if (moved == 0) {
    return absl::UnavailableError("the other side ended the connection");
  }
  if (errno == EAGAIN || errno == EINTR) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(std::strerror(errno));
}

}  // namespace

absl::Status SendAll(int fd, const char* bytes, size_t size, absl::Time deadline) {
  for (size_t sent = 0; sent < size;) {
    RETURN_IF_ERROR(AwaitFd(fd, POLLOUT, deadline, "room to send"));
    const ssize_t n = send(fd, bytes + sent, size - sent, MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<size_t>(n);
    } else {
      RETURN_IF_ERROR(Failed(n));
    }
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(int fd, char* bytes, size_t size, absl::Time deadline) {
  for (size_t got = 0; got < size;) {
    RETURN_IF_ERROR(AwaitFd(fd, POLLIN, deadline, "an answer"));
    const ssize_t n = recv(fd, bytes + got, size - got, 0);
    if (n > 0) {
      got += static_cast<size_t>(n);
    } else {
      RETURN_IF_ERROR(Failed(n));
    }
  }
  return absl::OkStatus();
}

absl::Status SendFrameSize(int fd, size_t size, absl::Time deadline) {
  std::array<char, kSizeBytes> bytes{};
  for (char& byte : bytes) {
    byte = static_cast<char>(size & 0xffU);
    size >>= kByteBits;
  }
  return SendAll(fd, bytes.data(), bytes.size(), deadline);
}

absl::StatusOr<size_t> ReceiveFrameSize(int fd, absl::Time deadline) {
  std::array<char, kSizeBytes> bytes{};
  RETURN_IF_ERROR(ReceiveAll(fd, bytes.data(), bytes.size(), deadline));
  size_t size = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    size = size << kByteBits | static_cast<unsigned char>(bytes[i]);
  }
  return size;
}

}  // namespace muster
