#include "launcher/schedule/copy_routes.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "proto/base/check.h"

namespace muster {
namespace {

constexpr size_t kGone = SIZE_MAX;

}  // namespace

void CopyRoutes::Wants(size_t node) {
  CHECK(nodes_.try_emplace(node).second);
  wanting_.insert(node);
}

void CopyRoutes::Has(size_t node) {
  Node& one = nodes_.at(node);
  CHECK(one.gets);
  passed_on_ += one.from.has_value() ? 1 : 0;
  End(one);
  holders_.insert(node);
  givers_.emplace(0, node);
}

void CopyRoutes::Missed(size_t node) {
  Node& one = nodes_.at(node);
  CHECK(one.gets);
  if (one.from.has_value()) {
    one.missed_at.insert(*one.from);
    ++missed_;
  }
  End(one);
  wanting_.insert(node);
}

void CopyRoutes::Gone(size_t node) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) {
    return;
  }
  if (found->second.gets) {
    End(found->second);
  }
  givers_.erase({found->second.gives, node});
  holders_.erase(node);
  wanting_.erase(node);
  nodes_.erase(found);
  for (auto& [index, other] : nodes_) {  // a new one of this number has not begun with them
    if (other.from == node) {
      other.from = kGone;
    }
  }
}

void CopyRoutes::Slow(size_t node) {
  const auto found = nodes_.find(node);
  if (found != nodes_.end() && found->second.gets && !found->second.from.has_value() &&
      !std::exchange(found->second.slow, true)) {
    --from_launch_;
  }
}

std::vector<CopyRoutes::Route> CopyRoutes::Begin() {
  std::vector<Route> out;
  for (auto next = wanting_.begin(); next != wanting_.end();) {
    if (givers_.empty() && from_launch_ >= bounds_.from_launch) {
      break;
    }
    Node& node = nodes_.at(*next);
    const std::optional<size_t> giver = GiverFor(node);
    const bool by_launch =
        !giver.has_value() && from_launch_ < bounds_.from_launch && !AnyHolderFor(node);
    if (!giver.has_value() && !by_launch) {
      ++next;
      continue;
    }
    if (giver.has_value()) {
      SetGives(*giver, nodes_.at(*giver).gives + 1);
    } else {
      ++from_launch_;
    }
    node.gets = true;
    node.from = giver;
    ++under_way_;
    out.push_back({*next, giver});
    next = wanting_.erase(next);
  }
  return out;
}

bool CopyRoutes::TriesNodes(const Node& node) const {
  const bool distrusted = missed_ >= bounds_.distrust_after && passed_on_ == 0;
  return !distrusted && node.missed_at.size() < bounds_.node_tries;
}

// Who gives to the fewest.
std::optional<size_t> CopyRoutes::GiverFor(const Node& node) const {
  if (!TriesNodes(node)) {
    return std::nullopt;
  }
  const auto giver = std::find_if(givers_.begin(), givers_.end(), [&node](const auto& one) {
    return node.missed_at.count(one.second) == 0;
  });
  return giver == givers_.end() ? std::nullopt : std::optional<size_t>(giver->second);
}

// Worth waiting for.
bool CopyRoutes::AnyHolderFor(const Node& node) const {
  return TriesNodes(node) && std::any_of(holders_.begin(), holders_.end(), [&node](size_t holder) {
           return node.missed_at.count(holder) == 0;
         });
}

void CopyRoutes::SetGives(size_t giver, uint32_t gives) {
  Node& node = nodes_.at(giver);
  givers_.erase({node.gives, giver});
  node.gives = gives;
  if (gives < bounds_.from_node) {
    givers_.emplace(gives, giver);
  }
}

void CopyRoutes::End(Node& node) {
  node.gets = false;
  --under_way_;
  if (!node.from.has_value()) {
    from_launch_ -= std::exchange(node.slow, false) ? 0 : 1;
  } else if (const auto giver = nodes_.find(*node.from); giver != nodes_.end()) {
    SetGives(*node.from, giver->second.gives - 1);
  }
  node.from.reset();
}

}  // namespace muster
