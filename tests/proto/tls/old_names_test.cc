// In a process of its own: OpenSSL is set up once.
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <sys/socket.h>

#include <cstdlib>

#include "proto/base/unique_fd.h"
#include "proto/tls/identity.h"
#include "proto/tls/session.h"

namespace muster {
namespace {

// Whether a client takes the server, both in this process.
bool TheyMeet() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
    return false;
  }
  const UniqueFd near(ends[0]), far(ends[1]);
  const TlsIdentity identity = TlsIdentity::OfSecret("s");
  const TlsContext servers(identity), clients;
  TlsSession server = TlsSession::Accept(servers, far.get());
  TlsSession client = TlsSession::Connect(clients, near.get(), {FingerprintOfSecret("s")});
  TlsStep of_server = TlsStep::kWantsRead, of_client = TlsStep::kWantsRead;
  for (int turn = 0; turn < 10 && (of_client != TlsStep::kDone || of_server != TlsStep::kDone);
       ++turn) {
    of_client = client.Handshake();
    of_server = server.Handshake();
  }
  return of_client == TlsStep::kDone && of_server == TlsStep::kDone &&
         client.channel() == server.channel();
}

[[noreturn]] void MeetWithoutOldNames() {
  ForgoOldNames();
  const bool met = TheyMeet();
  std::_Exit(!met ? 1 : EVP_get_cipherbyname("aes-256-cbc") != nullptr ? 2 : 0);
}

TEST(OldNames, AreMissedByNoConnection) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(MeetWithoutOldNames(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace muster
