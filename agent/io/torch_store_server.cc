#include "agent/io/torch_store_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/core/torch_store.h"
#include "agent/io/torch_store_loop.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr uint64_t kStopId = 1;
constexpr uint64_t kAdoptedId = 2;
constexpr size_t kEventsPerTurn = 512;
constexpr size_t kAcceptsPerTurn = 256;
constexpr size_t kPiecesPerWrite = 64;
// With more bytes than this unsent, a client is not read from until it has taken its answers. What
// one read asked for and the answer to its one WAIT come on top.
constexpr size_t kUnsentBeforePause = 64u << 10;
constexpr size_t kRefusalsSaidMax = 16;                 // a port scanner must not flood the user
constexpr std::chrono::milliseconds kAcceptPause{100};  // when no descriptor is left

std::string PeerName(const sockaddr_storage& peer) {
  char text[INET6_ADDRSTRLEN] = "";
  if (peer.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&peer);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
  } else if (peer.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&peer);
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
      inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], text, sizeof(text));
    } else {
      inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    }
  }
  return text;
}

absl::Status WatchError(const char* what) {
  return absl::ResourceExhaustedError(absl::StrCat("torch store: ", what, ": ", strerror(errno),
                                                   "; raise the limit of open files"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TorchStoreServer>> TorchStoreServer::Start(UniqueFd listening_socket,
                                                                          Options options) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(listening_socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 ||
      listens == 0) {
    return absl::InvalidArgumentError("torch store: the socket given does not listen");
  }
  std::unique_ptr<TorchStoreServer> server(new TorchStoreServer());  // the constructor is private
  server->stop_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->stop_.valid()) {
    return WatchError("eventfd");
  }
  int adopt[2];
  if (pipe2(adopt, O_CLOEXEC | O_NONBLOCK) != 0) {
    return WatchError("pipe");
  }
  server->adopt_.Reset(adopt[1]);
  server->loop_ = std::make_unique<Loop>(std::move(listening_socket), server->stop_.get(),
                                         UniqueFd(adopt[0]), std::move(options));
  if (absl::Status opened = server->loop_->Open(); !opened.ok()) {
    return opened;
  }
  ASSIGN_OR_RETURN(Thread thread,
                   Thread::Start("torch-store", [loop = server->loop_.get()] { loop->Run(); }));
  server->thread_.emplace(std::move(thread));
  return server;
}

TorchStoreServer::~TorchStoreServer() {
  if (thread_.has_value()) {
    CHECK(eventfd_write(stop_.get(), 1) == 0);
    thread_.reset();  // waits
  }
}

void TorchStoreServer::Adopt(UniqueFd client) {
  const int number = client.get();
  // A full pipe means thousands at once: this one is closed and tries again, as torch's clients do.
  if (write(adopt_.get(), &number, sizeof(number)) == sizeof(number)) {
    client.Release();  // the thread's now
  }
}

absl::Status TorchStoreServer::Loop::Open() {
  epoll_.Reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) {
    return WatchError("epoll_create1");
  }
  const int on = 1;  // connections inherit both
  setsockopt(listener_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(listener_.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));  // hosts may vanish
  epoll_event listener{.events = EPOLLIN, .data = {.u64 = kListenerId}};
  epoll_event stop{.events = EPOLLIN, .data = {.u64 = kStopId}};
  epoll_event adopted{.events = EPOLLIN, .data = {.u64 = kAdoptedId}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &listener) != 0 ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, adopted_.get(), &adopted) != 0 ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_fd_, &stop) != 0) {
    return WatchError("epoll_ctl");
  }
  return absl::OkStatus();
}

void TorchStoreServer::Loop::Run() {
  std::array<epoll_event, kEventsPerTurn> events;
  while (true) {
    const int n =
        epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), TimeoutMs());
    CHECK(n >= 0 || errno == EINTR);
    for (int i = 0; i < n; ++i) {
      const uint64_t id = events[static_cast<size_t>(i)].data.u64;
      if (id == kStopId) {
        TakeAdopted();  // nobody else owns what is still in the pipe
        SayRefusals();
        epoll_.Reset();  // first: taking thousands of sockets out of it one by one takes longer
        clients_.clear();
        return;
      }
      if (id == kListenerId) {
        Accept();
        continue;
      }
      if (id == kAdoptedId) {
        TakeAdopted();
        continue;
      }
      // An earlier event of this turn may have closed it.
      const auto it = clients_.find(id);
      if (it == clients_.end()) {
        continue;
      }
      const uint32_t happened = events[static_cast<size_t>(i)].events;
      if ((happened & EPOLLOUT) != 0 && !Write(id, it->second)) {
        continue;
      }
      if ((happened & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
        Read(id);
      }
    }
    OnTime();
  }
}

