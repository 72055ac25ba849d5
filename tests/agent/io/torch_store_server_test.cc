#include "agent/io/torch_store_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/agent/core/torch_store_testing.h"
#include "tests/agent/io/loopback.h"
#include "tests/agent/io/no_threads.h"
#include "tests/gate.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_store::Byte;
using testing_store::Speak;
using testing_store::Str;
using testing_store::U32;
using testing_store::U64;

constexpr Speak kOld{.old = true};
constexpr Speak kNew{.old = false};

// What the server says, from its thread to the test's.
class Lines {
 public:
  void Put(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  std::string Next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !lines_.empty(); });
    std::string line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }
  bool Empty() {
    const std::lock_guard lock(mutex_);
    return lines_.empty();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
};

// A client whose calls block.
class Peer {
 public:
  explicit Peer(uint16_t port, int family = AF_INET)
      : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 30, .tv_usec = 0};  // a test must fail, not hang
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (port != 0) {
      EXPECT_EQ(Connect(port, family), 0) << strerror(errno);
    }
  }
  int Connect(uint16_t port, int family = AF_INET) {
    return ConnectToLoopback(fd_.get(), family, port);
  }
  void Send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = send(fd_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      ASSERT_GT(n, 0) << strerror(errno);
      sent += static_cast<size_t>(n);
    }
  }
  // Before Connect.
  void KeepBuffersSmall() {
    const int bytes = 16 << 10;
    setsockopt(fd_.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  }
  // False: the server takes no more.
  bool TrySend(const std::string& bytes) {
    const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    EXPECT_TRUE(n < 0 || n == static_cast<ssize_t>(bytes.size())) << n;
    return n > 0;
  }
  std::string Read(size_t size) {
    std::string out(size, '\0');
    size_t have = 0;
    while (have < size) {
      const ssize_t n = recv(fd_.get(), out.data() + have, size - have, 0);
      if (n <= 0) {
        out.resize(have);
        return out;
      }
      have += static_cast<size_t>(n);
    }
    return out;
  }
  std::string Ask(const std::string& bytes, size_t reply_size) {
    Send(bytes);
    return Read(reply_size);
  }
  bool ClosedByPeer() {
    char byte = 0;
    return recv(fd_.get(), &byte, 1, 0) <= 0;
  }

 private:
  UniqueFd fd_;
};

