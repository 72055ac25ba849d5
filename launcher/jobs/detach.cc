#include "launcher/jobs/detach.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "agent/io/node_facts.h"
#include "launcher/exit_codes.h"
#include "launcher/jobs/job_folder.h"
#include "launcher/jobs/job_id.h"
#include "launcher/jobs/job_table.h"
#include "launcher/jobs/keeper.h"
#include "launcher/jobs/keeper_link.h"
#include "launcher/jobs/wait_signals.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/shared_fd.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr int kIdsTriedMax = 8;
constexpr absl::Duration kBeyondJoining = absl::Seconds(60);  // for spawning, and a slow disk

JobRecord RecordOf(const JobSpec& spec, const std::string& id) {
  JobRecord out;
  out.id = id;
  out.name = spec.job_name;
  out.host = Hostname();
  out.command = {spec.program};
  out.command.insert(out.command.end(), spec.arguments.begin(), spec.arguments.end());
  out.command = CutCommand(std::move(out.command));
  for (const NodeWorkers& node : spec.nodes) {
    if (!node.host.name.empty()) {
      out.hosts.push_back(node.host.name);
    }
  }
  out.folder = spec.plan.wdir.empty() ? OwnFolder() : spec.plan.wdir;
  out.started_at = absl::Now();
  out.grace = spec.plan.grace;
  out.within = spec.slurm.has_value() ? spec.slurm->name
               : spec.pbs.has_value() ? spec.pbs->name
                                      : "";
  return out;
}

// In the launcher of the detached job.
int RunUnderKeeper(JobSpec spec, int link, const std::function<int(JobSpec)>& run) {
  spec.keeper_fd = link;
  SetLogSink([link](LogLevel, absl::string_view text) {
    const std::string line = absl::StrCat("muster: ", text, "\n");
    [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, line.data(), line.size());
    SendPacket(link, Packet::kText, line);
  });
  return run(std::move(spec));
}

// The typed command, until the job has started or ended.
class StartWait {
 public:
  StartWait(const JobSpec& spec, std::string id, UniqueFd keeper)
      : launch_(spec.launch_path),
        quiet_(spec.quiet),
        id_(std::move(id)),
        keeper_(std::move(keeper)),
        deadline_(BootNow() + spec.rendezvous.join_timeout + kBeyondJoining) {}

  int Run() {
    WaitSignals signals;
    while (!code_.has_value()) {
      if (const int signo = signals.Take(); signo != 0) {
        SendPacket(keeper_.get(), Packet::kStop, StopText({signo, stopped_, -1}));
        stopped_ = true;
      }
      const absl::Duration left = deadline_ - BootNow();
      if (left <= absl::ZeroDuration()) {
        LogError(absl::StrCat("job ", id_, " has not started all workers yet; it goes on. See: ",
                              launch_, " logs ", id_, "; stop it: ", launch_, " stop ", id_));
        return kExitFailed;
      }
      signals.Poll(keeper_.get(), POLLIN, left);
      TakePackets();
    }
    return *code_;
  }

 private:
  void TakePackets() {
    bool closed = false;
    while (!code_.has_value()) {
      const auto packet = ReceivePacket(keeper_.get(), closed);
      if (!packet.has_value()) {
        break;
      }
      if (packet->kind == Packet::kText) {
        [[maybe_unused]] const ssize_t n =
            write(STDERR_FILENO, packet->text.data(), packet->text.size());
      } else if (packet->kind == Packet::kStarted) {
        code_ = SayStarted(packet->text);
      } else if (packet->kind == Packet::kEnded) {
        int code = kExitFailed;
        code_ = absl::SimpleAtoi(packet->text, &code) ? code : kExitFailed;
      }
    }
    if (closed && !code_.has_value()) {
      LogError(absl::StrCat("job ", id_, ": its keeper was killed before the job had started"));
      code_ = kExitFailed;
    }
  }

  // The exit code: a script that has no id must not go on as if it had one.
  int SayStarted(const std::string& numbers) const {
    const std::vector<std::string> words = absl::StrSplit(numbers, ' ');
    uint32_t world = 0;
    uint32_t nodes = 0;
    if (words.size() == 2 && absl::SimpleAtoi(words[0], &world) &&
        absl::SimpleAtoi(words[1], &nodes)) {
      const std::string details =
          quiet_ ? ""
                 : absl::StrCat(" runs ", Plural(world, "worker", "workers"), " on ",
                                Plural(nodes, "node", "nodes"), "; see it: ", launch_, " attach ",
                                id_, "; stop it: ", launch_, " stop ", id_);
      if (!WriteShared(STDOUT_FILENO, absl::StrCat(id_, details, "\n"))) {
        const char* why = std::strerror(errno);
        LogError(absl::StrCat("job ", id_, " has started and goes on, but stdout did not take its ",
                              "id: ", why, "; stop it: ", launch_, " stop ", id_));
        return kExitFailed;
      }
    }
    return 0;
  }

  const std::string launch_;
  const bool quiet_;
  const std::string id_;
  const UniqueFd keeper_;
  const absl::Time deadline_;
  bool stopped_ = false;
  std::optional<int> code_;
};

}  // namespace

int RunDetached(JobSpec spec, const std::function<int(JobSpec)>& run) {
  const std::string taken =
      NameTaken(RecordsOf(ForgetOldJobs(ReadJobs(), absl::Now())), spec.job_name);
  ForgetKilledStarts(absl::Now());
  std::string id;
  absl::StatusOr<NewJobFolder> folder = absl::AlreadyExistsError("");
  for (int i = 0; i < kIdsTriedMax && absl::IsAlreadyExists(folder.status()); ++i) {
    id = MakeJobId();
    folder = MakeJobFolder(id);
  }
  if (!taken.empty()) {
    LogInfo(taken);
  }
  int sockets[2] = {-1, -1};
  if (folder.ok() &&
      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) != 0) {
    RemoveJobFolder(folder->path);
    folder = absl::ResourceExhaustedError(
        absl::StrCat("--detach: no descriptors left: ", std::strerror(errno)));
  }
  if (!folder.ok()) {
    LogError(folder.status().message());
    return kExitFailed;
  }
  UniqueFd ours(sockets[0]);
  UniqueFd theirs(sockets[1]);
  StartWait wait(spec, id, std::move(ours));
  const pid_t keeper = fork();
  if (keeper < 0) {
    LogError(absl::StrCat("--detach: cannot start a process: ", std::strerror(errno)));
    RemoveJobFolder(folder->path);
    return kExitFailed;
  }
  if (keeper == 0) {
    KeeperOptions options;
    options.folder = folder->path;
    options.claim = std::move(folder->claim);
    options.record = RecordOf(spec, id);
    options.log_bytes_max = spec.job_log_bytes_max;
    options.typed = std::move(theirs);
    spec.job_folder = folder->path;
    if (spec.plan.job_id.empty()) {
      spec.plan.job_id = id;
    }
    options.launcher = [&spec, &run](int link) {
      return RunUnderKeeper(std::move(spec), link, run);
    };
    KeepJob(std::move(options));
  }
  theirs.Reset();
  folder->claim.Reset();
  signal(SIGPIPE, SIG_IGN);  // the id can still be said on stderr
  return wait.Run();
}

}  // namespace muster
