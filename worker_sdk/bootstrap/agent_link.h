// The worker's end of its link to the agent (proto/base/worker_link.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "muster/status.h"
#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"
#include "worker_sdk/algorithm/layout.h"
#include "worker_sdk/bootstrap/environment.h"

namespace muster {

// Of all ranks of the job, or of one of its groups.
struct LinkGroup {
  uint64_t number = 0;  // 0: of all ranks; then the rest is not looked at
  uint32_t place = 0;   // ours, in `ranks_here`
  uint32_t nodes = 0;
  uint32_t world_size = 0;
  std::vector<uint32_t> ranks_here;  // of this node, as the job counts them
};

class AgentLink {
 public:
  // Knocks at the door and waits for the welcome, for at most `within`. Errors: Unavailable (no
  // agent there), FailedPrecondition (it refused: the text says why), DeadlineExceeded.
  static StatusOr<AgentLink> Open(const WorkerIdentity& me, std::chrono::milliseconds within,
                                  const LinkGroup& group = {});
  // As a worker whose round is over: waits until there is a round after `me.round` that keeps it.
  // `give_up` is asked every 50 ms or so; with any other answer than OK the wait ends with it.
  // Unavailable: there is no agent, or no round will follow.
  static StatusOr<AgentLink> Follow(const WorkerIdentity& me,
                                    const std::function<Status()>& give_up);

  AgentLink(AgentLink&&) = default;
  AgentLink& operator=(AgentLink&&) = delete;
  ~AgentLink();  // says goodbye

  const UniqueFd& arena() const { return arena_; }
  ArenaGeometry geometry() const;
  uint32_t cpus() const { return welcome_.cpus; }
  uint64_t number() const { return welcome_.number; }  // of the communicator
  uint64_t round() const { return welcome_.round; }
  // This process was started in the place of one that had ended, while others went on.
  bool replaces() const { return welcome_.replaces != 0; }
  // Of the whole round, from the arena's map of all its ranks. Internal: it makes no sense.
  StatusOr<Layout> ReadLayout() const;

  // A connection with this rank (of the job), please; Take() gives it. Does not wait for more than
  // the agent's taking the word. Any thread, as all that follows.
  Status Seek(uint32_t rank, LinkChannel channel) const;
  // A call has failed because this rank (of the job) has ended. Does not wait for more than the
  // agent's taking the word.
  void Blame(uint32_t rank) const;
  // What has come of a Seek, once: a connection, or why there is none (Unavailable, with the rank
  // of the job as peer if it is about that one). Nothing: not yet.
  std::optional<StatusOr<UniqueFd>> Take(uint32_t rank, LinkChannel channel) const;
  // Makes connections with these ranks (of the job) of other nodes, and hands what came of each to
  // `take` as it comes: waits until every one of them has asked for one with us. `give_up` is asked
  // every 10 ms or so, with a rank that has not; with any other answer than OK, of either, the wait
  // ends with it.
  Status Connect(const std::vector<uint32_t>& ranks,
                 const std::function<Status(uint32_t rank, StatusOr<UniqueFd> answer)>& take,
                 const std::function<Status(uint32_t rank)>& give_up) const;

 private:
  // What the agent has answered, and nobody has taken yet.
  struct Answers {
    std::mutex mutex;
    std::map<std::pair<uint32_t, LinkChannel>, StatusOr<UniqueFd>> of;
    Status end;  // nothing more comes
  };

  AgentLink() = default;
  Status Knock(int door, LinkHello hello, std::vector<uint32_t> members,
               std::chrono::steady_clock::time_point until);
  Status TakeWelcome(const LinkHello& expected);
  Status Say(const LinkWord& word) const;
  void Hear() const;
  static Status Read(ssize_t got, const LinkPeer& peer);

  UniqueFd socket_;
  UniqueFd arena_;
  LinkWelcome welcome_;
  std::unique_ptr<Answers> answers_ = std::make_unique<Answers>();
};

}  // namespace muster
