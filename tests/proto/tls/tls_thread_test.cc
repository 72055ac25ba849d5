// Both ends of TLS in one process, over socket pairs in the place of TCP.
#include "proto/tls/tls_thread.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/limits.h"
#include "proto/tls/tls_door.h"
#include "tests/proto/base/descriptors.h"
#include "tests/proto/base/tcp_pair.h"
#include "tests/proto/wire/test_loop.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Minutes(1);

class TlsTest : public testing::Test {
 protected:
  void Open(const TlsIdentity& identity, bool hear = false) {
    door_ = std::make_unique<TlsDoor>(
        loop_.get(), identity, hear,
        [this](TlsDoor::Caller&& caller) { callers_.push_back(std::move(caller)); });
  }
  // A connection that waits at the door; the far end is the test's.
  UniqueFd Knock(absl::Duration within = kLong, const std::string& peer = "10.0.0.1") {
    auto [ours, theirs] = SocketPair();
    door_->Take(std::move(theirs), peer, within);
    return std::move(ours);
  }
  TlsThread::Dialed Call(TlsThread& client, UniqueFd socket, TlsExpected expected) {
    absl::StatusOr<TlsThread::Dialed> dialed =
        client.Connect(std::move(socket), std::move(expected), kLong);
    EXPECT_TRUE(dialed.ok()) << dialed.status();
    return *std::move(dialed);
  }
  static TlsExpected OfSecret(const std::string& secret) {
    return {TlsIdentity::OfSecret(secret).fingerprint()};
  }
  void UntilCallers(size_t count) {
    loop_.Until([&] { return callers_.size() >= count; }, "a caller");
  }
  const TlsOutcome::Facts& Facts(const TlsThread::Dialed& dialed) {
    loop_.Until([&] { return dialed.outcome->facts() != nullptr; }, "the handshake's outcome");
    return *dialed.outcome->facts();
  }
  // What both say of a client that expects `expected`.
  std::pair<absl::Status, absl::Status> Meet(TlsExpected expected) {
    const size_t before = callers_.size();
    const TlsThread::Dialed dialed = Call(client_, Knock(), std::move(expected));
    const absl::Status client = Facts(dialed).status;
    UntilCallers(before + 1);
    return {client, callers_.back().arrival.status()};
  }
  void Send(const UniqueFd& fd, const std::string& bytes) {
    EXPECT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string Receive(const UniqueFd& fd, size_t count) {
    std::string out;
    loop_.Until(
        [&] {
          ssize_t n = 1;
          while (n > 0 && out.size() < count) {
            char bytes[4096];
            n = recv(fd.get(), bytes, std::min(sizeof(bytes), count - out.size()), 0);
            out.append(bytes, n > 0 ? static_cast<size_t>(n) : 0);
          }
          return n == 0 || out.size() == count;
        },
        "bytes");
    return out;
  }

  TestLoop loop_;
  std::vector<TlsDoor::Caller> callers_;
  TlsThread client_;
  std::unique_ptr<TlsDoor> door_;  // before the loop
};

TEST_F(TlsTest, BytesGoBothWaysAndTheEndIsPassedOn) {
  Open(TlsIdentity::OfSecret("s"));
  TlsThread::Dialed dialed = Call(client_, Knock(), OfSecret("s"));
  Send(dialed.inner, "sent before the handshake");
  UntilCallers(1);
  ASSERT_TRUE(callers_[0].arrival.ok()) << callers_[0].arrival.status();
  EXPECT_EQ(callers_[0].peer, "10.0.0.1");
  UniqueFd& inner = callers_[0].arrival->inner;
  EXPECT_EQ(Receive(inner, 25), "sent before the handshake");
  Send(inner, "an answer");
  EXPECT_EQ(Receive(dialed.inner, 9), "an answer");
  Send(inner, "the last words");
  inner.Reset();  // R2
  EXPECT_EQ(Receive(dialed.inner, 100), "the last words");
}

TEST_F(TlsTest, MuchGoesThroughWhereTheReaderIsSlow) {  // R3
  Open(TlsIdentity::OfSecret("s"));
  const TlsThread::Dialed dialed = Call(client_, Knock(), OfSecret("s"));
  UntilCallers(1);
  door_->Keep(callers_[0].arrival->id);
  std::string much;
  for (int i = 0; much.size() < (8u << 20); ++i) {
    absl::StrAppend(&much, i, " ");
  }
  std::thread writer([&] {
    fcntl(dialed.inner.get(), F_SETFL, 0);
    Send(dialed.inner, much);
  });
  EXPECT_EQ(Receive(callers_[0].arrival->inner, much.size()), much);
  writer.join();
}

TEST_F(TlsTest, OneThatHasNotProvedItselfBringsLittle) {  // R1
  Open(TlsIdentity::OfSecret("s"));
  const TlsThread::Dialed dialed = Call(client_, Knock(), OfSecret("s"));
  UntilCallers(1);
  const UniqueFd inner = std::move(callers_[0].arrival->inner);
  const std::string much(2 * kUnprovedBytesMax, 'm');
  std::thread writer([&] {
    fcntl(dialed.inner.get(), F_SETFL, 0);
    Send(dialed.inner, much);
  });
  EXPECT_EQ(Receive(inner, kUnprovedBytesMax).size(), kUnprovedBytesMax);
  EXPECT_TRUE(Meet(OfSecret("s")).first.ok());  // others have their turn meanwhile
  int waiting = 0;
  EXPECT_EQ(ioctl(inner.get(), FIONREAD, &waiting), 0);
  EXPECT_EQ(waiting, 0);
  door_->Keep(callers_[0].arrival->id);
  EXPECT_EQ(Receive(inner, kUnprovedBytesMax).size(), kUnprovedBytesMax);
  writer.join();
}

TEST_F(TlsTest, BothEndsHaveOneChannelAndNoTwoConnectionsHave) {  // T3
  Open(TlsIdentity::OfSecret("s"));
  const TlsThread::Dialed one = Call(client_, Knock(), OfSecret("s"));
  UntilCallers(1);
  const TlsThread::Dialed other = Call(client_, Knock(), OfSecret("s"));
  UntilCallers(2);
  EXPECT_EQ(Facts(one).channel, callers_[0].arrival->channel);
  EXPECT_EQ(Facts(other).channel, callers_[1].arrival->channel);
  EXPECT_NE(Facts(one).channel, Facts(other).channel);
  EXPECT_EQ(Facts(one).channel.size(), 32u);
}

TEST_F(TlsTest, TheKeyOfAnotherSecretIsRefused) {  // T2
  Open(TlsIdentity::OfSecret("another"));
  const auto [client, server] = Meet(OfSecret("s"));
  EXPECT_EQ(client.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(client.message(), "the master's identity is not that of this job's secret");
  EXPECT_EQ(server.code(), absl::StatusCode::kPermissionDenied) << server;
}

TEST_F(TlsTest, ASitesKeyIsTakenWhereItIsPinnedOrNoneIs) {
  const TlsIdentity site = TlsIdentity::OfSite(std::string(kTlsSeedBytes, 's'));
  Open(site);
  TlsExpected expected = OfSecret("s");
  EXPECT_EQ(Meet(expected).first.code(), absl::StatusCode::kPermissionDenied);
  expected.any_site = true;
  EXPECT_TRUE(Meet(expected).first.ok());
  expected.site = site.fingerprint();
  EXPECT_TRUE(Meet(expected).first.ok());
  expected.site = TlsIdentity::OfSite(std::string(kTlsSeedBytes, 't')).fingerprint();
  const auto [client, server] = Meet(expected);
  EXPECT_EQ(client, absl::PermissionDeniedError(
                        "it is a site's daemon, and not the one that is expected here"));
  EXPECT_EQ(server, absl::PermissionDeniedError("it expects another fingerprint than ours"));
}

TEST_F(TlsTest, OfASiteThatIsRefusedTheFingerprintIsKnown) {
  const TlsIdentity site = TlsIdentity::OfSite(std::string(kTlsSeedBytes, 's'));
  Open(site);
  const TlsThread::Dialed dialed = Call(client_, Knock(), OfSecret("s"));
  EXPECT_FALSE(Facts(dialed).status.ok());
  EXPECT_TRUE(Facts(dialed).is_site);
  EXPECT_EQ(Facts(dialed).fingerprint, site.fingerprint());
}

TEST_F(TlsTest, AMasterWithoutSecretSaysSo) {
  auto [ours, theirs] = SocketPair();
  const TlsThread::Dialed dialed = Call(client_, std::move(ours), OfSecret("s"));
  Send(theirs, std::string(NoTlsHereAlert()));
  EXPECT_EQ(Facts(dialed).status, absl::FailedPreconditionError("it runs with --insecure"));
}

TEST_F(TlsTest, WhatIsNoTlsIsNamed) {
  Open(TlsIdentity::OfSecret("s"));
  for (const std::string& garbage : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(600, '\0'),
                                     std::string("\x16\x03\x01\xff\xff", 5) + std::string(600, 'x'),
                                     std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")}) {
    const size_t before = callers_.size();
    const UniqueFd stranger = Knock();
    Send(stranger, garbage);
    UntilCallers(before + 1);
    EXPECT_EQ(callers_.back().arrival.status(),
              absl::UnimplementedError("it does not speak TLS 1.3"));
    auto [ours, theirs] = SocketPair();
    const TlsThread::Dialed dialed = Call(client_, std::move(ours), OfSecret("s"));
    Send(theirs, garbage);
    EXPECT_EQ(Facts(dialed).status, absl::UnimplementedError("it does not speak TLS 1.3"));
  }
}

TEST_F(TlsTest, WhoLeavesInTheMiddleIsNamed) {
  Open(TlsIdentity::OfSecret("s"));
  Knock().Reset();
  UntilCallers(1);
  EXPECT_EQ(callers_[0].arrival.status().code(), absl::StatusCode::kUnavailable);
}

// An OpenSSL that speaks what we do not.
class OldTls {
 public:
  OldTls(const SSL_METHOD* method, int fd, const TlsIdentity* server)
      : context_(SSL_CTX_new(method), &SSL_CTX_free) {
    SSL_CTX_set_max_proto_version(context_.get(), TLS1_2_VERSION);
    if (server != nullptr) {
      SSL_CTX_use_certificate(context_.get(), server->certificate());
      SSL_CTX_use_PrivateKey(context_.get(), server->key());
    }
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), fd);
  }
  int Connect() { return SSL_connect(ssl_.get()); }
  int Accept() { return SSL_accept(ssl_.get()); }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, &SSL_free};
};

