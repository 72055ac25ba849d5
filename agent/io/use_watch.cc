#include "agent/io/use_watch.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/core/cpu_count.h"
#include "agent/io/process_tree.h"
#include "agent/io/small_file.h"
#include "agent/io/wait_place.h"
#include "proto/base/clock.h"
#include "proto/base/limits.h"

namespace muster {
namespace {

// After half a second, and then ever later: what a long job does at its beginning matters little.
constexpr absl::Duration kFirstLook = absl::Milliseconds(500);
constexpr absl::Duration kWaitMax = absl::Seconds(10);
// What is looked at takes its time on a core that workers may want: a thousandth of one at most.
constexpr int kCostMax = 1000;
constexpr size_t kThreadsMax = 4096;  // at one look
// A job that is over sooner, and workers that end together, are not held up by looks.
constexpr absl::Duration kLookAtEndAfter = absl::Milliseconds(250);

constexpr size_t kCgroupBytesMax = 64u << 10;
constexpr size_t kPressureBytesMax = 4096;

}  // namespace

std::string PressureFile(const std::string& root) {
  const std::vector<CgroupLine> groups =
      ParseCgroupFile(ReadHead(absl::StrCat(root, "/proc/self/cgroup"), kCgroupBytesMax));
  const CgroupLine* unified = FindCgroup(groups, "");
  const std::string own =
      unified == nullptr ? ""
                         : absl::StrCat(root, "/sys/fs/cgroup", unified->path, "/cpu.pressure");
  return !own.empty() && OpenRegular(own).valid() ? own : absl::StrCat(root, "/proc/pressure/cpu");
}

UseWatch::UseWatch(uv_loop_t* loop, uint32_t cpus, Sources sources,
                   std::function<void(const NodeUse&)> on_look)
    : sources_(std::move(sources)),
      on_look_(std::move(on_look)),
      pressure_file_(PressureFile()),
      timer_(loop, [this] { LookAgain(); }) {
  use_.cpus = cpus;
}

void UseWatch::Begin(uint32_t workers) {
  looked_ = BootNow();
  if (begun_ == absl::InfiniteFuture()) {
    begun_ = looked_;
    pressed_before_ = Pressure();
  }
  use_.workers = workers;
  living_.clear();
  idle_.Begin(looked_);
  wait_ = kFirstLook;
  timer_.StartAfter(wait_);
}

void UseWatch::WorkerStarted(LocalRank local, pid_t pid) {
  living_[local.value] = pid;
  tally_.Await(pid);
}

void UseWatch::WorkerEnded(pid_t pid, const EndTimes& times) {
  tally_.TakeLast(pid, {absl::Nanoseconds(times.ran), absl::Nanoseconds(times.waited)});
  use_.cpu_time += absl::Nanoseconds(times.cpu);
  for (auto it = living_.begin(); it != living_.end();) {
    it = it->second == pid ? living_.erase(it) : std::next(it);
  }
  const bool due = !living_.empty() && BootNow() - looked_ >= kLookAtEndAfter;
  if (due) {
    Look();
  }
  if (due || living_.empty()) {
    Tell();
  }
}

void UseWatch::LookBeforeEnd() {
  Look();
  Tell();
}

absl::Duration UseWatch::Pressure() const {
  return ParsePressure(ReadHead(pressure_file_, kPressureBytesMax));
}

void UseWatch::LookAgain() {
  const absl::Time before = BootNow();
  Look();
  Tell();
  wait_ = std::max(std::min(2 * wait_, kWaitMax), kCostMax * (looked_ - before));
  timer_.StartAfter(wait_);
}

void UseWatch::Look() {
  std::map<int32_t, ThreadTimes> living;
  bool whole = true;
  for (const pid_t pid : ProcessesBelow(sources_.shepherd())) {
    whole = whole && ReadThreadTimes(pid, kThreadsMax, living);
  }
  tally_.Take(std::move(living), whole);
  looked_ = BootNow();
}

void UseWatch::Tell() {
  const StepCount steps = sources_.steps();
  use_.lasted = BootNow() - begun_;
  use_.ran = tally_.sum().ran;
  use_.waited = tally_.sum().waited;
  use_.pressed = Pressure() - pressed_before_;
  use_.idle = idle_.Look(
      {use_.ran, sources_.written(), steps.steps, static_cast<uint32_t>(living_.size())}, looked_);
  use_.waits.clear();
  if (use_.idle > absl::ZeroDuration()) {
    SeeWaits();
  }
  use_.steps = steps.steps;
  use_.steps_took = steps.took;
  on_look_(use_);
}

void UseWatch::SeeWaits() {
  WaitSight sight;
  for (const auto& [local, pid] : living_) {
    const std::string what = sight.Of(pid);
    const auto known = std::find_if(use_.waits.begin(), use_.waits.end(),
                                    [&](const WaitPlace& place) { return place.what == what; });
    if (known != use_.waits.end()) {
      known->locals.push_back(local);
    } else if (!what.empty() && use_.waits.size() < kWaitPlacesMax) {
      use_.waits.push_back({what, pid, {local}});
    }
  }
}

}  // namespace muster
