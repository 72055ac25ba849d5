// When the store's thread wakes by time, and what it says about workers that have not connected.
#include <sys/epoll.h>

#include <algorithm>
#include <climits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/io/torch_store_loop.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

namespace muster {

int TorchStoreServer::Loop::TimeoutMs() const {
  const bool progress = options_.world_size > 0 && !progress_done_ && first_bytes_.has_value() &&
                        store_.awaits_hellos();
  if (accepting_ && !progress && held_.empty()) {
    return -1;
  }
  Clock::time_point at = held_.empty() ? Clock::time_point::max() : ask_again_;
  if (!accepting_) {
    at = std::min(at, accept_again_);
  }
  if (progress) {
    at = std::min(at, *first_bytes_ + std::chrono::duration_cast<Clock::duration>(progress_after_));
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(at - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
}

void TorchStoreServer::Loop::OnTime() {
  const Clock::time_point now = Clock::now();
  if (!held_.empty() && now >= ask_again_) {
    AskForHeld();
  }
  if (!accepting_ && now >= accept_again_) {
    epoll_event listener{.events = EPOLLIN, .data = {.u64 = kListenerId}};
    CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.get(), &listener) == 0);
    accepting_ = true;
  }
  if (options_.world_size == 0 || progress_done_ || !first_bytes_.has_value() ||
      !store_.awaits_hellos()) {
    return;
  }
  const auto since = now - *first_bytes_;
  if (store_.connected() >= options_.world_size) {
    progress_done_ = true;
    if (progress_said_) {
      Say(absl::StrCat("all ", options_.world_size, " workers have connected to the store after ",
                       ShortDuration(absl::FromChrono(since))));
    }
    return;
  }
  if (since >= progress_after_) {
    progress_said_ = true;
    progress_after_ *= 2;
    Say(ProgressLine(store_.progress(), absl::FromChrono(since)));
  }
}

// "28 of 32 workers have connected to the store (16 from 10.0.0.1, 12 from 10.0.0.2) after 60 s;
// missing: ranks 5, 17-19".
std::string TorchStoreServer::Loop::ProgressLine(const StoreProgress& progress,
                                                 absl::Duration since) const {
  constexpr size_t kShown = 16;
  // While workers are missing, those that count are all connected.
  std::map<std::string, uint32_t> hellos;
  for (const auto& [id, client] : clients_) {
    if (store_.said_hello(StoreClientId{id})) {
      ++hellos[client.peer];
    }
  }
  std::vector<std::string> peers;
  for (const auto& [peer, count] : hellos) {
    if (peers.size() == kShown) {
      peers.emplace_back("...");
      break;
    }
    peers.push_back(absl::StrCat(count, " from ", peer));
  }
  std::string line = absl::StrCat(progress.connected, " of ", progress.world_size,
                                  " workers have connected to the store");
  if (!peers.empty()) {
    absl::StrAppend(&line, " (", absl::StrJoin(peers, ", "), ")");
  }
  absl::StrAppend(&line, " after ", ShortDuration(since));
  if (progress.missing.has_value() && progress.connected > 0) {
    absl::StrAppend(&line, "; missing: ", progress.missing->size() == 1 ? "rank " : "ranks ",
                    RangeList(*progress.missing));
  }
  return line;
}

}  // namespace muster
