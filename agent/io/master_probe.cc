#include "agent/io/master_probe.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "proto/base/text.h"

namespace muster {

MasterProbe::MasterProbe(uv_loop_t* loop, std::string hostname, Times times)
    : loop_(loop),
      hostname_(std::move(hostname)),
      times_(times),
      timer_(loop, [this] { poll_ == nullptr ? Ask() : Answered(ETIMEDOUT); }) {}

void MasterProbe::BeginRound(const Assignment& assignment, bool listens) {
  EndRound();
  if (assignment.node_rank.value == 0 || assignment.one_host) {
    return;
  }
  host_ = assignment.master_addr;
  port_ = assignment.master_port;
  listens_ = listens;
  failed_ = false;
  timer_.StartAfter(times_.first);
}

void MasterProbe::EndRound() {
  timer_.Stop();
  poll_.reset();
  socket_.Reset();
}

// A name is left to the program: to resolve it may take long.
void MasterProbe::Ask() {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host_.c_str(), absl::StrCat(port_).c_str(), &hints, &found) != 0) {
    return;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  socket_.Reset(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!socket_.valid()) {
    return;  // descriptors that are missing are another one's to tell of
  }
  if (connect(socket_.get(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
    return Answered(errno);
  }
  poll_ = std::make_unique<UvPoll>(loop_, socket_.get(), [this](int) {
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    Answered(error);
  });
  poll_->Start(UV_WRITABLE);
  timer_.StartAfter(times_.answer);
}

void MasterProbe::Answered(int error) {
  EndRound();
  if (error == 0 || (error == ECONNREFUSED && !listens_)) {
    return;
  }
  if (!std::exchange(failed_, true)) {
    return timer_.StartAfter(times_.again);
  }
  LogWarning(absl::StrCat(
      hostname_, ": MASTER_ADDR:MASTER_PORT (", HostPort(host_, port_),
      ") cannot be reached from here: ", std::strerror(error),
      "; what meets there waits in vain. A firewall between the nodes? launch doctor finds it; ",
      "--iface and --port-range choose another way"));
}

}  // namespace muster
