// Where workers that use the SDK meet their agent (proto/base/worker_link.h): takes their links,
// gives those of a communicator the arena they share, marks in it who is gone, brings workers
// together (with those of other nodes, and two of this one for a pipe), and keeps in mind whom they
// blame for calls that failed. Loop thread only; costs nothing until a worker comes.
#pragma once

#include <uv.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "agent/core/rank_map.h"
#include "agent/io/link_words.h"
#include "agent/io/peer_door.h"
#include "agent/io/worker_meeting.h"
#include "proto/base/ids.h"
#include "proto/base/limits.h"
#include "proto/base/messages.h"
#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"
#include "proto/wire/uv_handles.h"

namespace muster {

class WorkerDoor {
 public:
  // `door` may be invalid: then nobody comes. `ask`: where that node of the round is; Found()
  // answers. A test may bound groups closer.
  WorkerDoor(uv_loop_t* loop, UniqueFd door, uint32_t cpus, PeerOptions peers = {},
             std::function<void(NodeRank)> ask = {}, size_t groups_max = kGroupsOpenMax);

  // What workers that come from now on are told of their node.
  void SetCpus(uint32_t cpus) { cpus_ = cpus; }
  // Workers of this round are let in from now on, those of an earlier one no more. `listening`: as
  // PeerDoor::BeginRound.
  void BeginRound(const Assignment& assignment, UniqueFd listening = UniqueFd());
  // The round is over, and the next one keeps its living workers: same ranks, same places. They are
  // let in when they follow; in the places of those that have ended others come, unless
  // WorkerEnded() says again that one has. Without `listening` the port stays as it is.
  void KeepRound(const Assignment& assignment, UniqueFd listening = UniqueFd());
  // Whether a round may follow that keeps workers: those that ask for it wait, or are refused.
  // False at first; a round that begins or ends changes nothing.
  void LetFollow(bool may);
  // Its workers are gone.
  void EndRound();
  // This rank has ended well, and none takes its place: whoever would meet all, or waits for the
  // next round, is refused until that begins.
  void MeetNoMore(Rank ended_well);
  // This worker's process has ended: also where a child of it still holds its link. Whose end made
  // a call of its fail, the first such one.
  std::optional<Rank> WorkerEnded(LocalRank local);
  // A worker whose process has not ended has said that it has failed, and ends by itself.
  bool IsAnyFailing() const;
  void Found(const PeerNode& peer) { peers_.Found(peer); }
  // As PeerDoor has them.
  std::vector<Rank> Awaited(size_t max) { return peers_.Awaited(max); }
  void PeerGone(Rank rank) { peers_.Gone(rank); }
  // From now on for so long what the workers say to those of other nodes, and hear from them, comes
  // that much later.
  void HoldUp(absl::Duration delay, absl::Duration length);
  // That workers of this node have counted (Commit), in all rounds.
  StepCount Steps() const;

 private:
  using Sought = std::pair<uint32_t, LinkChannel>;  // a rank
  struct Result {
    LinkPeer words;
    UniqueFd socket;
  };
  struct Link {
    UniqueFd fd;
    std::optional<UvPoll> poll;
    std::set<Sought> sought;
    std::deque<Result> results;  // not sent yet: of open seeks, and of the last word
  };
  // Of a round before this one: nothing is asked on it any more.
  struct OldLink {
    uint32_t worker = 0;
    UniqueFd fd;
    std::optional<UvPoll> poll;
  };
  // The worker, and the communicator's number: below kGroupMin the n-th one of all ranks (each has
  // an arena of its own), else the group's.
  using LinkId = std::pair<uint32_t, uint64_t>;

  void OnDoor();
  bool TakeOne();
  void Admit(UniqueFd fd, const LinkHello& hello, const std::vector<uint32_t>& members);
  void Enter(UniqueFd fd, uint32_t worker, const LinkHello& hello,
             const std::vector<uint32_t>& members);
  absl::StatusOr<WorkerMeeting*> MeetingOf(uint32_t worker);
  absl::StatusOr<WorkerMeeting*> GroupOf(const LinkHello& hello,
                                         const std::vector<uint32_t>& members);
  absl::StatusOr<WorkerMeeting*> OpenMeeting(uint64_t number, const ArenaGeometry& geometry,
                                             const std::vector<uint32_t>& ranks,
                                             const std::vector<uint32_t>& map);
  void CloseMeeting(uint64_t number);
  void Gone(LinkId id, LineEnd how);
  // This worker says nothing more on that communicator.
  void End(LinkId id, LineEnd how);
  bool MaySeek(uint64_t communicator, Rank mine) const;
  uint32_t WorkerOf(uint32_t rank) const;  // ranks_.size(): not of this node
  void SetRound(const Assignment& assignment);
  void EndMeetings();

  // --- worker_door_keep.cc ---
  void TellOver();
  void Follow(UniqueFd fd, uint32_t worker);
  void RefuseToMeet(const UniqueFd& fd, uint32_t worker);
  void LetFollowersIn();
  void OnOldLink(std::list<OldLink>::iterator at);
  Came TakeOldWord(const OldLink& link);
  void LeaveOldLinks(uint32_t worker);

  // --- worker_door_seek.cc ---
  void OnLink(LinkId id);
  // Whether there may be another word.
  bool TakeWord(LinkId id);
  void TakeLastWords(LinkId id);
  // False: nobody can blame that rank.
  bool Blame(uint32_t worker, Rank rank);
  void Seek(LinkId id, const LinkWord& word);
  void SeekPipe(LinkId id, const Sought& sought);
  void Answer(LinkId id, const Sought& sought, absl::StatusOr<UniqueFd> result);
  // Whether the link still stands.
  bool SendResults(LinkId id);

  uv_loop_t* const loop_;  // of the agent; outlives this
  const UniqueFd door_;
  std::optional<UvPoll> poll_;
  uint32_t cpus_;
  uint64_t round_ = 0;
  NodeRank node_;
  RankMap map_;
  ArenaGeometry geometry_;         // of communicators of all ranks
  std::vector<uint32_t> rank_of_;  // by local rank
  // Workers are counted as here: their ranks, ascending. Among all ranks it is also their place.
  std::vector<uint32_t> ranks_;
  std::vector<uint32_t> opened_;             // communicators of all ranks so far, by worker
  std::vector<bool> ended_;                  // by worker
  std::vector<uint64_t> started_in_;         // the round of its process, by worker
  std::vector<bool> replaces_;               // one that has ended, by worker
  std::vector<std::optional<Rank>> blamed_;  // by worker
  std::vector<bool> failing_;                // by worker: it has said so of itself
  std::map<uint64_t, std::unique_ptr<WorkerMeeting>> meetings_;
  const size_t groups_max_;
  size_t groups_ = 0;  // of `meetings_`
  LinkHolding holding_;
  StepCount steps_;  // of those of all ranks that are closed
  // Groups that all have left, the oldest first; older ones than these are forgotten.
  std::deque<uint64_t> closed_in_order_;
  std::set<uint64_t> closed_;
  std::map<LinkId, Link> links_;
  std::optional<Rank> ended_well_;  // MeetNoMore()
  bool may_follow_ = false;
  std::map<uint32_t, UniqueFd> followers_;  // until the next round, by worker: the last to ask
  std::list<OldLink> old_links_;
  std::string over_;  // why the round before this one is
  PeerDoor peers_;
  UvTimer again_;  // results, where the kernel has too many descriptors under way
};

}  // namespace muster
