// How an agent that a scheduler has started comes to its launch: it calls it over TCP. What started
// it hands it a ticket (srun: on stdin; pbsdsh: as arguments). The connection is TLS, by the key
// that follows from the secret. On it come lines, then what comes over ssh, too (bootstrap.h), but
// for the secret, which the ticket has:
//
//   launch -> agent   muster-launch NONCE
//   agent -> launch   muster-agent NODE NONCE PROOF    Handshake (secret.h) of both nonces,
//   "JOB/NODE" launch -> agent   muster-proof PROOF
//
// An agent that cannot connect says so on its stdout, which what started it brings to launch:
//
//   agent -> launch   muster-unreachable NODE WHY
//
// Nonces and proofs are hex digits; with --insecure a proof is "-", and there is no TLS. Pure;
// thread-safe.
//
// Invariants (cited by tests):
//  D1 neither side says or learns anything of the job before the other has proven the secret;
//  D2 a proof holds for one job, one node, the two nonces of one connection, and that connection.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kTicketBytesMax = 64u << 10;
inline constexpr size_t kDialLineBytesMax = 1024;

struct DialTicket {
  std::string job_id;
  std::string secret;                // "" = --insecure
  std::vector<std::string> targets;  // "HOST:PORT", the best first
};

// Lines, the last of which is "end".
std::string TicketText(const DialTicket& ticket);
// InvalidArgument: not such a text.
absl::StatusOr<DialTicket> ParseTicket(absl::string_view text);

// Where nothing can hand a ticket over unseen (pbsdsh's tasks have no stdin): words of the agent's
// command, which others may read: JOB KEY TARGET... KEY says where the secret is: "cookie:NONCE"
// (CookieSecret), "file:PATH", "-" for --insecure.
std::vector<std::string> TicketWords(const DialTicket& ticket, const std::string& key);
struct OpenTicket {
  DialTicket ticket;  // without its secret
  std::string key;
};
absl::StatusOr<OpenTicket> ParseTicketWords(const std::vector<std::string>& words);

inline constexpr absl::string_view kCookieKey = "cookie:";
inline constexpr absl::string_view kFileKey = "file:";
inline constexpr absl::string_view kNoKey = "-";
// The secret that follows from what the scheduler has given to all processes of its job, and to
// them alone. 64 hex digits; another one for each key.
std::string CookieSecret(absl::string_view cookie, absl::string_view key);

// launch's side.
std::string DialGreeting(absl::string_view nonce);
struct DialCaller {
  std::string node;
  std::string answer;  // the line for it
};
// `line`: what came after the greeting with `nonce`; `channel`: TlsSession's, "" = none.
// InvalidArgument: it does not speak this
// protocol; PermissionDenied: it does not know the secret, or is of another job.
absl::StatusOr<DialCaller> TakeCall(const DialTicket& ticket, absl::string_view nonce,
                                    absl::string_view line, absl::string_view channel);

// The agent's side.
struct DialCall {
  std::string line;   // to be sent
  std::string proof;  // wanted in return
};
// `greeting`: the line that came; `nonce`: ours; `channel`: as above.
absl::StatusOr<DialCall> CallLaunch(const DialTicket& ticket, absl::string_view node,
                                    absl::string_view nonce, absl::string_view greeting,
                                    absl::string_view channel);
absl::Status CheckAnswer(const DialCall& call, absl::string_view line);

struct Unreachable {
  std::string node;
  std::string why;
};
// A line of at most kDialLineBytesMax.
std::string UnreachableLine(const Unreachable& said);
// No value: it is another line.
std::optional<Unreachable> ParseUnreachable(absl::string_view line);

}  // namespace muster
