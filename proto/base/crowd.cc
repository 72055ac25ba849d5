#include "proto/base/crowd.h"

namespace muster {

std::optional<uint64_t> Crowd::Enter(uint64_t id, const std::string& source) {
  Ids& ids = sources_[source];
  if (!ids.empty()) {
    weights_.erase(Weight(ids));
  }
  ids.insert(id);
  weights_.insert(Weight(ids));
  source_of_[id] = source;
  if (size() <= most_) {
    return std::nullopt;
  }
  const uint64_t oldest = UINT64_MAX - weights_.rbegin()->second;
  Leave(oldest);
  return oldest;
}

void Crowd::Leave(uint64_t id) {
  const auto at = source_of_.find(id);
  if (at == source_of_.end()) {
    return;
  }
  const auto source = sources_.find(at->second);
  weights_.erase(Weight(source->second));
  source->second.erase(id);
  if (source->second.empty()) {
    sources_.erase(source);
  } else {
    weights_.insert(Weight(source->second));
  }
  source_of_.erase(at);
}

}  // namespace muster
