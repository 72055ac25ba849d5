// The link of processes that met at a store: no agent looks after them. On each host the lowest
// rank makes the memory, the others open it through /proc; with ranks of other hosts they make
// connections themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/communicator.h"
#include "muster/status.h"
#include "worker_sdk/algorithm/layout.h"
#include "worker_sdk/algorithm/roster.h"
#include "worker_sdk/bootstrap/link.h"
#include "worker_sdk/bootstrap/rank_door.h"

namespace muster {

class StoreLink : public Link {
 public:
  // All ranks of `roster` call it, with the layout that follows from it; `rank` is ours. `door`:
  // whose words our card has; unused on one host. FailedPrecondition: the memory of a rank of this
  // host cannot be opened.
  static StatusOr<std::unique_ptr<Link>> Open(Store& store, const Roster& roster,
                                              const Layout& layout, uint32_t rank,
                                              std::unique_ptr<RankDoor> door);
  ~StoreLink() override;

  const UniqueFd& arena() const override { return arena_; }
  ArenaGeometry geometry() const override { return geometry_; }
  uint32_t cpus() const override { return cpus_; }
  uint64_t number() const override { return number_; }
  // With ranks of this host: the memory of a pipe, which the lower rank makes, and which it gets
  // itself once the higher one has it. With others as RankDoor.
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

  StoreLink(const Roster& roster, const Layout& layout, uint32_t rank);
  std::optional<uint32_t> PlaceOf(uint32_t rank) const;  // nullopt: on another host
  Status Share(Store& store);
  LineEnd EndOf(uint32_t place) const;
  std::optional<StatusOr<UniqueFd>> TakePipe(uint32_t rank, uint32_t place) const;
  Status Map(const UniqueFd& memory, size_t bytes, Mapping& out) const;
  // Of two places. Where the lower one says which of its descriptors is their pipe: 0, or one more.
  uint32_t& PipeOf(uint32_t lower, uint32_t higher) const;
  // Where the higher one says that it has opened it.
  uint32_t& OpenedOf(uint32_t lower, uint32_t higher) const;
  void SetEnd(uint32_t place, LineEnd end) const;

  const ArenaGeometry geometry_;
  const std::vector<uint32_t> ranks_;  // of this host, by place
  const uint32_t place_;
  const uint64_t number_;
  const uint32_t cpus_;
  std::vector<uint32_t> pids_;       // by place
  std::vector<UniqueFd> processes_;  // by place; none of ourselves
  UniqueFd arena_;
  UniqueFd table_;
  Mapping lines_{nullptr, {0}};         // of the arena
  Mapping pipes_{nullptr, {0}};         // PipeOf
  mutable std::vector<UniqueFd> made_;  // by place: pipes with higher ones
  std::unique_ptr<RankDoor> door_;      // null: there is one host
};

}  // namespace muster
