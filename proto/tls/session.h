// One TLS 1.3 connection over a socket that does not block. No thread of its own, no waiting: each
// call does what can be done now and says what it waits for.
//
// Invariants (cited by tests):
//  T1 nothing older than TLS 1.3 is spoken, in either direction;
//  T2 a client ends the handshake where the server has not the key that it expects;
//  T3 both ends of one connection have the same channel(), and no two connections have.
#pragma once

#include <openssl/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/tls/identity.h"

namespace muster {

// The first byte of a TLS connection (RFC 8446 section 5.1): a record of the handshake.
inline constexpr char kTlsFirstByte = 0x16;
// What a server without TLS says to a client that begins with that byte: an alert that the client
// can put into words.
absl::string_view NoTlsHereAlert();

// What a client takes for the master.
struct TlsExpected {
  std::string fingerprint;  // of the job's secret
  std::string site = {};    // pinned for this place, "" = none
  bool any_site = false;    // where none is pinned: proves itself later, over this channel
};

// OpenSSL registers the old names of all its ciphers and digests when it is first used: 1 ms. A
// process that calls this before anything else of OpenSSL's goes without: it can look up none by
// name, nor check certificates that others have signed (etcd's).
void ForgoOldNames();

// What servers, or clients, have in common. Any thread; sessions outlive it.
class TlsContext {
 public:
  TlsContext();                                    // of clients
  explicit TlsContext(const TlsIdentity& server);  // copied
  SSL_CTX* get() const { return context_.get(); }

 private:
  struct Free {
    void operator()(SSL_CTX* context) const;
  };
  std::unique_ptr<SSL_CTX, Free> context_;
};

enum class TlsStep : uint8_t { kDone, kWantsRead, kWantsWrite, kEnded };
struct TlsMoved {
  TlsStep step = TlsStep::kDone;
  size_t bytes = 0;
};

// `socket` is the caller's and outlives the session.
class TlsSession {
 public:
  static TlsSession Accept(const TlsContext& context, int socket);
  static TlsSession Connect(const TlsContext& context, int socket, TlsExpected expected);

  TlsStep Handshake();
  // Whether the first byte after the handshake has come; it is not taken.
  TlsStep Hear();
  TlsMoved Read(char* bytes, size_t size);
  TlsMoved Write(const char* bytes, size_t size);
  void SayGoodbye();

  // After kDone of Handshake. channel: 32 bytes that both ends derive from all that the handshake
  // was (RFC 9266, tls-exporter).
  std::string channel() const;
  // Of the server, once it has shown its key; of a client.
  const std::string& fingerprint() const { return peer_->fingerprint; }
  bool is_site() const { return peer_->is_site; }

  // After kEnded of Handshake. PermissionDenied: the two do not know the same secret, or the server
  // is a site's and another one, or none, is expected (client: T2);
  // FailedPrecondition: it has no secret (--insecure); Unimplemented: it speaks no TLS 1.3;
  // Unavailable: it left. "it ..." = the far side.
  absl::Status failure() const;

 private:
  // What a client has seen of the server; at one place while the session moves, for OpenSSL points
  // to it.
  struct Peer {
    TlsExpected expected;
    std::string fingerprint;
    bool is_site = false;
    bool refused = false;
  };
  struct Free {
    void operator()(SSL* ssl) const;
  };
  TlsSession(const TlsContext& context, int socket, TlsExpected expected);
  TlsStep StepOf(int result);
  static int Verify(X509_STORE_CTX* store, void* unused);
  friend class TlsContext;

  std::unique_ptr<Peer> peer_;
  std::unique_ptr<SSL, Free> ssl_;
  bool server_ = false;
  int reason_ = 0;  // OpenSSL's, of kEnded; 0 = the connection ended
};

}  // namespace muster
