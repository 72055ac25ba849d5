// Who waits at a door without having proved anything, by where they come from: one source cannot
// push out those of others. Decides only; any thread, one at a time.
//
// Invariants (cited by tests):
//  D1 at most as many wait as the door holds;
//  D2 who goes is the oldest of a source that has most, the newcomer counted; among such sources it
//     is the oldest. So a source that has less than its even share of the door loses none.
//     A step costs O(log N).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace muster {

class Crowd {
 public:
  explicit Crowd(size_t most) : most_(most) {}

  // `id` is larger than all before it; `source`: as an address. Who has to go instead, and is
  // no longer among them.
  std::optional<uint64_t> Enter(uint64_t id, const std::string& source);
  // It has proved itself, or is gone; unknown ones are ignored.
  void Leave(uint64_t id);
  size_t size() const { return source_of_.size(); }

 private:
  using Ids = std::set<uint64_t>;
  // How a source is found that has most: the last one, with the oldest where several have.
  static std::pair<size_t, uint64_t> Weight(const Ids& ids) {
    return {ids.size(), UINT64_MAX - *ids.begin()};
  }

  const size_t most_;
  std::map<uint64_t, std::string> source_of_;
  std::map<std::string, Ids> sources_;  // none is empty
  std::set<std::pair<size_t, uint64_t>> weights_;
};

}  // namespace muster