void TorchStoreServer::Loop::Accept() {
  for (size_t i = 0; i < kAcceptsPerTurn; ++i) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    UniqueFd fd(accept4(listener_.get(), reinterpret_cast<sockaddr*>(&peer), &size,
                        SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        PauseAccepting();
        return;
      }
      if (errno == EAGAIN) {
        return;
      }
      continue;  // that connection broke before it was taken (ECONNABORTED and the like)
    }
    if (!AddClient(std::move(fd), PeerName(peer))) {
      PauseAccepting();
      return;
    }
  }
}

// False: no room to watch it.
bool TorchStoreServer::Loop::AddClient(UniqueFd fd, std::string peer) {
  if (options_.refusal) {
    if (const std::string why = options_.refusal(fd.get()); !why.empty()) {
      if (options_.patience > absl::ZeroDuration() && held_.size() < kNewcomersMax) {
        const Clock::time_point now = Clock::now();
        ask_again_ = held_.empty() ? now + kAskEvery : ask_again_;
        const auto patience = absl::ToChronoNanoseconds(options_.patience);
        held_.push_back({std::move(fd), std::move(peer),
                         now + std::chrono::duration_cast<Clock::duration>(patience)});
      } else {
        Refuse(peer, why);
      }
      return true;
    }
  }
  return LetIn(std::move(fd), std::move(peer));
}

void TorchStoreServer::Loop::AskForHeld() {
  const Clock::time_point now = Clock::now();
  ask_again_ = now + kAskEvery;
  std::vector<Held> still;
  for (Held& one : held_) {
    if (const std::string why = options_.refusal(one.fd.get()); why.empty()) {
      LetIn(std::move(one.fd), std::move(one.peer));
    } else if (now >= one.until) {
      Refuse(one.peer, why);
    } else {
      still.push_back(std::move(one));
    }
  }
  held_ = std::move(still);
}

bool TorchStoreServer::Loop::LetIn(UniqueFd fd, std::string peer) {
  const uint64_t id = next_id_++;
  epoll_event watch{.events = EPOLLIN, .data = {.u64 = id}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &watch) != 0) {
    return false;
  }
  clients_.emplace(
      id, Client{.fd = std::move(fd), .peer = std::move(peer), .out = {}, .watched = EPOLLIN});
  Apply(store_.Step(StoreClientOpened{StoreClientId{id}}));
  return true;
}

void TorchStoreServer::Loop::TakeAdopted() {
  int number = -1;
  while (read(adopted_.get(), &number, sizeof(number)) == sizeof(number)) {
    UniqueFd fd(number);
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    const int on = 1;
    if (getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        fcntl(fd.get(), F_SETFL, O_NONBLOCK) == 0) {
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
      AddClient(std::move(fd),
                PeerName(peer));  // without room it is closed; torch's clients try again
    }
  }
}

// No descriptor is left. The connections wait in the kernel's queue; asking again at once would
// spin.
void TorchStoreServer::Loop::PauseAccepting() {
  epoll_event none{.events = 0, .data = {.u64 = kListenerId}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &none);
  accepting_ = false;
  accept_again_ = Clock::now() + kAcceptPause;
  if (!said_no_descriptor_) {
    said_no_descriptor_ = true;
    Say(absl::StrCat("the torch store has ", Plural(clients_.size(), "connection", "connections"),
                     " and cannot take more: no file descriptor is left; raise the limit (ulimit "
                     "-n) on this node"));
  }
}

