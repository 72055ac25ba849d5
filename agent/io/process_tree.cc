#include "agent/io/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/clock.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

std::string ReadSmallFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string out;
  char buffer[4096];
  while (fd.valid()) {
    const ssize_t n = read(fd.get(), buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      break;
    }
    out.append(buffer, static_cast<size_t>(n));
  }
  return out;
}

// The numeric names in a /proc folder.
std::vector<pid_t> NumbersIn(const std::string& folder) {
  std::vector<pid_t> out;
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) {
    return out;
  }
  while (const dirent* entry = readdir(dir)) {
    pid_t number = 0;
    if (absl::SimpleAtoi(entry->d_name, &number)) {
      out.push_back(number);
    }
  }
  closedir(dir);
  return out;
}

std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::vector<pid_t> out;
  for (const pid_t thread : NumbersIn(absl::StrCat("/proc/", pid, "/task"))) {
    const std::string text =
        ReadSmallFile(absl::StrCat("/proc/", pid, "/task/", thread, "/children"));
    for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
      pid_t child = 0;
      if (absl::SimpleAtoi(word, &child)) {
        out.push_back(child);
      }
    }
  }
  return out;
}

struct Stat {
  std::string name;
  char state = 'X';
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  int threads = 0;
  uint64_t started = 0;  // in clock ticks
};

// nullopt: it has ended meanwhile.
std::optional<Stat> ReadStat(pid_t pid) {
  const std::string text = ReadSmallFile(absl::StrCat("/proc/", pid, "/stat"));
  // "PID (NAME) S PPID PGRP SESSION ...", and a name may hold anything; field 22 is when it began
  const size_t name = text.find('(');
  const size_t name_end = text.rfind(") ");
  Stat out;
  if (name_end == std::string::npos || name >= name_end ||
      sscanf(text.c_str() + name_end + 2,
             "%c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d %*d %" SCNu64,
             &out.state, &out.parent, &out.group, &out.session, &out.threads, &out.started) != 6) {
    return std::nullopt;
  }
  out.name = text.substr(name + 1, name_end - name - 1);
  return out;
}

// For kernels without the lists of children: parent of every process.
std::multimap<pid_t, pid_t> AllByParent() {
  std::multimap<pid_t, pid_t> out;
  for (const pid_t pid : NumbersIn("/proc")) {
    if (const std::optional<Stat> stat = ReadStat(pid); stat.has_value()) {
      out.emplace(stat->parent, pid);
    }
  }
  return out;
}

bool HasChildrenLists() {
  static const bool has =
      access(absl::StrCat("/proc/self/task/", getpid(), "/children").c_str(), R_OK) == 0;
  return has;
}

// All processes below `root` that `take` (child, its parent) does not leave out, with what is below
// them; parents before children.
std::vector<pid_t> Below(pid_t root, const std::function<bool(pid_t, pid_t)>& take) {
  const bool lists = HasChildrenLists();
  const std::multimap<pid_t, pid_t> by_parent =
      lists ? std::multimap<pid_t, pid_t>() : AllByParent();
  std::vector<pid_t> out = {root};
  for (size_t i = 0; i < out.size(); ++i) {
    std::vector<pid_t> children;
    if (lists) {
      children = ChildrenOf(out[i]);
    } else {
      const auto [first, last] = by_parent.equal_range(out[i]);
      for (auto it = first; it != last; ++it) {
        children.push_back(it->second);
      }
    }
    for (const pid_t child : children) {
      if (take(child, out[i])) {
        out.push_back(child);
      }
    }
  }
  out.erase(out.begin());
  return out;
}

