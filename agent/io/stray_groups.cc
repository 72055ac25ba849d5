#include "agent/io/stray_groups.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "agent/io/process_tree.h"
#include "agent/io/small_file.h"
#include "proto/base/clock.h"

namespace muster {
namespace {

// Above it, without a table of descriptors that is large for all children's sake.
constexpr rlim_t kHighest = 1023;

int Highest() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min(limit.rlim_cur - 1, kHighest));
}

// An end for it, above `low`; invalid: the group has ended, or no descriptor is left.
UniqueFd EndFor(pid_t group, const LifePipe& pipe, int low) {
  UniqueFd end(open(pipe.path(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (end.valid() && end.get() < low) {
    end.Reset(fcntl(end.get(), F_DUPFD_CLOEXEC, low + 1));
  }
  if (!end.valid() || !EndGroupWith(end.get(), group)) {
    end.Reset();
  }
  return end;
}

}  // namespace

void StrayGroups::Begin(absl::Time now) {
  if (!load_.valid()) {
    load_ = OpenRegular("/proc/loadavg");
  }
  pace_.Begin(now);
}

void StrayGroups::End() {
  pace_.End();
  ends_.clear();
}

void StrayGroups::Look(absl::Time now, const std::map<pid_t, int32_t>& workers) {
  if (now < next() || !pace_.Asked(now, ParseNewestProcess(ReadAt(load_.get(), 0, 128)))) {
    return;
  }
  // On a busy node a look lasts longer, and costs no more.
  const absl::Duration began = ThreadTime();
  std::set<pid_t> groups;
  for (const pid_t pid : Descendants()) {
    const pid_t group = getpgid(pid);
    if (group > 1 && group != getpgrp() && workers.count(group) == 0) {
      groups.insert(group);
    }
  }
  Keep(groups);
  pace_.Looked(now, ThreadTime() - began);
}

void StrayGroups::Keep(const std::set<pid_t>& groups) {
  for (auto at = ends_.begin(); at != ends_.end();) {
    at = groups.count(at->first) == 0 ? ends_.erase(at) : std::next(at);
  }
  if (!groups.empty() && !high_.is_open() && !(high_.Open() && high_.MoveWriterTo(Highest()))) {
    return;  // no descriptor is left; it is tried again with the next look
  }
  for (const pid_t group : groups) {
    if (ends_.count(group) == 0 && ends_.size() < kGroupsMax) {
      Ends ends{EndFor(group, low_, low_.writer()), EndFor(group, high_, low_.writer())};
      if (ends.low.valid() && ends.high.valid()) {
        ends_.emplace(group, std::move(ends));
      }
    }
  }
}

}  // namespace muster
