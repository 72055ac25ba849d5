// muster-rendezvous: the master as a daemon, for any number of jobs.
#include <linux/close_range.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/build_info.h"
#include "proto/base/core_limit.h"
#include "proto/base/log.h"
#include "proto/base/signal_mask.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/base/unique_fd.h"
#include "proto/tls/identity.h"
#include "proto/wire/secret.h"
#include "proto/wire/uv_handles.h"
#include "rendezvous/daemon_options.h"
#include "rendezvous/etcd/etcd_store.h"
#include "rendezvous/etcd/lead_thread.h"
#include "rendezvous/log_line.h"
#include "rendezvous/service/journal.h"
#include "rendezvous/service/listener.h"
#include "rendezvous/service/master_server.h"
#include "rendezvous/users.h"

namespace muster {
namespace {

constexpr size_t kConfigBytesMax = 64u << 10;

absl::StatusOr<std::string> ReadConfig(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kConfigBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || (text.empty() && !file.is_open())) {
    return absl::NotFoundError(std::strerror(errno));
  }
  return text.size() <= kConfigBytesMax
             ? absl::StatusOr<std::string>(text)
             : absl::InvalidArgumentError(absl::StrCat("want at most ", kConfigBytesMax, " bytes"));
}

// "READY=1" and the like, to the service manager that has started us (sd_notify(3)); none: nothing.
void Notify(const std::string& state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path == nullptr || std::strlen(path) >= sizeof(address.sun_path)) {
    return;
  }
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
  const size_t size = offsetof(sockaddr_un, sun_path) + std::strlen(path);
  if (address.sun_path[0] == '@') {
    address.sun_path[0] = '\0';  // an abstract name
  }
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  (void)!sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(size));
}

// Grows from one life of this daemon to the next, so that rounds do: seconds since 2020 (by the
// wall clock, which decides nothing else).
uint32_t EpochNow() {
  constexpr int64_t kStartOf2020 = 1577836800;
  return static_cast<uint32_t>(std::max<int64_t>(1, std::time(nullptr) - kStartOf2020));
}

// As many descriptors as we may have: of each agent there are three.
constexpr rlim_t kDescriptorsOfAgent = 3;
void RaiseDescriptorLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

// Half of the descriptors are for others.
size_t AgentsPerUser() {
  rlimit files{};
  const bool known = getrlimit(RLIMIT_NOFILE, &files) == 0;
  return known ? std::min<size_t>(UserLimits().agents, files.rlim_cur / kDescriptorsOfAgent / 2)
               : UserLimits().agents;
}

// Begins this program anew with the same words, in the same process: all that it knew is forgotten,
// every connection is closed.
[[noreturn]] void BeginAnew(char** argv) {
  constexpr unsigned kFirst = 3;
  (void)close_range(kFirst, ~0U, CLOSE_RANGE_CLOEXEC);
  constexpr char kSelf[] = "/proc/self/exe";
  std::string path(PATH_MAX, '\0');
  const ssize_t size = readlink(kSelf, path.data(), path.size());
  path.resize(size > 0 ? static_cast<size_t>(size) : 0);
  // A file that was replaced meanwhile, or only removed: the new one, or this one.
  execv(std::string(absl::StripSuffix(path, " (deleted)")).c_str(), argv);
  execv(kSelf, argv);
  LogError(absl::StrCat(path, ": cannot be started again: ", std::strerror(errno)));
  std::_Exit(1);
}

// By which other hosts know what listens at `listen`.
std::string OwnAddress(const std::string& listen, uint16_t port) {
  const std::string host = listen.substr(0, listen.rfind(':'));
  const bool all = host.empty() || host == "*" || host == "[::]" || host == "0.0.0.0";
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return absl::StrCat(all ? name : host, ":", port);
}

// Of the jobs of the masters before.
std::string GoOn(size_t jobs, absl::string_view before, absl::string_view from) {
  return jobs == 0 ? ""
                   : absl::StrCat(before, Plural(jobs, "job goes", "jobs go"), " on from ", from);
}

absl::StatusOr<std::vector<KnownUser>> UsersIn(const std::string& folder) {
  ASSIGN_OR_RETURN(Users users, ReadUsers(folder));
  for (const std::string& one : users.left_out) {
    LogWarning(absl::StrCat("users: ", one, "; left out"));
  }
  const std::string count =
      absl::StrCat(Plural(users.known.size(), "user", "users"), " in ", folder);
  users.known.empty() ? LogWarning(absl::StrCat(count, ": nobody may run jobs")) : LogInfo(count);
  return std::move(users.known);
}