TEST_F(TlsTest, Tls12IsRefusedInBothDirections) {  // T1
  const TlsIdentity identity = TlsIdentity::OfSecret("s");
  Open(identity);
  const UniqueFd client = Knock();
  OldTls old_client(TLS_client_method(), client.get(), nullptr);
  loop_.Until(
      [&] {
        EXPECT_LT(old_client.Connect(), 1);
        return !callers_.empty();
      },
      "the refusal");
  EXPECT_EQ(callers_[0].arrival.status(), absl::UnimplementedError("it does not speak TLS 1.3"));

  auto [ours, theirs] = SocketPair();
  const TlsThread::Dialed dialed = Call(client_, std::move(ours), OfSecret("s"));
  OldTls old_server(TLS_server_method(), theirs.get(), &identity);
  loop_.Until(
      [&] {
        EXPECT_LT(old_server.Accept(), 1);
        return dialed.outcome->facts() != nullptr;
      },
      "the refusal");
  EXPECT_EQ(Facts(dialed).status, absl::UnimplementedError("it does not speak TLS 1.3"));
}

TEST_F(TlsTest, WhoIsSilentOrProvesNothingIsCut) {  // R1
  Open(TlsIdentity::OfSecret("s"), /*hear=*/true);
  const UniqueFd silent = Knock(absl::Milliseconds(1));
  UntilCallers(1);
  EXPECT_EQ(callers_[0].arrival.status(), absl::UnavailableError("it did not answer in time"));
  // Shakes hands, says one byte, and proves nothing.
  const TlsThread::Dialed dialed = Call(client_, Knock(absl::Seconds(2)), OfSecret("s"));
  Send(dialed.inner, "P");
  UntilCallers(2);
  ASSERT_TRUE(callers_[1].arrival.ok()) << callers_[1].arrival.status();
  EXPECT_EQ(Receive(callers_[1].arrival->inner, 100), "P");  // then its end
}

