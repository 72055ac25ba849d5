// The agent's connection to its master over gRPC: control (MasterLink) and output (OutputLink) on
// one connection.
//
// Thread rule: every method and every callback on the thread of the loop given; gRPC's own threads
// only post into a bounded mailbox. No gRPC is set up before Start.
//
// Invariants:
//  C1 on_up comes only after both sides proved the secret and the same build; with a nonce it comes
//     at once, for the secret and the nonce came from the master through this very socket: a master
//     that cannot prove the secret is refused all the same;
//
//  C2 targets are tried in turn and again for ever, with back-off and jitter, each try with its own
//     deadline; a descriptor never. Of several, one that was the master and is silent for
//     silence_max is left for the next; and so is a single one with a journal, after half its lease
//     if that is more: another machine may have its name by then;
//
//  C3 after a refusal of the handshake, by either side, nothing more is tried; but of several
//     targets, one without the key that is expected is passed over until none is left that has it;
//
//  C4 messages not yet sent are at most one Join, one Beat and one Leave: a newer one replaces
//  them;
//
//  C5 who has neither the secret's key nor that of a daemon as SiteKeys expects it hears nothing of
//     the job.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "agent/io/links.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/job_terms.h"

namespace muster {

class TlsThread;

// Tells one agent process from every other: Join::life.
uint64_t NewLife();

// What is known of daemons that have keys of their own (TlsIdentity::OfSite), and what becomes of
// them. Each is called on the loop's thread and must not block. `target`: one of the options'.
struct SiteKeys {
  // The fingerprint that a daemon there has to have; "" = any, if it proves the secret; no value =
  // none is believed. Empty: none is believed anywhere.
  std::function<std::optional<std::string>(const std::string& target)> expected;
  // One of which `expected` said "" has proved the secret.
  std::function<void(const std::string& target, const std::string& fingerprint)> on_first_proof;
  // Why one of another fingerprint than expected is refused, and what to do: a sentence.
  std::function<std::string(const std::string& target, const std::string& fingerprint)> why_refused;
};

struct MasterClientOptions {
  // One of the two:
  std::vector<std::string> targets;  // "HOST:PORT", "[ADDR]:PORT"; the first is tried first
  UniqueFd socket;  // a connected stream socket: the only connection there will ever be

  // What speaks TLS over TCP, the caller's, for several clients; null = one of its own.
  TlsThread* tls = nullptr;

  bool is_tcp = false;  // `socket`: TLS is spoken on it, if there is a secret

  SiteKeys sites;  // a master that has the secret's own key needs none of it

  std::string nonce;   // `socket`: of the master, for one Hello; "" = its Challenge is awaited
  std::string secret;  // "" = --insecure
  std::string job_id;
  std::string hostname;  // for the master's refusals
  uint64_t life = 0;     // of the agent's Join: a refused handshake comes as Refused{life, reason}
  JobTerms terms;
  absl::Duration connect_timeout = absl::Seconds(5);  // until the handshake is through
  // The first: where all nodes are started at once, the master is nearly there.
  absl::Duration retry_min = absl::Milliseconds(20);
  absl::Duration retry_max = absl::Seconds(2);
  // Every beat is answered at once. Much less than the lease that masters with a store give, so
  // that the one that takes over is found while workers still run.
  absl::Duration silence_max = absl::Seconds(5);
};

class MasterClient {
 public:
  // `loop` outlives the client.
  MasterClient(uv_loop_t* loop, MasterClientOptions options);
  // After link().Stop's `done`, or when link() was never started.
  ~MasterClient();
  MasterClient(const MasterClient&) = delete;
  MasterClient& operator=(const MasterClient&) = delete;

  // The master that was reached last serves many jobs.
  bool at_daemon() const;
  MasterLink& link();  // both live as long as the client
  OutputLink&
  output();  // opens its stream when the master has admitted the agent, and again after a break

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
