// Which node gets what launch sends to many (the agent's program; the files of --ship) from whom:
// from launch, or from a node that has it. Launch sends few copies, however many nodes there are;
// each node that has one passes it on. Pure.
//
// Invariants (cited by tests):
//  R1 at most `from_launch` transfers from launch are under way that are not slow, and `from_node`
//     from each node;
//  R2 nobody is sent to a node that does not have a copy, nor again to one where it was missed;
//     after `node_tries` misses a node gets it from launch;
//  R3 whatever fails, as long as nodes want it and launch is there, some transfer is under way or
//     begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace muster {

struct CopyRouteBounds {
  uint32_t from_launch = 2;  // the uplink of a laptop is not to be shared by many
  uint32_t from_node = 2;
  uint32_t node_tries = 2;
  // So many misses, and not one success, between nodes: they cannot reach each other.
  uint32_t distrust_after = 4;
};

class CopyRoutes {
 public:
  struct Route {
    size_t to = 0;
    std::optional<size_t> from;  // a node; none = launch
    bool operator==(const Route&) const = default;
  };

  explicit CopyRoutes(CopyRouteBounds bounds = {}) : bounds_(bounds) {}

  void Wants(size_t node);   // a new one
  void Has(size_t node);     // its transfer is over
  void Missed(size_t node);  // likewise, in vain; it wants it still
  void Gone(size_t node);    // whatever it was doing; it may come back as a new one
  void Slow(size_t node);    // its transfer, if it is from launch: others need not wait for it
  // A transfer to it is under way.
  bool Gets(size_t node) const { return nodes_.at(node).gets; }
  // Transfers to begin now; they are under way from here on.
  std::vector<Route> Begin();
  // Nobody wants or gets a copy.
  bool Settled() const { return wanting_.empty() && under_way_ == 0; }

 private:
  struct Node {
    bool gets = false;
    std::optional<size_t> from;  // while it gets a copy; SIZE_MAX: one that is gone
    bool slow = false;           // what it gets from launch
    std::set<size_t> missed_at;
    uint32_t gives = 0;
  };

  bool TriesNodes(const Node& node) const;
  std::optional<size_t> GiverFor(const Node& node) const;
  bool AnyHolderFor(const Node& node) const;
  void SetGives(size_t giver, uint32_t gives);
  void End(Node& node);

  const CopyRouteBounds bounds_;
  std::map<size_t, Node> nodes_;
  std::set<size_t> wanting_;
  std::set<size_t> holders_;                      // nodes that have a copy
  std::set<std::pair<uint32_t, size_t>> givers_;  // of these, who may give to one more, by `gives`
  uint32_t from_launch_ = 0;
  size_t under_way_ = 0;
  uint32_t passed_on_ = 0;
  uint32_t missed_ = 0;
};

}  // namespace muster
