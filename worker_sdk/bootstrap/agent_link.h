// The worker's end of its link to the agent (proto/base/worker_link.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "muster/status.h"
#include "proto/base/unique_fd.h"
#include "proto/base/worker_link.h"
#include "worker_sdk/bootstrap/environment.h"

namespace muster {

class AgentLink {
 public:
  // Knocks at the door and waits for the welcome, for at most `within`. Errors: Unavailable (no
  // agent there), FailedPrecondition (it refused: the text says why), DeadlineExceeded.
  static StatusOr<AgentLink> Open(const WorkerIdentity& me, std::chrono::milliseconds within);

  AgentLink(AgentLink&&) = default;
  AgentLink& operator=(AgentLink&&) = delete;
  ~AgentLink();  // says goodbye

  const UniqueFd& arena() const { return arena_; }
  ArenaGeometry geometry() const { return {welcome_.local_size, welcome_.slot_bytes}; }
  uint32_t cpus() const { return welcome_.cpus; }
  const std::vector<uint32_t>& ranks() const { return ranks_; }  // of this node, by local rank

 private:
  AgentLink() = default;
  Status TakeWelcome(const WorkerIdentity& me);

  UniqueFd socket_;
  UniqueFd arena_;
  LinkWelcome welcome_;
  std::vector<uint32_t> ranks_;
};

}  // namespace muster