TEST_F(TlsTest, WhoHasProvedItselfStays) {
  Open(TlsIdentity::OfSecret("s"));
  const TlsThread::Dialed kept = Call(client_, Knock(absl::Seconds(2)), OfSecret("s"));
  UntilCallers(1);
  door_->Keep(callers_[0].arrival->id);
  const UniqueFd silent = Knock(absl::Milliseconds(2100));
  UntilCallers(2);  // its time is over, and so would have been that of the first
  Send(kept.inner, "here");
  EXPECT_EQ(Receive(callers_[0].arrival->inner, 4), "here");
}

TEST_F(TlsTest, OfManyThatProveNothingTheOldestGo) {  // R1
  ASSERT_NO_FATAL_FAILURE(RaiseDescriptors(2 * kUnprovedMax + 100));
  Open(TlsIdentity::OfSecret("s"));
  std::vector<UniqueFd> strangers;
  for (size_t i = 0; i < kUnprovedMax; ++i) {
    strangers.push_back(Knock());
  }
  const TlsThread::Dialed agent = Call(client_, Knock(), OfSecret("s"));
  UntilCallers(2);
  EXPECT_EQ(callers_[0].arrival.status(), absl::ResourceExhaustedError("others came after it"));
  EXPECT_TRUE(callers_[1].arrival.ok());
}