class StoreServerTest : public testing::Test {
 protected:
  void Start(uint32_t world_size = 0, absl::Duration progress_after = absl::Hours(1)) {
    absl::StatusOr<BoundPort> bound = BindStorePort("", 0);
    ASSERT_TRUE(bound.ok()) << bound.status();
    TorchStoreServer::Options options;
    options.world_size = world_size;
    options.progress_after = progress_after;
    options.say = [this](std::string line) { lines_.Put(std::move(line)); };
    options.refusal = [this](int) -> std::string {
      asked_.Open();
      return letting_in_ ? "" : "it is a stranger";
    };
    options.patience = patience_;
    absl::StatusOr<std::unique_ptr<TorchStoreServer>> server =
        TorchStoreServer::Start(std::move(bound->fd), std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    port_ = bound->port;
  }

  Lines lines_;
  std::atomic<bool> letting_in_ = true;
  absl::Duration patience_;
  Gate asked_;
  uint16_t port_ = 0;
  std::unique_ptr<TorchStoreServer> server_;
};

TEST_F(StoreServerTest, ServesBothDialectsAtOnce) {
  Start();
  Peer one(port_);
  Peer two(port_);
  EXPECT_EQ(two.Ask(kNew.Hello() + kNew.Ping(77), 4), U32(77));
  one.Send(kOld.Set("/k", "from 1.13"));
  EXPECT_EQ(one.Ask(kOld.Get("/k"), 17), Str("from 1.13"));
  EXPECT_EQ(two.Ask(kNew.Get("/k"), 17), Str("from 1.13"));
  two.Send(kNew.Wait({"/late"}));
  EXPECT_EQ(one.Ask(kOld.Add("/late", 3), 8), U64(3));
  EXPECT_EQ(two.Read(1), Byte(0));
}

TEST_F(StoreServerTest, BytesMayComeOneByOne) {
  Start();
  Peer peer(port_);
  for (const char c :
       kNew.Hello() + kNew.MultiSet({{"/a", "1"}, {"/b", "22"}}) + kNew.MultiGet({"/b", "/a"})) {
    peer.Send(std::string(1, c));
  }
  EXPECT_EQ(peer.Read(19), Str("22") + Str("1"));
}

TEST_F(StoreServerTest, OneSocketServesIPv4AndIPv6) {
  Start();
  Peer v4(port_);
  EXPECT_EQ(v4.Ask(kOld.Add("/n", 1), 8), U64(1));
  if (Peer probe(0, AF_INET6); probe.Connect(port_, AF_INET6) == 0) {  // a machine with IPv6
    EXPECT_EQ(probe.Ask(kOld.Add("/n", 1), 8), U64(2));
  }
}

TEST_F(StoreServerTest, ABadClientIsClosedAndNamed) {
  Start();
  Peer good(port_);
  EXPECT_EQ(good.Ask(kOld.Add("/n", 1), 8), U64(1));
  Peer bad(port_);
  bad.Send("SSH-2.0");
  EXPECT_TRUE(bad.ClosedByPeer());
  EXPECT_THAT(lines_.Next(),
              AllOf(HasSubstr("127.0.0.1"), HasSubstr("code 83"), HasSubstr("--store=worker")));
  EXPECT_EQ(good.Ask(kOld.Add("/n", 1), 8), U64(2));
}

// Horovod's clients may take the end of the connection for that of the answer.
TEST_F(StoreServerTest, AnAnswerOverHttpEndsItsConnection) {
  Start();
  const std::string none =
      "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  Peer peer(port_);
  EXPECT_EQ(peer.Ask("GET /s/k HTTP/1.1\r\n\r\n", none.size()), none);
  EXPECT_TRUE(peer.ClosedByPeer());
}

// A worker that takes another's place on a node of which the store has not heard yet.
TEST_F(StoreServerTest, WhoIsKnownLittleLaterIsServed) {
  patience_ = absl::Hours(1);
  letting_in_ = false;
  Start();
  Peer early(port_);
  early.Send(kOld.Add("/n", 1));
  ASSERT_TRUE(asked_.Wait());
  letting_in_ = true;
  EXPECT_EQ(early.Read(8), U64(1));
  EXPECT_TRUE(lines_.Empty());
}

TEST_F(StoreServerTest, WhoStaysAStrangerIsClosedAfterAWhile) {
  patience_ = absl::Milliseconds(1);
  letting_in_ = false;
  Start();
  Peer bad(port_);
  EXPECT_TRUE(bad.ClosedByPeer());
  EXPECT_THAT(lines_.Next(), HasSubstr("it is a stranger"));
}

TEST_F(StoreServerTest, AStrangerIsClosedUnread) {
  Start();
  Peer good(port_);
  EXPECT_EQ(good.Ask(kOld.Add("/n", 1), 8), U64(1));
  letting_in_ = false;
  Peer bad(port_);
  bad.TrySend(kOld.Set("/n", "9"));
  EXPECT_TRUE(bad.ClosedByPeer());
  EXPECT_THAT(lines_.Next(), AllOf(HasSubstr("127.0.0.1"), HasSubstr("it is a stranger")));
  EXPECT_EQ(good.Ask(kOld.Add("/n", 1), 8), U64(2));
}

TEST_F(StoreServerTest, ManyRefusalsDoNotFloodTheUser) {
  Start();
  for (int i = 0; i < 40; ++i) {
    Peer bad(port_);
    bad.Send("\xFF");
    EXPECT_TRUE(bad.ClosedByPeer());
  }
  for (int i = 0; i < 15; ++i) {
    EXPECT_THAT(lines_.Next(), testing::Not(HasSubstr("not shown")));
  }
  EXPECT_THAT(lines_.Next(), HasSubstr("not shown"));
  EXPECT_TRUE(lines_.Empty());
  server_.reset();
  EXPECT_THAT(lines_.Next(), HasSubstr("closed 40 connections"));
}

TEST_F(StoreServerTest, SaysWhoHasConnected) {
  Start(/*world_size=*/2, absl::Milliseconds(1));
  EXPECT_TRUE(lines_.Empty());  // nothing before the first connection: it may be no torch program
  Peer one(port_);
  EXPECT_EQ(one.Ask(kOld.Add("init/", 1), 8), U64(1));
  std::string line = lines_.Next();
  while (line.find("0 of 2") == 0) {
    line = lines_.Next();
  }
  EXPECT_THAT(line,
              HasSubstr("1 of 2 workers have connected to the store (1 from 127.0.0.1) after "));
  Peer two(port_);
  EXPECT_EQ(two.Ask(kNew.Hello() + kNew.Add("init/", 1), 8), U64(2));
  while (line.find("1 of 2") == 0) {
    line = lines_.Next();
  }
  EXPECT_THAT(line, HasSubstr("all 2 workers have connected to the store after "));
}

TEST_F(StoreServerTest, WhoLeavesBeforeAllHaveComeIsNotCounted) {
  Start(/*world_size=*/2, absl::Milliseconds(1));
  const auto next_about = [this](const std::string& count) {
    std::string line;
    for (int i = 0; i < 12 && line.find(count) != 0; ++i) {  // each after twice the time
      line = lines_.Next();
    }
    return line;
  };
  {
    Peer gone(port_);
    EXPECT_EQ(gone.Ask(kOld.Add("init/", 1), 8), U64(1));
    EXPECT_THAT(next_about("1 of 2"), HasSubstr("(1 from 127.0.0.1)"));
  }
  EXPECT_THAT(next_about("0 of 2"), HasSubstr("0 of 2 workers have connected to the store after "));
}

TEST_F(StoreServerTest, AClientThatDoesNotReadDelaysNobody) {
  Start();
  Peer writer(port_);
  const std::string value(4 << 20, 'v');
  EXPECT_EQ(writer.Ask(kOld.Set("/big", value) + kOld.Add("/n", 0), 8), U64(0));
  Peer sleeper(port_);
  EXPECT_EQ(sleeper.Ask(kOld.Add("/n", 0), 8), U64(0));
  std::string gets;
  constexpr int kGets = 30;  // 120 MiB of answers, far more than sockets buffer
  for (int i = 0; i < kGets; ++i) {
    gets += kOld.Get("/big");
  }
  sleeper.Send(gets);
  EXPECT_EQ(writer.Ask(kOld.Add("/n", 1), 8), U64(1));
  writer.Send(kOld.Set("/big", "small now"));
  EXPECT_EQ(writer.Ask(kOld.Add("/n", 1), 8), U64(2));
  for (int i = 0; i < kGets; ++i) {
    ASSERT_TRUE(sleeper.Read(8 + value.size()) == Str(value)) << i;
  }
}

// Its requests come one by one, so that no single answer is large: it must be read from no more.
TEST_F(StoreServerTest, AClientThatNeverReadsIsNotAnsweredIntoMemoryForEver) {
  Start();
  Peer other(port_);
  const std::string value(1000, 'v');
  other.Send(kOld.Set("/k", value));
  EXPECT_EQ(other.Ask(kOld.Add("/n", 0), 8), U64(0));
  Peer sleeper(0);
  sleeper.KeepBuffersSmall();
  ASSERT_EQ(sleeper.Connect(port_), 0) << strerror(errno);
  // Buffers of the kernel take some 10,000 requests and answers at most.
  constexpr int kGetsMax = 60000;
  int gets = 0;
  while (gets < kGetsMax && sleeper.TrySend(kOld.Get("/k"))) {
    ++gets;
    // The store has taken a turn, with the sleeper's request.
    ASSERT_EQ(other.Ask(kOld.Add("/n", 1), 8), U64(static_cast<uint64_t>(gets)));
  }
  EXPECT_LT(gets, kGetsMax);
  for (int i = 0; i < gets; ++i) {  // none is lost
    ASSERT_TRUE(sleeper.Read(8 + value.size()) == Str(value)) << i;
  }
}

TEST_F(StoreServerTest, StoppingClosesConnectionsAndFreesThePort) {
  Start();
  Peer peer(port_);
  EXPECT_EQ(peer.Ask(kOld.Add("/n", 1), 8), U64(1));
  server_.reset();
  EXPECT_TRUE(peer.ClosedByPeer());
  // What is left of the connection does not keep the next one from the port.
  const absl::StatusOr<BoundPort> again = BindStorePort("", port_);
  EXPECT_TRUE(again.ok()) << again.status();
}

// However far the thread has come, what it was given is closed with the server.
TEST_F(StoreServerTest, StoppingClosesWhatWasJustAdopted) {
  for (int i = 0; i < 200; ++i) {
    Start();
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd client(ends[0]);
    server_->Adopt(UniqueFd(ends[1]));
    server_.reset();
    pollfd entry{client.get(), POLLIN, 0};
    ASSERT_EQ(poll(&entry, 1, 0), 1) << i;
    ASSERT_NE(entry.revents & POLLHUP, 0) << i;
  }
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

TEST_F(StoreServerTest, WithoutDescriptorsItWaitsInsteadOfSpinning) {
  Start();
  Peer early(port_);
  EXPECT_EQ(early.Ask(kOld.Add("/n", 1), 8), U64(1));
  Peer late(0);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(late.Connect(port_), 0);
  late.Send(kOld.Add("/n", 1));
  EXPECT_THAT(lines_.Next(), HasSubstr("no file descriptor is left"));
  EXPECT_EQ(early.Ask(kOld.Add("/n", 10), 8), U64(11));  // others are served
  const double cpu = CpuSeconds();
  poll(nullptr, 0, 400);
  const double used = CpuSeconds() - cpu;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(late.Read(8), U64(12));
  EXPECT_LT(used, 0.2);
}

TEST(StoreServer, RefusesASocketThatDoesNotListen) {
  absl::StatusOr<BoundPort> bound = ReservePort("127.0.0.1", 0);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(TorchStoreServer::Start(std::move(bound->fd), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(StoreServer, WithoutAThreadItDoesNotStart) {
  const NoThreads none;
  absl::StatusOr<BoundPort> bound = BindStorePort("127.0.0.1", 0);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(TorchStoreServer::Start(std::move(bound->fd), {}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// --- ports ---

int TryListen(uint16_t port, bool reuse) {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = reuse ? 1 : 0;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof(any)) != 0 ||
      listen(fd.get(), 1) != 0) {
    return errno;
  }
  return 0;
}

TEST(StorePort, AnErrorNamesAddressPortOwnerAndWhatToDo) {
  const absl::StatusOr<BoundPort> first = BindStorePort("127.0.0.1", 0);
  ASSERT_TRUE(first.ok()) << first.status();
  for (const char* address : {"", "127.0.0.1"}) {
    const absl::Status second = BindStorePort(address, first->port).status();
    EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(second.message()),
                AllOf(HasSubstr(absl::StrCat(":", first->port)),
                      HasSubstr(absl::StrCat("pid ", getpid(), " (")),
                      HasSubstr("torch_store_server_test"), HasSubstr("--master-port")));
  }
}

TEST(StorePort, AddressesAreChecked) {
  EXPECT_EQ(BindStorePort("node17", 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BindStorePort("fe80::1%nosuchif", 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BindStorePort("192.0.2.1", 0).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(BindStorePort("*", 0).ok());
}

TEST(StorePort, AReservedPortRefusesConnectionsAndLetsTorchBind) {
  const absl::StatusOr<BoundPort> reserved = ReservePort("", 0);
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  EXPECT_EQ(Peer(0).Connect(reserved->port), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  EXPECT_EQ(TryListen(reserved->port, /*reuse=*/false), EADDRINUSE);
  EXPECT_EQ(TryListen(reserved->port, /*reuse=*/true), 0);  // as torch's rank 0 does
}

TEST(StorePort, APortIsReservedOnce) {
  const absl::StatusOr<BoundPort> first = ReservePort("", 0);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = ReservePort("", first->port).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists) << second;
  EXPECT_FALSE(BindStorePort("127.0.0.1", first->port).ok());
}

TEST(StorePort, IsOneOfTheRange) {
  absl::StatusOr<BoundPort> taken = BindStorePort("", 0);
  ASSERT_TRUE(taken.ok()) << taken.status();
  const PortRange one = {taken->port, taken->port};
  for (const char* address : {"", "127.0.0.1"}) {
    const absl::Status listening = BindStorePort(address, 0, one).status();
    EXPECT_EQ(listening.code(), absl::StatusCode::kResourceExhausted) << listening;
    EXPECT_EQ(ReservePort(address, 0, one).status(), listening);
  }
  taken->fd.Reset();
  EXPECT_EQ(BindStorePort("", 0, one)->port, one.low);
  EXPECT_EQ(ReservePort("", 0, one)->port, one.low);
  EXPECT_EQ(ReservePort("x", 0, one).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(StorePort, NobodyGetsAReservedPortByChance) {
  std::vector<BoundPort> reserved;
  std::set<uint16_t> ports;
  for (int i = 0; i < 200; ++i) {
    absl::StatusOr<BoundPort> bound = ReservePort("", 0);
    ASSERT_TRUE(bound.ok()) << bound.status();
    EXPECT_TRUE(ports.insert(bound->port).second) << "two reservations of one port";
    reserved.push_back(*std::move(bound));
  }
  for (int i = 0; i < 4000; ++i) {  // would hit one of 200 in 28,000 about 28 times
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    socklen_t size = sizeof(any);
    ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&any), size), 0);
    ASSERT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&any), &size), 0);
    ASSERT_FALSE(ports.contains(ntohs(any.sin_port))) << i;
  }
}

}  // namespace
}  // namespace muster
