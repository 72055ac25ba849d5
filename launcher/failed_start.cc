#include "launcher/failed_start.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "launcher/jobs/wait_signals.h"
#include "launcher/preflight.h"
#include "launcher/schedule/child_process.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

namespace muster {
namespace {

constexpr absl::Duration kExamineWithin = absl::Seconds(20);
// One that has not come for the job will not come for the doctor.
constexpr char kNodesThatCome[] = "last_call_timeout=3";
constexpr absl::Duration kEndWithin = absl::Seconds(2);  // then SIGKILL
constexpr size_t kTableBytesMax = 1u << 20;

// Whether more may come.
bool Read(int fd, std::string& text) {
  char bytes[4096];
  const ssize_t n = read(fd, bytes, sizeof(bytes));
  if (n > 0 && text.size() < kTableBytesMax) {
    text.append(bytes, static_cast<size_t>(n));
  }
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

// What it says on stdout until its end, `deadline` or a signal; whether it has ended. What it says
// of hosts that cannot be reached has been said.
bool Hear(const WaitSignals& signals, const Child& child, absl::Time deadline, std::string& table) {
  std::string errors;
  bool errors_open = true;
  while (BootNow() < deadline) {
    pollfd fds[] = {{child.channel.get(), POLLIN, 0},
                    {errors_open ? child.errors.get() : -1, POLLIN, 0}};
    signals.Poll(absl::MakeSpan(fds), deadline - BootNow());
    if (WaitSignals::Take() != 0) {
      return false;
    }
    if (fds[1].revents != 0) {
      errors_open = Read(child.errors.get(), errors);
    }
    if (fds[0].revents != 0 && !Read(child.channel.get(), table)) {
      return true;
    }
  }
  return false;
}

}  // namespace

void ExamineNodes(const JobSpec& spec) {
  const std::string line = DoctorLine(spec);
  LogInfo(absl::StrCat("what is wrong with the nodes: ", line));
  if (spec.quiet) {
    return;
  }
  std::vector<std::string> words = DoctorWords(spec);
  words.front() = "/proc/self/exe";
  words.insert(words.end(), {"--rdzv-conf", kNodesThatCome});
  const WaitSignals signals;
  const absl::StatusOr<Child> child = SpawnChild(std::move(words));
  if (!child.ok()) {
    LogWarning(child.status().message());
    return;
  }
  shutdown(child->channel.get(), SHUT_WR);
  std::string table;
  const bool ended = Hear(signals, *child, BootNow() + kExamineWithin, table);
  if (!ended) {
    kill(child->pid, SIGTERM);
    Hear(signals, *child, BootNow() + kEndWithin, table);
    kill(child->pid, SIGKILL);
    LogInfo(absl::StrCat("that was not over within ", absl::FormatDuration(kExamineWithin),
                         ": the line above has the time it wants"));
  }
  waitpid(child->pid, nullptr, 0);
  std::fwrite(table.data(), 1, table.size(), stderr);
}

}  // namespace muster
