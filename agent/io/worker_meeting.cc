#include "agent/io/worker_meeting.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "agent/io/link_words.h"
#include "proto/base/arena_memory.h"
#include "proto/base/check.h"
#include "proto/base/why_no_memory.h"

namespace muster {
namespace {

ArenaLine& LineOf(uint8_t* arena, uint32_t place) {
  return *reinterpret_cast<ArenaLine*>(arena + ArenaGeometry().LinesAt() +
                                       place * ArenaGeometry::kLineBytes);
}

// Written by the worker alone, which may write nonsense.
StepCount StepsOf(uint8_t* arena, uint32_t place) {
  auto& bell = *reinterpret_cast<ArenaBell*>(&LineOf(arena, place) + 1);
  const uint64_t commits = std::atomic_ref(bell.commits).load(std::memory_order_acquire);
  const uint64_t first = std::atomic_ref(bell.commit_first).load(std::memory_order_relaxed);
  const uint64_t last = std::atomic_ref(bell.commit_last).load(std::memory_order_relaxed);
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (commits < 2 || last <= first || last - first > kMax) {
    return {};
  }
  return {commits - 1, absl::Nanoseconds(static_cast<int64_t>(last - first))};
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerMeeting>> WorkerMeeting::Open(
    const ArenaGeometry& geometry, std::vector<uint32_t> ranks, const std::vector<uint32_t>& map) {
  UniqueFd memory = MakeArenaMemory(geometry);
  if (!memory.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no shared memory for the workers: ", WhyNoMemory(errno, geometry.Bytes())));
  }
  const auto bytes = static_cast<ssize_t>(map.size() * sizeof(uint32_t));
  if (pwrite(memory.get(), map.data(), static_cast<size_t>(bytes),
             static_cast<off_t>(geometry.MapAt())) != bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the workers' map: ", WhyNoMemory(errno, geometry.Bytes())));
  }
  void* mapped =
      mmap(nullptr, geometry.MapAt(), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot map the workers' shared memory: ",
                                                     WhyNoMemory(errno, geometry.MapAt())));
  }
  return std::unique_ptr<WorkerMeeting>(new WorkerMeeting(
      geometry, std::move(ranks), std::move(memory), static_cast<uint8_t*>(mapped)));
}

WorkerMeeting::WorkerMeeting(const ArenaGeometry& geometry, std::vector<uint32_t> ranks,
                             UniqueFd memory, uint8_t* mapped)
    : geometry_(geometry),
      ranks_(std::move(ranks)),
      memory_(std::move(memory)),
      mapped_(mapped),
      seats_(ranks_.size()) {}

WorkerMeeting::~WorkerMeeting() { munmap(mapped_, geometry_.MapAt()); }

std::optional<uint32_t> WorkerMeeting::PlaceOf(uint32_t rank) const {
  const auto at = std::find(ranks_.begin(), ranks_.end(), rank);
  return at == ranks_.end() ? std::nullopt
                            : std::optional(static_cast<uint32_t>(at - ranks_.begin()));
}

// Whoever waits for that rank looks now and then.
void WorkerMeeting::End(uint32_t place, LineEnd how) {
  CHECK(!IsOver(place));
  seats_[place].end = how;
  ++ended_;
  std::atomic_ref<uint32_t>(LineOf(mapped_, place).gone)
      .store(static_cast<uint32_t>(how), std::memory_order_release);
}

void WorkerMeeting::TellOver(absl::string_view why, std::optional<uint32_t> rank) {
  auto& header = *reinterpret_cast<ArenaHeader*>(mapped_);
  const std::optional<uint32_t> place = rank.has_value() ? PlaceOf(*rank) : std::nullopt;
  WriteText(why, header.over_why);
  header.over_place = place.has_value() ? static_cast<int32_t>(*place) : -1;
  std::atomic_ref<uint32_t>(header.over).store(1, std::memory_order_release);
}

void WorkerMeeting::HoldUp(const LinkHolding& holding) {
  auto& header = *reinterpret_cast<ArenaHeader*>(mapped_);
  std::atomic_ref<uint64_t>(header.held_for).store(holding.delay, std::memory_order_relaxed);
  std::atomic_ref<uint64_t>(header.held_until).store(holding.until, std::memory_order_release);
}

StepCount WorkerMeeting::Steps() const {
  StepCount most;
  for (uint32_t place = 0; place < seats_.size(); ++place) {
    const StepCount steps = StepsOf(mapped_, place);
    most = steps.steps > most.steps ? steps : most;
  }
  return most;
}

bool WorkerMeeting::MeetsInPipe(uint32_t place, uint32_t other) {
  if (waiting_.erase({place, other}) != 0) {
    return true;
  }
  waiting_.insert({other, place});
  return false;
}

std::vector<uint32_t> WorkerMeeting::TakeWaitingFor(uint32_t place) {
  std::vector<uint32_t> out;
  const auto first = waiting_.lower_bound({place, 0});
  auto behind = first;
  for (; behind != waiting_.end() && behind->first == place; ++behind) {
    out.push_back(behind->second);
  }
  waiting_.erase(first, behind);
  return out;
}

}  // namespace muster
