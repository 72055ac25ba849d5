// Where the ranks of a communicator are: on which node, and at which place among those of it. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace muster {

class Layout {
 public:
  struct Seat {
    uint32_t node = 0;
    uint32_t place = 0;
  };

  // `sizes`: ranks of each node, at least one; `ranks`: those of node 0 in order of their places,
  // of node 1, ...: every rank of the world once. `in_job`: of a group, its ranks' numbers in the
  // job, by rank.
  Layout(const std::vector<uint32_t>& sizes, std::vector<uint32_t> ranks,
         std::vector<uint32_t> in_job = {})
      : first_(1, 0), ranks_(std::move(ranks)), seats_(ranks_.size()), in_job_(std::move(in_job)) {
    for (const uint32_t size : sizes) {
      for (uint32_t place = 0; place < size; ++place) {
        seats_[ranks_[first_.back() + place]] = {nodes(), place};
      }
      first_.push_back(first_.back() + size);
    }
  }
  // `size` ranks on one node.
  static Layout OneNode(uint32_t size) {
    std::vector<uint32_t> ranks(size);
    for (uint32_t i = 0; i < size; ++i) {
      ranks[i] = i;
    }
    return {{size}, std::move(ranks)};
  }
  // Whether the two lists fit each other: what came from outside is held against it first.
  static bool IsWhole(const std::vector<uint32_t>& sizes, const std::vector<uint32_t>& ranks) {
    uint64_t world = 0;
    for (const uint32_t size : sizes) {
      world += size;
    }
    std::vector<bool> seen(ranks.size());
    for (const uint32_t rank : ranks) {
      if (rank >= ranks.size() || seen[rank]) {
        return false;
      }
      seen[rank] = true;
    }
    return !sizes.empty() && world == ranks.size() &&
           std::find(sizes.begin(), sizes.end(), 0) == sizes.end();
  }

  uint32_t nodes() const { return static_cast<uint32_t>(first_.size() - 1); }
  uint32_t world() const { return static_cast<uint32_t>(ranks_.size()); }
  uint32_t SizeOf(uint32_t node) const { return first_[node + 1] - first_[node]; }
  // Ranks are also counted node by node: the first of `node`, and who is at such a position.
  uint32_t First(uint32_t node) const { return first_[node]; }
  uint32_t RankAt(uint32_t position) const { return ranks_[position]; }
  uint32_t RankOf(uint32_t node, uint32_t place) const { return ranks_[first_[node] + place]; }
  Seat SeatOf(uint32_t rank) const { return seats_[rank]; }
  std::vector<uint32_t> RanksOf(uint32_t node) const {
    return {ranks_.begin() + first_[node], ranks_.begin() + first_[node + 1]};
  }
  uint32_t InJob(uint32_t rank) const { return in_job_.empty() ? rank : in_job_[rank]; }
  // For people: "rank 1", or "rank 1 (5 of the job)".
  std::string NameOf(uint32_t rank) const {
    std::string out = "rank " + std::to_string(rank);
    return InJob(rank) == rank ? out : out + " (" + std::to_string(InJob(rank)) + " of the job)";
  }
  uint32_t SmallestNode() const {
    uint32_t out = world();
    for (uint32_t node = 0; node < nodes(); ++node) {
      out = std::min(out, SizeOf(node));
    }
    return out;
  }

 private:
  std::vector<uint32_t> first_;  // by node, and the world's size
  std::vector<uint32_t> ranks_;
  std::vector<Seat> seats_;       // by rank
  std::vector<uint32_t> in_job_;  // by rank; empty: the same
};

}  // namespace muster
