// Where workers that use the SDK meet their agent (proto/base/worker_link.h): takes their links,
// gives those of a round the arena they share, and marks in it who is gone. Loop thread only; costs
// nothing until a worker comes.
#pragma once

#include <uv.h>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/ids.h"
#include "proto/base/messages.h"
#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class WorkerDoor {
 public:
  // `door` may be invalid: then nobody comes.
  WorkerDoor(uv_loop_t* loop, UniqueFd door, uint32_t cpus);

  // Workers of this round are let in from now on, those of an earlier one no more.
  void BeginRound(const Assignment& assignment);
  // This worker's process has ended: also where a child of it still holds its link.
  void WorkerEnded(LocalRank local);

 private:
  // The n-th communicator that each of the round's workers opens has an arena of its own.
  struct Meeting {
    UniqueFd memory;
    uint8_t* mapped = nullptr;  // header and lines
    uint64_t mapped_bytes = 0;
    uint32_t left = 0;  // links that stand, or have not come yet
    ~Meeting();
  };
  struct Link {
    UniqueFd fd;
    std::optional<UvPoll> poll;
    uint32_t place = 0;
    uint32_t meeting = 0;  // number of it
  };

  void OnDoor();
  bool TakeOne();
  void Admit(UniqueFd fd, const LinkHello& hello);
  absl::StatusOr<Meeting*> MeetingOf(uint32_t number);
  void OnLink(std::list<Link>::iterator link);
  void Gone(std::list<Link>::iterator link, LineEnd how);
  static void Mark(const Meeting& meeting, uint32_t place, LineEnd how);
  uint32_t PlaceOf(uint32_t rank) const;  // ranks_.size(): not of this node

  uv_loop_t* const loop_;  // of the agent; outlives this
  const UniqueFd door_;
  std::optional<UvPoll> poll_;
  const uint32_t cpus_;
  uint64_t round_ = 0;
  std::vector<uint32_t> rank_of_;  // by local rank
  // A rank's place in the arena is its place here: ascending.
  std::vector<uint32_t> ranks_;
  std::vector<uint32_t> opened_;  // communicators so far, by place
  std::vector<bool> ended_;       // workers, by place
  std::map<uint32_t, Meeting> meetings_;
  std::list<Link> links_;
};

}  // namespace muster
