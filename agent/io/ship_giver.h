// Passes the shipped files on to other agents of the job, which prove its secret as workers' peers
// do (agent/core/peer_handshake.h), while this agent has nothing else to do. One thread; never
// waits.
#pragma once

#include <poll.h>

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "agent/core/peer_handshake.h"
#include "proto/base/ship_terms.h"
#include "proto/base/unique_fd.h"

namespace muster {

// Whom both sides mean: no workers, but these files. It is of no round.
PeerHello ShipHello(const ShipTerms& terms);
// Fresh ones, for one connection.
absl::StatusOr<PeerHandshake::Secrets> ShipSecrets(const std::string& secret,
                                                   const std::string& job_id);

class ShipGiver {
 public:
  static constexpr size_t kTakersMax = 64;  // launch sends it two; strangers go in silence
  static constexpr absl::Duration kStallMax = absl::Seconds(10);

  // `listening`: takes connections from now on; `archive`: whole, outlives this.
  ShipGiver(UniqueFd listening, int archive, ShipTerms terms, std::string secret,
            std::string job_id)
      : listening_(std::move(listening)),
        archive_(archive),
        terms_(std::move(terms)),
        secret_(std::move(secret)),
        job_id_(std::move(job_id)) {}

  // What to wait for, behind what is in `fds`.
  void Watch(std::vector<pollfd>& fds) const;
  // `fds`: as Watch added them, and poll(2) filled them in.
  void Go(const pollfd* fds);

 private:
  struct Taker {
    UniqueFd socket;
    PeerHandshake handshake;
    std::string out;
    uint64_t sent = 0;
    absl::Time moved;  // last time that bytes went
  };

  void Accept();
  // Whether it goes on.
  bool GoOn(Taker& taker, short events);
  bool Talk(Taker& taker);
  bool Flush(Taker& taker);
  bool SendBytes(Taker& taker);

  const UniqueFd listening_;
  const int archive_;
  const ShipTerms terms_;
  const std::string secret_;
  const std::string job_id_;
  std::list<Taker> takers_;
};

}  // namespace muster