class Daemon {
 public:
  Daemon(uv_loop_t* loop, MasterOptions options, std::string users, char** argv)
      : loop_(loop),
        argv_(argv),
        users_(std::move(users)),
        master_(loop, WithLog(std::move(options))),
        term_(loop, SIGTERM, [this] { Stop(); }),
        interrupt_(loop, SIGINT, [this] { Stop(); }),
        hangup_(loop, SIGHUP, [this] { Reread(); }),
        asked_(loop, SIGUSR1, [this] { SayJobs(); }) {}
  absl::StatusOr<uint16_t> Listen(const std::string& address) { return master_.Listen(address); }
  absl::StatusOr<size_t> TakeOver() { return master_.TakeOver(); }

  // From now on it serves only while it leads those that share `place`.
  void StandForLead(const EtcdPlace& place, const std::string& self, uint32_t epoch_min) {
    const std::string follows = absl::StrCat(self, " does not lead: ");
    master_.StandBy(follows + "it has just been started");
    lead_ = std::make_unique<LeadThread>(
        loop_, place, self, epoch_min,
        LeadershipEvents{[this, place](const LeadRight& right) { TakeLead(place, right); },
                         [this] { LoseLead("its lease in etcd has ended"); },
                         [this, follows](const std::string& who) {
                           LogInfo(absl::StrCat("waits for the lead: ", who));
                           master_.StandBy(follows + who);
                         },
                         [](const std::string& what) { LogWarning(what); }});
  }

  // Serves until SIGTERM or SIGINT; the exit status.
  int Run() {
    UvRunUntil(loop_, [this] { return stopped_; });
    lead_.reset();  // the next one need not wait for the lease
    return code_;
  }

 private:
  void TakeLead(const EtcdPlace& place, const LeadRight& right) {
    const absl::StatusOr<size_t> jobs = TakeOverFrom(place, right);
    if (jobs.ok()) {
      LogInfo(absl::StrCat("leads, in epoch ", right.epoch, GoOn(*jobs, "; ", "etcd")));
    } else if (absl::IsDeadlineExceeded(jobs.status()) || absl::IsAborted(jobs.status())) {
      LoseLead(jobs.status().message());
    } else {
      LogError(absl::StrCat("--rdzv-store: ", jobs.status().message()));
      code_ = 1;
      Stop();
    }
  }

  absl::StatusOr<size_t> TakeOverFrom(const EtcdPlace& place, const LeadRight& right) {
    ASSIGN_OR_RETURN(journal_, Journal::On(loop_, std::make_shared<EtcdStore>(place, right),
                                           [this] { LoseLead("another one has taken it"); }));
    return master_.Lead(journal_.get(), [this] { return lead_->Leads(); });
  }

  // What another one leads by now is none of ours.
  void LoseLead(absl::string_view why) {
    LogWarning(absl::StrCat("has lost the lead: ", why, "; begins anew as one that waits for it"));
    BeginAnew(argv_);
  }

  static MasterOptions WithLog(MasterOptions options) {
    options.many_jobs = true;
    options.on_tell = [](const std::string& job, const std::string& text) {
      LogInfo(absl::StrCat("job ", job, ": ", text));
    };
    options.on_round_started = [](const std::string& job, const RoundStarted& started) {
      LogInfo(absl::StrCat("job ", job, ": round ", started.round.ToString(), " with ",
                           Plural(started.world_size, "worker", "workers"), " on ",
                           Plural(started.nodes, "node", "nodes")));
    };
    options.on_job_ended = [](const std::string& job, const JobReport& report) {
      LogInfo(absl::StrCat("job ", job, " ended with ", report.exit_code,
                           report.headline.empty() ? "" : ": ", report.headline));
    };
    return options;
  }

  // Where the new ones are wrong, the old ones stay.
  void Reread() {
    if (users_.empty()) {
      LogInfo("nothing is read again: there is no --users");
      return;
    }
    absl::StatusOr<std::vector<KnownUser>> users = UsersIn(users_);
    if (!users.ok()) {
      LogError(absl::StrCat(users.status().message(), "; those of before stay"));
      return;
    }
    master_.SetUsers(*std::move(users));
  }

  void SayJobs() {
    const std::vector<std::string> lines = master_.JobLines();
    LogInfo(Plural(lines.size(), "job", "jobs"));
    std::for_each(lines.begin(), lines.end(), LogInfo);
  }

  void Stop() {
    if (!std::exchange(stopping_, true)) {
      Notify("STOPPING=1");
      master_.Shutdown([this] { stopped_ = true; });
    }
  }

  uv_loop_t* const loop_;    // main's
  char** const argv_;        // main's
  const std::string users_;  // the folder
  std::unique_ptr<LeadThread> lead_;
  std::unique_ptr<Journal> journal_;  // in etcd, while it leads
  MasterServer master_;
  UvSignal term_;
  UvSignal interrupt_;
  UvSignal hangup_;
  UvSignal asked_;
  bool stopping_ = false;
  bool stopped_ = false;
  int code_ = 0;
};

int Fail(const absl::Status& status, int code) {
  LogError(status.message());
  return code;
}

absl::Status Of(absl::string_view option, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(option, ": ", status.message()));
}

