#include "agent/probe/pair_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "agent/io/thread.h"
#include "agent/probe/pair_io.h"
#include "proto/base/clock.h"

namespace muster {
namespace {

// One caller's whole visit: as long as the doctor waits for what it tells.
constexpr absl::Duration kVisitWithin = absl::Seconds(45);

void Answer(int fd, const std::string& word) {
  const absl::Time deadline = BootNow() + kVisitWithin;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  std::string said(word.size(), '\0');
  if (!ReceiveAll(fd, said.data(), said.size(), deadline).ok() || said != word) {
    return;
  }
  std::string bytes;
  for (;;) {
    const absl::StatusOr<size_t> size = ReceiveFrameSize(fd, deadline);
    if (!size.ok() || *size > kPairFrameBytesMax) {
      return;
    }
    bytes.resize(std::max(bytes.size(), *size));
    if (!ReceiveAll(fd, bytes.data(), *size, deadline).ok() ||
        !SendAll(fd, "!", 1, deadline).ok()) {
      return;
    }
  }
}

}  // namespace

absl::Status ServePairs(UniqueFd listener, const std::string& word) {
  // Of the accepting thread and of those that answer.
  auto callers = std::make_shared<std::atomic<size_t>>(0);
  auto owned = std::make_shared<UniqueFd>(std::move(listener));  // as a std::function is copied
  absl::StatusOr<Thread> thread = Thread::Start("muster-accept", [owned, word, callers] {
    for (;;) {
      pollfd ready = {owned->get(), POLLIN, 0};
      poll(&ready, 1, -1);
      auto caller = std::make_shared<UniqueFd>(
          accept4(owned->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!caller->valid() || *callers >= kPairCallersMax) {
        continue;
      }
      ++*callers;
      absl::StatusOr<Thread> answering = Thread::Start("muster-answer", [caller, word, callers] {
        Answer(caller->get(), word);
        caller->Reset();
        --*callers;
      });
      if (answering.ok()) {
        answering->Detach();
      } else {
        --*callers;
      }
    }
  });
  if (thread.ok()) {
    thread->Detach();
  }
  return thread.status();
}

}  // namespace muster
