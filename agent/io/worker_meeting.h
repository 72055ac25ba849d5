// The ranks of a node that share one communicator: its arena (proto/base/worker_link.h), and who of
// them has come and gone. Loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"

namespace muster {

// Steps of a program, and the time that they took.
struct StepCount {
  uint64_t steps = 0;
  absl::Duration took;
};

// What `launch chaos cut` and `slow` ask of the workers' connections (ArenaHeader says what).
struct LinkHolding {
  uint64_t until = 0;
  uint64_t delay = 0;
};

class WorkerMeeting {
 public:
  // `ranks`: by place; `map`: what the arena's map says, if anything. ResourceExhausted: no memory.
  static absl::StatusOr<std::unique_ptr<WorkerMeeting>> Open(const ArenaGeometry& geometry,
                                                             std::vector<uint32_t> ranks,
                                                             const std::vector<uint32_t>& map);
  ~WorkerMeeting();
  WorkerMeeting(const WorkerMeeting&) = delete;
  WorkerMeeting& operator=(const WorkerMeeting&) = delete;

  const ArenaGeometry& geometry() const { return geometry_; }
  const std::vector<uint32_t>& ranks() const { return ranks_; }
  const UniqueFd& memory() const { return memory_; }
  // nullopt: it is not of this communicator.
  std::optional<uint32_t> PlaceOf(uint32_t rank) const;

  void Come(uint32_t place) { seats_[place].come = true; }
  // Also of one that will not come any more. The others see it in the arena.
  void End(uint32_t place, LineEnd how);
  // The round is over: whoever still waits in the arena is told so. `rank`: whose end is why, if it
  // is one of this node's.
  void TellOver(absl::string_view why, std::optional<uint32_t> rank);
  // What its ranks say to those of other nodes, and hear from them.
  void HoldUp(const LinkHolding& holding);
  bool MayCome(uint32_t place) const { return !seats_[place].come && !IsOver(place); }
  LineEnd EndOf(uint32_t place) const { return seats_[place].end; }
  bool IsOver() const { return ended_ == seats_.size(); }

  // From a rank's first Commit() to its last: of the rank that has done most.
  StepCount Steps() const;

  // `place` seeks a pipe with `other`. Whether that one has sought it before: then the two have
  // met, otherwise it is kept in mind.
  bool MeetsInPipe(uint32_t place, uint32_t other);
  // Who still waits for a pipe with `place`, which has ended.
  std::vector<uint32_t> TakeWaitingFor(uint32_t place);

 private:
  struct Seat {
    bool come = false;
    LineEnd end = LineEnd::kNone;
  };
  WorkerMeeting(const ArenaGeometry& geometry, std::vector<uint32_t> ranks, UniqueFd memory,
                uint8_t* mapped);
  bool IsOver(uint32_t place) const { return seats_[place].end != LineEnd::kNone; }

  const ArenaGeometry geometry_;
  const std::vector<uint32_t> ranks_;  // by place
  const UniqueFd memory_;
  uint8_t* const mapped_;  // header and lines; ours until the destructor unmaps them
  std::vector<Seat> seats_;
  uint32_t ended_ = 0;
  std::set<std::pair<uint32_t, uint32_t>> waiting_;  // (sought, seeker); at most one for each pair
};

}  // namespace muster