// SIGKILLs all that `look` finds, until that is nothing.
KillResult KillAll(const std::function<std::vector<pid_t>()>& look, absl::Duration within,
                   const std::function<void(pid_t, int, uint64_t)>& reaped) {
  const absl::Time deadline = BootNow() + within;
  // Repeats, because a process can fork between the look and the kill: its children show up in the
  // next round.
  for (int64_t pause_us = 100;; pause_us = std::min<int64_t>(pause_us * 2, 20000)) {
    KillResult result{look()};
    std::vector<pid_t>& left = result.survivors;
    if (left.empty()) {
      return result;
    }
    for (const pid_t pid : left) {
      kill(pid, SIGKILL);
    }
    // Each by its number: a spared child's end is for those who spared it.
    const size_t before = left.size();
    left.erase(std::remove_if(left.begin(), left.end(),
                              [&reaped](pid_t pid) {
                                int status = 0;
                                rusage usage{};
                                if (wait4(pid, &status, WNOHANG, &usage) <= 0) {
                                  return false;
                                }
                                reaped(pid, status, static_cast<uint64_t>(usage.ru_maxrss) * 1024);
                                return true;
                              }),
               left.end());
    if (BootNow() >= deadline) {
      return result;
    }
    if (left.size() < before) {
      pause_us = 100;
      continue;
    }
    const timespec pause = {0, pause_us * 1000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace

bool IsTraced(pid_t pid) {
  const std::string status = ReadSmallFile(absl::StrCat("/proc/", pid, "/status"));
  constexpr absl::string_view kField = "\nTracerPid:\t";
  const size_t at = absl::string_view(status).find(kField);
  return at != std::string::npos && status[at + kField.size()] != '0';
}

bool Ignores(pid_t pid, int signo) {
  const std::string status = ReadSmallFile(absl::StrCat("/proc/", pid, "/status"));
  constexpr absl::string_view kField = "\nSigIgn:\t";
  const size_t at = status.find(kField.data(), 0, kField.size());
  uint64_t ignored = 0;
  return at != std::string::npos &&
         absl::SimpleHexAtoi(status.substr(at + kField.size(), 16), &ignored) &&
         ((ignored >> (signo - 1)) & 1) != 0;
}

std::vector<pid_t> Descendants() { return ProcessesBelow(getpid()); }

std::vector<ProcessPlace> PlacesBelow(bool others_jobs) {
  static const long ticks = sysconf(_SC_CLK_TCK);
  std::vector<ProcessPlace> out;
  std::set<pid_t> of_others;  // a launch or an agent
  Below(getpid(), [&](pid_t pid, pid_t parent) {
    const std::optional<Stat> stat = ReadStat(pid);
    if (!stat.has_value() || of_others.count(parent) != 0) {
      return false;
    }
    if (!others_jobs && (stat->name == "launch" || absl::StartsWith(stat->name, "muster-"))) {
      of_others.insert(pid);
    }
    // The first thread may end before the others.
    const bool ended = (stat->state == 'Z' || stat->state == 'X') && stat->threads <= 1;
    const absl::Duration since_boot = absl::Seconds(1) * static_cast<double>(stat->started) /
                                      static_cast<double>(ticks > 0 ? ticks : 100);
    out.push_back({pid, stat->parent, stat->group, stat->session, ended,
                   absl::UnixEpoch() + since_boot, stat->name == "setsid"});
    return true;
  });
  return out;
}

std::vector<pid_t> ProcessesBelow(pid_t root) {
  return Below(root, [](pid_t, pid_t) { return true; });
}

bool StandStill(const std::set<pid_t>& groups) {
  std::set<pid_t> in_kernel;
  std::set<pid_t> wait_for_child;  // vfork: until a child that stands still calls exec
  for (const pid_t pid : Descendants()) {
    const std::optional<Stat> stat = ReadStat(pid);
    if (!stat.has_value() || groups.count(stat->group) == 0) {
      continue;
    }
    if (stat->state == 'D') {
      in_kernel.insert(pid);
    } else if (stat->state == 'T' || stat->state == 't') {
      wait_for_child.insert(stat->parent);
    } else if (stat->state != 'Z' && stat->state != 'X') {
      return false;
    }
  }
  return std::includes(wait_for_child.begin(), wait_for_child.end(), in_kernel.begin(),
                       in_kernel.end());
}

void StopDescendants(std::set<pid_t>& stopped) {
  for (const pid_t pid : Descendants()) {
    const std::optional<Stat> stat = ReadStat(pid);
    const bool stands = stat.has_value() && (stat->state == 'T' || stat->state == 't');
    if (!stands && kill(pid, SIGSTOP) == 0) {
      stopped.insert(pid);
    }
  }
}

void ContinueDescendants(const std::set<pid_t>& stopped) {
  const std::vector<pid_t> all = Descendants();
  for (auto pid = all.rbegin(); pid != all.rend(); ++pid) {
    if (stopped.count(*pid) != 0) {
      kill(*pid, SIGCONT);
    }
  }
}

std::vector<pid_t> ProcessesStartedBy(pid_t parent) {
  return Below(parent, [parent](pid_t, pid_t of) { return of == parent; });
}

ThreadTimes ReadThreadTimes(pid_t pid) {
  return ParseSchedstat(ReadSmallFile(absl::StrCat("/proc/", pid, "/task/", pid, "/schedstat")));
}

bool ReadThreadTimes(pid_t pid, size_t threads_max, std::map<int32_t, ThreadTimes>& out) {
  const std::string folder = absl::StrCat("/proc/", pid, "/task");
  for (const pid_t thread : NumbersIn(folder)) {
    if (out.size() >= threads_max) {
      return false;
    }
    const std::string text = ReadSmallFile(absl::StrCat(folder, "/", thread, "/schedstat"));
    if (!text.empty()) {  // else it has ended meanwhile
      out[thread] = ParseSchedstat(text);
    }
  }
  return true;
}

KillResult KillDescendants(absl::Duration within,
                           const std::function<void(pid_t, int, uint64_t)>& reaped) {
  return KillAll(Descendants, within, reaped);
}

KillResult KillTrees(const std::function<bool(pid_t)>& mine, absl::Duration within,
                     const std::function<void(pid_t, int, uint64_t)>& reaped) {
  const pid_t self = getpid();
  const auto look = [&mine, self] {
    return Below(
        self, [&mine, self](pid_t child, pid_t parent) { return parent != self || mine(child); });
  };
  return KillAll(look, within, reaped);
}

bool HasInEnvironment(pid_t pid, const std::vector<std::string>& entries) {
  const std::string text = ReadSmallFile(absl::StrCat("/proc/", pid, "/environ"));
  const std::vector<absl::string_view> has = absl::StrSplit(text, '\0');
  return std::all_of(entries.begin(), entries.end(), [&has](const std::string& entry) {
    return std::find(has.begin(), has.end(), entry) != has.end();
  });
}

}  // namespace muster