absl::StatusOr<std::vector<KnownUser>> UsersOf(const DaemonOptions& options) {
  if (!options.users.empty()) {
    return UsersIn(options.users);
  }
  ASSIGN_OR_RETURN(std::string secret, SecretFor(options.insecure, options.secret_file));
  return OneSecret(std::move(secret));
}

// The key by which users know this daemon, the same in each life, goes into `master`. Its
// fingerprint; "" = there is one secret, from which the key follows, or none.
absl::StatusOr<std::string> TakeSiteKey(const DaemonOptions& options, MasterOptions& master) {
  if (options.users.empty()) {
    return std::string();
  }
  const char* state = std::getenv("STATE_DIRECTORY");
  absl::StatusOr<std::string> path = TlsKeyPath(options, state == nullptr ? "" : state);
  if (path->empty()) {
    path = UserConfigPath("tls-key");
  }
  if (!path.ok()) {
    return Of("--tls-key: want a file", path.status());
  }
  ASSIGN_OR_RETURN(master.site_seed, LoadOrMakeSiteSeed(*path));
  return TlsIdentity::OfSite(master.site_seed).fingerprint();
}

void SayWhereItListens(const DaemonOptions& options, uint16_t port,
                       const std::string& fingerprint) {
  std::printf("muster-rendezvous %s listens on %s:%u%s\n", std::string(Version()).c_str(),
              options.listen.substr(0, options.listen.rfind(':')).c_str(), unsigned{port},
              options.insecure ? " (insecure: everybody who reaches it may run jobs)" : "");
  if (!fingerprint.empty()) {
    std::printf("its fingerprint is %s\n", fingerprint.c_str());
  }
  std::fflush(stdout);
}

// What is wrong with them is said before anything is read or made.
absl::StatusOr<DaemonOptions> OptionsOf(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(DaemonOptions options, ParseDaemonOptions(arguments, ReadConfig));
  if (const absl::Status listen = CheckListenAddress(options.listen); !listen.ok()) {
    return Of("--listen", listen);
  }
  return options;
}

int Main(int argc, char** argv) {
  const absl::StatusOr<DaemonOptions> options = OptionsOf({argv + 1, argv + argc});
  if (!options.ok()) {
    return Fail(options.status(), 2);
  }
  if (options->help || options->version) {
    std::fputs(options->help ? DaemonHelp()
                             : absl::StrCat("muster-rendezvous ", BuildName(), "\n").c_str(),
               stdout);
    return 0;
  }
  absl::StatusOr<std::vector<KnownUser>> users = UsersOf(*options);
  if (!users.ok()) {
    return Fail(users.status(), 1);
  }
  MasterOptions master;
  master.users = *std::move(users);
  absl::StatusOr<EtcdPlace> store = EtcdPlace();
  if (!options->store.empty()) {
    store = ParseEtcdPlace(options->store);
    if (!store.ok()) {
      return Fail(Of("--rdzv-store", store.status()), 2);
    }
  }
  std::signal(SIGPIPE, SIG_IGN);
  RaiseDescriptorLimit();
  master.per_user.agents = AgentsPerUser();
  uv_loop_t loop;
  uv_loop_init(&loop);
  std::unique_ptr<Journal> journal;
  master.epoch = EpochNow();
  if (!options->journal.empty()) {
    absl::StatusOr<std::unique_ptr<Journal>> opened =
        Journal::Open(&loop, options->journal, master.epoch);
    if (!opened.ok()) {
      return Fail(Of("--journal", opened.status()), 1);
    }
    journal = *std::move(opened);
    master.journal = journal.get();
    master.epoch = journal->epoch();
  }
  const absl::StatusOr<std::string> fingerprint = TakeSiteKey(*options, master);
  if (!fingerprint.ok()) {
    return Fail(fingerprint.status(), 1);
  }
  const uint32_t epoch = master.epoch;
  Daemon daemon(&loop, std::move(master), options->users, argv);
  const absl::StatusOr<size_t> jobs = daemon.TakeOver();
  if (!jobs.ok()) {
    return Fail(Of("--journal", jobs.status()), 1);
  }
  if (*jobs > 0) {
    LogInfo(GoOn(*jobs, "", options->journal));
  }
  const absl::StatusOr<uint16_t> port = daemon.Listen(options->listen);
  if (!port.ok()) {
    return Fail(Of("--listen", port.status()), 1);
  }
  SayWhereItListens(*options, *port, *fingerprint);
  if (!options->store.empty()) {
    daemon.StandForLead(*store, OwnAddress(options->listen, *port), epoch);
  }
  Notify("READY=1");
  return daemon.Run();
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  muster::SetLogSink([](muster::LogLevel, absl::string_view text) {
    const std::string line = absl::StrCat("muster: ", muster::LogLine(text), "\n");
    (void)!write(STDERR_FILENO, line.data(), line.size());
  });
  muster::HearAllSignals();
  muster::WriteNoCores();
  return muster::Main(argc, argv);
}
