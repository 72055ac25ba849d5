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
#include "worker_sdk/bootstrap/link.h"

namespace muster {

// Of all ranks of the job, or of one of its groups.
struct LinkGroup {
  uint64_t number = 0;  // 0: of all ranks; then the rest is not looked at
  uint32_t place = 0;   // ours, in `ranks_here`
  uint32_t nodes = 0;
  uint32_t world_size = 0;
  std::vector<uint32_t> ranks_here;  // of this node, as the job counts them
};

class AgentLink : public Link {
 public:
  // Knocks at the door and waits for the welcome, for at most `within`. Errors: Unavailable (no
  // agent there), FailedPrecondition (it refused: the text says why), DeadlineExceeded.
  static StatusOr<std::unique_ptr<AgentLink>> Open(const WorkerIdentity& me,
                                                   std::chrono::milliseconds within,
                                                   const LinkGroup& group = {});
  // As a worker whose round is over: waits until there is a round after `me.round` that keeps it.
  // `give_up` is asked every 50 ms or so; with any other answer than OK the wait ends with it.
  // Unavailable: there is no agent, or no round will follow.
  static StatusOr<std::unique_ptr<AgentLink>> Follow(const WorkerIdentity& me,
                                                     const std::function<Status()>& give_up);

  ~AgentLink() override;  // says goodbye

  const UniqueFd& arena() const override { return arena_; }
  ArenaGeometry geometry() const override;
  uint32_t cpus() const override { return welcome_.cpus; }
  uint64_t number() const override { return welcome_.number; }
  uint64_t round() const { return welcome_.round; }
  // This process was started in the place of one that had ended, while others went on.
  bool replaces() const { return welcome_.replaces != 0; }
  // Of the whole round, from the arena's map of all its ranks. Internal: it makes no sense.
  StatusOr<Layout> ReadLayout() const;

  // Wait for no more than the agent's taking the word.
  Status Seek(uint32_t rank, LinkChannel channel) const override;
  void Blame(uint32_t rank) const override;
  std::optional<StatusOr<UniqueFd>> Take(uint32_t rank, LinkChannel channel) const override;
  Status Connect(const std::vector<uint32_t>& ranks,
                 const std::function<Status(uint32_t rank, StatusOr<UniqueFd> answer)>& take,
                 const std::function<Status(uint32_t rank)>& give_up) const override;

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
  mutable Answers answers_;
};

}  // namespace muster