void TorchStoreServer::Loop::Read(uint64_t id) {
  Client& client = clients_.at(id);
  const ssize_t n = recv(client.fd.get(), buffer_.data(), buffer_.size(), 0);
  if (n > 0) {
    first_bytes_ = first_bytes_.value_or(Clock::now());
    Apply(store_.Step(StoreClientBytes{StoreClientId{id},
                                       absl::string_view(buffer_.data(), static_cast<size_t>(n))}));
    return;
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  Drop(id);
  Apply(store_.Step(StoreClientClosed{StoreClientId{id}}));
}

bool TorchStoreServer::Loop::Write(uint64_t id, Client& client) {
  while (client.out_first < client.out.size()) {
    std::array<iovec, 2 * kPiecesPerWrite> parts;
    size_t count = 0;
    size_t skip = client.out_sent;
    const auto add = [&](const std::string& text) {
      const size_t cut = std::min(skip, text.size());
      skip -= cut;
      if (text.size() > cut) {
        parts[count++] = iovec{const_cast<char*>(text.data()) + cut, text.size() - cut};
      }
    };
    const size_t end = std::min(client.out.size(), client.out_first + kPiecesPerWrite);
    for (size_t i = client.out_first; i < end; ++i) {
      add(client.out[i].head);
      if (client.out[i].body != nullptr) {
        add(*client.out[i].body);
      }
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t n = sendmsg(client.fd.get(), &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EAGAIN) {
      break;
    }
    if (n < 0) {
      Drop(id);
      Apply(store_.Step(StoreClientClosed{StoreClientId{id}}));
      return false;
    }
    client.out_bytes -= static_cast<size_t>(n);
    client.out_sent += static_cast<size_t>(n);
    while (client.out_first < client.out.size() &&
           client.out_sent >= client.out[client.out_first].size()) {
      client.out_sent -= client.out[client.out_first].size();
      client.out[client.out_first++] = Piece{};
    }
  }
  if (2 * client.out_first >= client.out.size()) {  // at most twice what is unsent is kept
    client.out.erase(client.out.begin(),
                     client.out.begin() + static_cast<ptrdiff_t>(client.out_first));
    client.out_first = 0;
  }
  if (client.last && client.out.empty()) {
    shutdown(client.fd.get(), SHUT_WR);  // its own end follows
  }
  Watch(id, client);
  return true;
}

void TorchStoreServer::Loop::Watch(uint64_t id, Client& client) {
  const uint32_t wanted = (client.out_bytes > kUnsentBeforePause ? 0u : uint32_t{EPOLLIN}) |
                          (client.out.empty() ? 0u : uint32_t{EPOLLOUT});
  if (wanted == client.watched) {
    return;
  }
  epoll_event watch{.events = wanted, .data = {.u64 = id}};
  CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, client.fd.get(), &watch) == 0);
  client.watched = wanted;
}

void TorchStoreServer::Loop::Apply(std::vector<StoreEffect> effects) {
  std::vector<uint64_t> touched;
  for (StoreEffect& effect : effects) {
    if (auto* close = std::get_if<StoreClose>(&effect)) {
      const auto it = clients_.find(close->client.value);
      CHECK(it != clients_.end());
      Refuse(it->second.peer, close->reason);
      Drop(close->client.value);
      continue;
    }
    auto& send = std::get<StoreSend>(effect);
    const auto it = clients_.find(send.client.value);
    CHECK(it != clients_.end());
    // Also with answers that wait already: Write finds out that they do, and pauses reading.
    if (touched.empty() || touched.back() != send.client.value) {
      touched.push_back(send.client.value);
    }
    Piece piece{std::move(send.head), std::move(send.body)};
    it->second.last = send.last;
    it->second.out_bytes += piece.size();
    it->second.out.push_back(std::move(piece));
  }
  for (const uint64_t id : touched) {
    const auto it = clients_.find(id);
    if (it != clients_.end()) {
      Write(id, it->second);
    }
  }
}

void TorchStoreServer::Loop::Drop(uint64_t id) {
  clients_.erase(id);  // closing takes it out of epoll
  if (!accepting_) {
    accept_again_ = Clock::now();
  }
}

void TorchStoreServer::Loop::Refuse(const std::string& peer, const std::string& reason) {
  if (++refusals_ <= kRefusalsSaidMax) {
    Say(absl::StrCat("the torch store closed a connection from ", peer, ": ", reason,
                     refusals_ == kRefusalsSaidMax ? " (further ones are not shown)" : ""));
  }
}

void TorchStoreServer::Loop::SayRefusals() {
  if (refusals_ > kRefusalsSaidMax) {
    Say(absl::StrCat("the torch store closed ", refusals_, " connections for such reasons in all"));
  }
}

void TorchStoreServer::Loop::Say(std::string line) {
  if (options_.say) {
    options_.say(std::move(line));
  }
}

}  // namespace muster