TEST_F(TlsTest, OneSourcePushesOutNoneOfAnother) {  // R1
  ASSERT_NO_FATAL_FAILURE(RaiseDescriptors(2 * kUnprovedMax + 200));
  Open(TlsIdentity::OfSecret("s"));
  UniqueFd early = Knock(kLong, "10.0.0.2");  // it has not said anything yet
  std::vector<UniqueFd> strangers;
  for (size_t i = 0; i < kUnprovedMax; ++i) {
    strangers.push_back(Knock());
  }
  UntilCallers(1);
  EXPECT_EQ(callers_[0].peer, "10.0.0.1");
  const TlsThread::Dialed agent = Call(client_, std::move(early), OfSecret("s"));
  UntilCallers(2);
  EXPECT_EQ(callers_[1].peer, "10.0.0.2");
  EXPECT_TRUE(callers_[1].arrival.ok());
}

// More than one turn takes, and a reader who keeps up.
TEST_F(TlsTest, WhatCameBeforeAResetIsPassedOnAndSoIsTheEnd) {
  Open(TlsIdentity::OfSecret("s"));
  auto [ours, theirs] = TcpPair();
  const int large = 4 << 20;
  const linger reset = {1, 0};
  EXPECT_EQ(setsockopt(ours.get(), SOL_SOCKET, SO_RCVBUF, &large, sizeof(large)), 0);
  setsockopt(ours.get(), SOL_SOCKET, SO_RCVBUFFORCE, &large, sizeof(large));  // as root
  EXPECT_EQ(setsockopt(theirs.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
  const UniqueFd observed(dup(ours.get()));
  door_->Take(std::move(theirs), "10.0.0.1", kLong);
  const TlsThread::Dialed dialed = Call(client_, std::move(ours), OfSecret("s"));
  UntilCallers(1);
  Facts(dialed);
  client_.Rest();
  const std::string much(1u << 20, 'x');
  UniqueFd& inner = callers_[0].arrival->inner;
  for (size_t at = 0; at < much.size();) {
    loop_.Until(
        [&] {
          const ssize_t n = send(inner.get(), much.data() + at, much.size() - at, MSG_NOSIGNAL);
          at += n > 0 ? static_cast<size_t>(n) : 0;
          return at == much.size();
        },
        "all is written");
  }
  inner.Reset();
  loop_.Until(
      [&] {
        pollfd one = {observed.get(), 0, 0};
        return poll(&one, 1, 0) == 1 && (one.revents & POLLERR) != 0;
      },
      "the reset");
  int arrived = 0;  // the reset takes back what was still to be sent
  ASSERT_EQ(ioctl(observed.get(), FIONREAD, &arrived), 0);
  ASSERT_GT(arrived, 512 << 10) << "more than 16 records, and what inner holds: run it as root, "
                                   "or raise net.core.rmem_max to "
                                << large;
  size_t got = 0;
  std::thread reader([&] {
    fcntl(dialed.inner.get(), F_SETFL, 0);
    std::vector<char> bytes(1u << 20);
    for (ssize_t n = 1; n > 0; got += n > 0 ? static_cast<size_t>(n) : 0) {
      n = recv(dialed.inner.get(), bytes.data(), bytes.size(), 0);
    }
  });
  client_.Resume();
  reader.join();
  // But for a record that has not come whole, and TLS 1.3's 22 bytes of each.
  EXPECT_GE(got + (32 << 10), static_cast<size_t>(arrived));
}

TEST_F(TlsTest, AThreadThatRestsLosesNothing) {
  Open(TlsIdentity::OfSecret("s"));
  const TlsThread::Dialed dialed = Call(client_, Knock(), OfSecret("s"));
  UntilCallers(1);
  client_.Rest();
  Send(callers_[0].arrival->inner, "while it rests");
  client_.Resume();
  EXPECT_EQ(Receive(dialed.inner, 14), "while it rests");
}

// Commands that a thread at rest does not take yet, until there is no room for one more.
TEST_F(TlsTest, AFloodOfCallersKeepsTheOwnersEndNotOut) {
  const TlsIdentity identity = TlsIdentity::OfSecret("s");
  TlsThread thread(&identity);
  thread.Rest();
  for (uint64_t i = 0; i <= 4 * uint64_t{kNodesMax}; ++i) {
    thread.Keep(i + 1);
  }
  auto [ours, theirs] = SocketPair();
  EXPECT_TRUE(
      absl::IsUnavailable(thread.Connect(std::move(theirs), OfSecret("s"), kLong).status()));
}  // and its end is not kept out

// As an agent's shepherd has copies of all descriptors that the agent had when it was forked.
TEST_F(TlsTest, AProcessThatWasForkedKeepsNoConnectionOpen) {  // R2
  Open(TlsIdentity::OfSecret("s"));
  const TlsThread::Dialed dialed = Call(client_, Knock(), OfSecret("s"));
  UntilCallers(1);
  Facts(dialed);
  client_.Rest();
  const pid_t child = fork();
  if (child == 0) {
    while (true) {
      pause();
    }
  }
  client_.Resume();
  Send(callers_[0].arrival->inner, "the last words");
  shutdown(callers_[0].arrival->inner.get(), SHUT_RDWR);
  EXPECT_EQ(Receive(dialed.inner, 100), "the last words");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(TlsTest, WhatWasWrittenBeforeTheEndIsSent) {
  Open(TlsIdentity::OfSecret("s"));
  auto client = std::make_unique<TlsThread>();
  {
    const TlsThread::Dialed dialed = Call(*client, Knock(), OfSecret("s"));
    UntilCallers(1);
    Send(dialed.inner, "goodbye");
  }
  client.reset();
  EXPECT_EQ(Receive(callers_[0].arrival->inner, 100), "goodbye");
}

}  // namespace
}  // namespace muster
