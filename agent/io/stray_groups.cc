#include "agent/io/stray_groups.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/io/process_tree.h"

namespace muster {
namespace {

// Above it, without a table of descriptors that is large for all children's sake.
constexpr rlim_t kHighest = 1023;

int Highest() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min(limit.rlim_cur - 1, kHighest));
}

// An end of its own, above `low`.
UniqueFd EndFor(pid_t group, const UniqueFd& reads, const UniqueFd& low) {
  UniqueFd end(
      open(absl::StrCat("/proc/self/fd/", reads.get()).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (end.valid() && end.get() < low.get()) {
    end.Reset(fcntl(end.get(), F_DUPFD_CLOEXEC, low.get() + 1));
  }
  if (!end.valid() || fcntl(end.get(), F_SETOWN, -group) != 0 ||
      fcntl(end.get(), F_SETSIG, SIGKILL) != 0 ||
      fcntl(end.get(), F_SETFL, O_NONBLOCK | O_ASYNC) != 0) {
    end.Reset();  // its group has ended, or no descriptor is left
  }
  return end;
}

}  // namespace

void StrayGroups::Begin(absl::Time now) {
  pause_ = kLookFirst;
  next_ = now + pause_;
}

void StrayGroups::End() {
  next_ = absl::InfiniteFuture();
  lives_.clear();
}

void StrayGroups::Look(absl::Time now, const std::map<pid_t, int32_t>& workers) {
  if (now < next_) {
    return;
  }
  std::set<pid_t> groups;
  for (const pid_t pid : Descendants({})) {
    const pid_t group = getpgid(pid);
    if (group > 1 && group != getpgrp() && workers.count(group) == 0) {
      groups.insert(group);
    }
  }
  Keep(groups);
  pause_ = std::min(pause_ * 2, kLookMax);
  next_ = now + pause_;
}

void StrayGroups::Keep(const std::set<pid_t>& groups) {
  for (auto at = lives_.begin(); at != lives_.end();) {
    at = groups.count(at->first) == 0 ? lives_.erase(at) : std::next(at);
  }
  for (const pid_t group : groups) {
    if (lives_.size() == kGroupsMax || (!low_.writes.valid() && !Open())) {
      return;
    }
    if (lives_.count(group) == 0) {
      Life life{EndFor(group, low_.reads, low_.writes), EndFor(group, high_.reads, low_.writes)};
      if (life.low.valid() && life.high.valid()) {
        lives_.emplace(group, std::move(life));
      }
    }
  }
}

bool StrayGroups::Open() {
  int low[2];
  int high[2];
  if (pipe2(low, O_CLOEXEC) != 0) {
    return false;
  }
  low_ = {UniqueFd(low[0]), UniqueFd(low[1])};
  if (pipe2(high, O_CLOEXEC) == 0) {
    high_ = {UniqueFd(high[0]), UniqueFd(high[1])};
    high_.writes.Reset(fcntl(high_.writes.get(), F_DUPFD_CLOEXEC, Highest()));
  }
  if (!high_.writes.valid()) {
    low_ = Pipe();
    high_ = Pipe();
    return false;
  }
  return true;
}

}  // namespace muster
