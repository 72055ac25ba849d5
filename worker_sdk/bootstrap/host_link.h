// The link of processes of one host that met at a store: no agent looks after them. The lowest rank
// makes the memory, the others open it through /proc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/communicator.h"
#include "muster/status.h"
#include "worker_sdk/algorithm/roster.h"
#include "worker_sdk/bootstrap/link.h"

namespace muster {

class HostLink : public Link {
 public:
  // All ranks of `roster`, which are on one host, call it; `rank` is ours. FailedPrecondition: the
  // memory of rank 0 cannot be opened.
  static StatusOr<std::unique_ptr<Link>> Open(Store& store, const Roster& roster, uint32_t rank);
  ~HostLink() override;

  const UniqueFd& arena() const override { return arena_; }
  ArenaGeometry geometry() const override;
  uint32_t cpus() const override { return cpus_; }
  uint64_t number() const override { return number_; }
  // With ranks of this host: the memory of a pipe, which the lower rank makes, and which it gets
  // itself once the higher one has it.
  Status Seek(uint32_t rank, LinkChannel channel) const override;
  std::optional<StatusOr<UniqueFd>> Take(uint32_t rank, LinkChannel channel) const override;
  Status Connect(const std::vector<uint32_t>& ranks,
                 const std::function<Status(uint32_t rank, StatusOr<UniqueFd> answer)>& take,
                 const std::function<Status(uint32_t rank)>& give_up) const override;
  void Blame(uint32_t /*rank*/) const override {}
  void Watch() const override;

 private:
  struct Unmap {
    size_t bytes;
    void operator()(uint8_t* memory) const;
  };
  using Mapping = std::unique_ptr<uint8_t, Unmap>;

  HostLink(const Roster& roster, uint32_t rank);
  Status Share(Store& store);
  Status Map(const UniqueFd& memory, size_t bytes, Mapping& out) const;
  // Where the lower of two ranks says which of its descriptors is their pipe: 0, or one more.
  uint32_t& PipeOf(uint32_t lower, uint32_t higher) const;
  // Where the higher one says that it has opened it.
  uint32_t& OpenedOf(uint32_t lower, uint32_t higher) const;
  void SetEnd(uint32_t rank, LineEnd end) const;

  const uint32_t rank_;
  const uint64_t number_;
  uint32_t cpus_ = 0;
  std::vector<uint32_t> pids_;       // by rank
  std::vector<UniqueFd> processes_;  // by rank; none of ourselves
  UniqueFd arena_;
  UniqueFd table_;
  Mapping lines_{nullptr, {0}};         // of the arena
  Mapping pipes_{nullptr, {0}};         // PipeOf
  mutable std::vector<UniqueFd> made_;  // by rank: pipes with higher ones
};

}  // namespace muster
