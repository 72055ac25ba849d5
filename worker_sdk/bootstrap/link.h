// How a rank gets at what it shares with the others of its communicator: from its agent, or from
// the others themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "muster/status.h"
#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"

namespace muster {

// Any thread. Ranks are the job's.
class Link {
 public:
  Link() = default;
  virtual ~Link() = default;  // the communicator is closed
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  virtual const UniqueFd& arena() const = 0;
  virtual ArenaGeometry geometry() const = 0;
  virtual uint32_t cpus() const = 0;    // that the ranks of this node may use
  virtual uint64_t number() const = 0;  // of the communicator

  // A connection with this rank, please; Take() gives it. Does not wait for it.
  virtual Status Seek(uint32_t rank, LinkChannel channel) const = 0;
  // What has come of a Seek, once: a connection, or why there is none (Unavailable, with the rank
  // as peer if it is about that one). Nothing: not yet.
  virtual std::optional<StatusOr<UniqueFd>> Take(uint32_t rank, LinkChannel channel) const = 0;
  // Makes connections with these ranks of other nodes, and hands what came of each to `take` as it
  // comes: waits until every one of them has asked for one with us. `give_up` is asked every 10 ms
  // or so, with a rank that has not; with any other answer than OK, of either, the wait ends with
  // it.
  virtual Status Connect(
      const std::vector<uint32_t>& ranks,
      const std::function<Status(uint32_t rank, StatusOr<UniqueFd> answer)>& take,
      const std::function<Status(uint32_t rank)>& give_up) const = 0;
  // A call has failed because this rank has ended.
  virtual void Blame(uint32_t rank) const = 0;
  // Writes into the arena which ranks have ended, where nobody else does; done between looks.
  virtual void Watch() const {}

 protected:
  // Connect(), by Seek and Take. `nap`: until something may have come, for 10 ms at most; false:
  // nothing has.
  Status SeekAndTake(const std::vector<uint32_t>& ranks,
                     const std::function<Status(uint32_t rank, StatusOr<UniqueFd> answer)>& take,
                     const std::function<Status(uint32_t rank)>& give_up,
                     const std::function<bool()>& nap) const;
};

}  // namespace muster
