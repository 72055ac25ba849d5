#include "worker_sdk/bootstrap/link.h"

#include <cstddef>
#include <utility>

namespace muster {

Status Link::SeekAndTake(const std::vector<uint32_t>& ranks,
                         const std::function<Status(uint32_t, StatusOr<UniqueFd>)>& take,
                         const std::function<Status(uint32_t)>& give_up,
                         const std::function<bool()>& nap) const {
  for (const uint32_t rank : ranks) {
    if (Status status = Seek(rank, LinkChannel::kCollectives); !status.ok()) {
      return status;
    }
  }
  std::vector<uint32_t> missing = ranks;
  while (!missing.empty()) {
    bool came = false;
    for (size_t i = 0; i < missing.size();) {
      std::optional<StatusOr<UniqueFd>> answer = Take(missing[i], LinkChannel::kCollectives);
      if (!answer.has_value()) {
        ++i;
        continue;
      }
      if (Status status = take(missing[i], *std::move(answer)); !status.ok()) {
        return status;
      }
      missing.erase(missing.begin() + static_cast<ptrdiff_t>(i));
      came = true;
    }
    if (!came && !missing.empty() && !nap()) {
      if (Status status = give_up(missing.front()); !status.ok()) {
        return status;
      }
    }
  }
  return {};
}

}  // namespace muster
