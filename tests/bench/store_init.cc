// store-init PORT CLIENTS CONNECTIONS: takes CLIENTS workers through the start of a torch job
// against a torch store on 127.0.0.1:PORT and prints the milliseconds it took. Each connects
// (CONNECTIONS times: torch 1.13 opens two), says hello, sets a key of its own and waits for a
// common key, which the last one sets. One thread, no blocking; torch 1.13's dialect, so that its
// server can be the peer.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "proto/base/unique_fd.h"

namespace {

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "store-init: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

std::string U64(uint64_t value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}
std::string Str(const std::string& text) { return U64(text.size()) + text; }

struct Client {
  muster::UniqueFd fd;
  std::vector<muster::UniqueFd> others;  // stay silent
  size_t want = 8;                       // bytes of the answer
  bool connected = false;
  bool waiting = false;  // the WAIT is out
};

// Sixteen workers share an address, as on a node: the ports of one would run short.
muster::UniqueFd Connect(uint16_t port, size_t worker) {
  muster::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  sockaddr_in from{};
  from.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (1u << 16) + static_cast<uint32_t>(worker / 16));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(port);
  if (!fd.valid() || setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
      setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on)) != 0 ||
      bind(fd.get(), reinterpret_cast<sockaddr*>(&from), sizeof(from)) != 0 ||
      (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0 &&
       errno != EINPROGRESS)) {
    Die("connect");
  }
  return fd;
}

void Send(const Client& client, const std::string& bytes) {
  if (send(client.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(bytes.size())) {
    Die("send");
  }
}

class Job {
 public:
  Job(uint16_t port, size_t size, size_t connections)
      : port_(port), connections_(connections), clients_(size), epoll_(epoll_create1(0)) {}

  void Run() {
    // Clients that the server may not have accepted: a kernel's queue of 4,096 connections must not
    // overflow, for those it drops try again after a second, and that would be what is measured.
    constexpr size_t kAtOnce = 1024;
    size_t started = 0;
    std::array<epoll_event, 512> events;
    while (done_ < clients_.size()) {
      while (started < clients_.size() && started - greeted_ < kAtOnce) {
        Start(started++);
      }
      const int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 60000);
      if (n <= 0) {
        Die("epoll_wait");
      }
      for (int i = 0; i < n; ++i) {
        const epoll_event& event = events[static_cast<size_t>(i)];
        On(event.data.u64, event.events);
      }
    }
  }

 private:
  void Start(size_t index) {
    Client& client = clients_[index];
    client.fd = Connect(port_, index);
    for (size_t i = 1; i < connections_; ++i) {
      client.others.push_back(Connect(port_, index));
    }
    Watch(index, EPOLL_CTL_ADD, EPOLLOUT);
  }

  void Watch(size_t index, int how, uint32_t what) {
    epoll_event event{.events = what, .data = {.u64 = index}};
    if (epoll_ctl(epoll_.get(), how, clients_[index].fd.get(), &event) != 0) {
      Die("epoll_ctl");
    }
  }

  void On(size_t index, uint32_t what) {
    Client& client = clients_[index];
    if (!client.connected) {
      if ((what & (EPOLLERR | EPOLLHUP)) != 0) {
        Die("connect");
      }
      client.connected = true;
      Watch(index, EPOLL_CTL_MOD, EPOLLIN);
      Send(client, "\3" + Str("init/") + U64(1));
      return;
    }
    char answer[8];
    const ssize_t n = recv(client.fd.get(), answer, client.want, 0);
    if (n <= 0) {
      Die("recv");
    }
    client.want -= static_cast<size_t>(n);
    if (client.want > 0) {
      return;
    }
    if (client.waiting) {
      ++done_;
      return;
    }
    ++greeted_;
    client.waiting = true;
    client.want = 1;
    const std::string prefix = "//worker/attempt_0/default_pg/0/0/";
    const bool last = ++waiting_ == clients_.size();
    Send(client, std::string(1, '\0') + Str(prefix + std::to_string(index)) +
                     Str(std::string(136, 'a')) +
                     (last ? std::string(1, '\0') + Str(prefix + "all") + Str("go") : "") + "\5" +
                     U64(1) + Str(prefix + "all"));
  }

  const uint16_t port_;
  const size_t connections_;
  std::vector<Client> clients_;
  muster::UniqueFd epoll_;
  size_t greeted_ = 0;  // have their first answer: the server knows them
  size_t waiting_ = 0;
  size_t done_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  uint32_t port = 0;
  uint32_t clients = 0;
  uint32_t connections = 0;
  if (argc != 4 || !absl::SimpleAtoi(argv[1], &port) || !absl::SimpleAtoi(argv[2], &clients) ||
      !absl::SimpleAtoi(argv[3], &connections) || connections == 0) {
    std::fprintf(stderr, "usage: store-init PORT CLIENTS CONNECTIONS\n");
    return 2;
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_max < uint64_t{clients} * connections + 16) {
    std::fprintf(stderr, "store-init: %u connections need a higher limit of open files than %lu\n",
                 clients * connections, static_cast<unsigned long>(files.rlim_max));
    return 1;
  }
  const auto began = std::chrono::steady_clock::now();
  Job(static_cast<uint16_t>(port), clients, connections).Run();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  std::printf("%.3f\n", took.count());
  return 0;
}
