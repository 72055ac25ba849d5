#include "agent/io/shepherd_protocol.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "proto/base/check.h"

namespace muster {
namespace {

struct Header {
  uint32_t type;
  int32_t index;
  int64_t value;
  uint64_t extra;
  uint32_t alone;
  uint32_t fd_count;
  EndTimes times;
};

}  // namespace

absl::Status SendFrame(int socket, const ShepherdFrame& frame) {
  CHECK(frame.payload.size() + sizeof(Header) <= kShepherdFrameBytesMax);
  CHECK(frame.fds.size() <= kShepherdFdsMax);
  Header header = {frame.type,  frame.index, frame.value,
                   frame.extra, frame.alone, static_cast<uint32_t>(frame.fds.size()),
                   frame.times};
  iovec parts[2] = {{&header, sizeof(header)},
                    {const_cast<char*>(frame.payload.data()), frame.payload.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kShepherdFdsMax)] = {};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  if (!frame.fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * frame.fds.size());
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * frame.fds.size());
    for (size_t i = 0; i < frame.fds.size(); ++i) {
      const int fd = frame.fds[i].get();
      std::memcpy(CMSG_DATA(rights) + i * sizeof(int), &fd, sizeof(int));
    }
  }
  for (;;) {
    if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) {
      return absl::OkStatus();
    }
    if (errno == EINTR) {
      continue;
    }
    if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS) {
      return absl::UnavailableError("shepherd socket is full");
    }
    return absl::FailedPreconditionError(std::strerror(errno));
  }
}

absl::StatusOr<ShepherdFrame> ReceiveFrame(int socket) {
  // Not cleared: few frames touch more than its first page.
  thread_local const auto buffer = std::make_unique_for_overwrite<char[]>(kShepherdFrameBytesMax);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kShepherdFdsMax)] = {};
  iovec part = {buffer.get(), kShepherdFrameBytesMax};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t n = 0;
  do {
    n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    return absl::UnavailableError("nothing to read");
  }
  if (n < static_cast<ssize_t>(sizeof(Header))) {
    return absl::OutOfRangeError("the other side is gone");
  }
  Header header{};
  std::memcpy(&header, buffer.get(), sizeof(header));
  ShepherdFrame frame;
  frame.type = header.type;
  frame.index = header.index;
  frame.value = header.value;
  frame.extra = header.extra;
  frame.alone = header.alone;
  frame.fd_count = header.fd_count;
  frame.times = header.times;
  frame.payload.assign(buffer.get() + sizeof(Header), static_cast<size_t>(n) - sizeof(Header));
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
      const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
        frame.fds.emplace_back(fd);
      }
    }
  }
  return frame;
}

std::string PackStrings(const std::vector<std::string>& strings) {
  size_t bytes = 0;
  for (const std::string& s : strings) {
    bytes += s.size() + 1;
  }
  std::string out;
  out.reserve(bytes);
  for (const std::string& s : strings) {
    out.append(s);
    out.push_back('\0');
  }
  return out;
}

std::vector<std::string> PackBinding(const SpawnBinding& binding) {
  return {binding.cpus.Text(), std::to_string(static_cast<int>(binding.memory)),
          binding.memory_nodes.Text(), binding.must ? "must" : ""};
}

SpawnBinding UnpackBinding(const std::vector<char*>& strings) {
  CHECK(strings.size() >= kBindingWords);
  SpawnBinding out;
  out.cpus = ParseCpuList(strings[0]).value_or(CpuSet());
  out.memory = static_cast<MemoryBinding>(std::atoi(strings[1]));
  out.memory_nodes = ParseCpuList(strings[2]).value_or(CpuSet());
  out.must = *strings[3] != '\0';
  return out;
}

std::vector<char*> UnpackStrings(std::string& packed) {
  std::vector<char*> out;
  for (size_t at = 0; at < packed.size();) {
    out.push_back(packed.data() + at);
    at += std::strlen(packed.data() + at) + 1;
  }
  return out;
}

UnpackedPrograms UnpackPrograms(std::string& packed) {
  const std::vector<char*> strings = UnpackStrings(packed);
  size_t at = 0;
  const auto next = [&] { return at < strings.size() ? strings[at++] : nullptr; };
  const auto list = [&](std::vector<char*>& out) {
    const char* text = next();
    int count = 0;
    if (text != nullptr && absl::SimpleAtoi(text, &count)) {
      for (int i = 0; i < count && at < strings.size(); ++i) {
        out.push_back(next());
      }
    }
  };
  UnpackedPrograms out;
  out.wdir = next();
  list(out.candidates);
  list(out.argv);
  out.environment.assign(strings.begin() + static_cast<ptrdiff_t>(at), strings.end());
  return out;
}

}  // namespace muster
