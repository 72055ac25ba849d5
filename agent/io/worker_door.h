// Where workers that use the SDK meet their agent (proto/base/worker_link.h): takes their links,
// gives those of a round the arena they share, marks in it who is gone, and brings them together
// with workers of other nodes. Loop thread only; costs nothing until a worker comes.
#pragma once

#include <uv.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "agent/core/rank_map.h"
#include "agent/io/peer_door.h"
#include "proto/base/ids.h"
#include "proto/base/messages.h"
#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class WorkerDoor {
 public:
  // `door` may be invalid: then nobody comes. `ask`: where that node of the round is; Found()
  // answers.
  WorkerDoor(uv_loop_t* loop, UniqueFd door, uint32_t cpus, PeerOptions peers = {},
             std::function<void(NodeRank)> ask = {});

  // Workers of this round are let in from now on, those of an earlier one no more. `listening`: as
  // PeerDoor::BeginRound.
  void BeginRound(const Assignment& assignment, UniqueFd listening = UniqueFd());
  // Its workers are gone.
  void EndRound();
  // This worker's process has ended: also where a child of it still holds its link.
  void WorkerEnded(LocalRank local);
  void Found(const PeerNode& peer) { peers_.Found(peer); }

 private:
  // The n-th communicator that each of the round's workers opens has an arena of its own.
  struct Meeting {
    UniqueFd memory;
    uint8_t* mapped = nullptr;  // header and lines
    uint64_t mapped_bytes = 0;
    uint32_t left = 0;  // links that stand, or have not come yet
    ~Meeting();
  };
  struct Result {
    LinkPeer words;
    UniqueFd socket;
  };
  struct Link {
    UniqueFd fd;
    std::optional<UvPoll> poll;
    std::set<uint32_t> sought;   // ranks
    std::deque<Result> results;  // not sent yet: of open seeks, and of the last word
  };
  using LinkId = std::pair<uint32_t, uint32_t>;  // place of the worker, number of the meeting

  void OnDoor();
  bool TakeOne();
  void Admit(UniqueFd fd, const LinkHello& hello);
  absl::StatusOr<Meeting*> MeetingOf(uint32_t number);
  absl::StatusOr<Meeting*> OpenMeeting(uint32_t number);
  void OnLink(LinkId id);
  // Whether there may be another word.
  bool TakeWord(LinkId id);
  void Seek(LinkId id, uint32_t rank);
  void Answer(LinkId id, uint32_t rank, absl::StatusOr<UniqueFd> result);
  // Whether the link still stands.
  bool SendResults(LinkId id);
  void Gone(LinkId id, LineEnd how);
  bool MaySeek(uint32_t communicator, Rank mine) const;
  static void Mark(const Meeting& meeting, uint32_t place, LineEnd how);
  uint32_t PlaceOf(uint32_t rank) const;  // ranks_.size(): not of this node

  uv_loop_t* const loop_;  // of the agent; outlives this
  const UniqueFd door_;
  std::optional<UvPoll> poll_;
  const uint32_t cpus_;
  uint64_t round_ = 0;
  NodeRank node_;
  RankMap map_;
  ArenaGeometry geometry_;
  std::vector<uint32_t> rank_of_;  // by local rank
  // A rank's place in the arena is its place here: ascending.
  std::vector<uint32_t> ranks_;
  std::vector<uint32_t> opened_;  // communicators so far, by place
  std::vector<bool> ended_;       // workers, by place
  std::map<uint32_t, Meeting> meetings_;
  std::map<LinkId, Link> links_;
  PeerDoor peers_;
  UvTimer again_;  // results, where the kernel has too many descriptors under way
};

}  // namespace muster
