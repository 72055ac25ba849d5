// The agent's way to a launch that cannot hand it a channel (proto/wire/dial.h). Blocking; call
// before any other thread exists. Where there is a secret there is one thread after it, which rests
// when told to.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/base/unique_fd.h"
#include "proto/tls/tls_thread.h"
#include "proto/wire/dial.h"

namespace muster {

// Errors: DeadlineExceeded, Unavailable (its end came before the ticket's), InvalidArgument.
absl::StatusOr<DialTicket> ReadTicket(int fd, absl::Time deadline);

// Of the words that come in its place (TicketWords), with the secret from where they say. `cookie`:
// PBS_JOBCOOKIE, or null. Errors: InvalidArgument, FailedPrecondition (no secret is there).
absl::StatusOr<DialTicket> TicketOfWords(const std::vector<std::string>& words, const char* cookie);

// A connection on which both sides have proven the secret.
struct Dialed {
  std::unique_ptr<TlsThread> tls;  // that `socket` goes through, so it goes after it; null: none
  UniqueFd socket;
};

// The addresses are tried in turn, again
// and again; `on_unreachable` is called once, with what was wrong, when none has taken us twice.
// Errors: PermissionDenied, DeadlineExceeded with what was wrong last.
absl::StatusOr<Dialed> Dial(const DialTicket& ticket, const std::string& node, absl::Time deadline,
                            const std::function<void(const std::string& why)>& on_unreachable);

}  // namespace muster
