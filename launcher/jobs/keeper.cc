#include "launcher/jobs/keeper.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "launcher/jobs/control_socket.h"
#include "launcher/jobs/job_folder.h"
#include "launcher/jobs/job_log.h"
#include "launcher/jobs/keeper_link.h"
#include "launcher/schedule/child_process.h"
#include "proto/wire/uv_handles.h"

namespace muster {
namespace {

constexpr int kClientsMax = 32;
constexpr int kFollowersMax = 16;
constexpr size_t kReadBytes = 64u << 10;
constexpr size_t kReadsAtOnceMax = 16;  // then others have a turn
// From the launcher's end to that of all who hold its output: what it leaves is killed by then.
constexpr absl::Duration kRestOfOutput = absl::Seconds(5);
// Beyond the grace of a stop: then the launcher is told to kill at once, and later killed itself.
constexpr absl::Duration kBeyondGrace = absl::Seconds(10);
constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGQUIT};

class Keeper {
 public:
  Keeper(uv_loop_t* loop, KeeperOptions options, JobLogWriter log, UniqueFd listener,
         UniqueFd output, UniqueFd link, pid_t launcher)
      : loop_(loop),
        folder_(std::move(options.folder)),
        record_(std::move(options.record)),
        log_(std::move(log)),
        typed_(std::move(options.typed)),
        listener_(std::move(listener)),
        output_(std::move(output)),
        link_(std::move(link)),
        launcher_(launcher),
        insist_timer_(loop,
                      [this] {
                        Stop({SIGINT, true, -1});
                      }),
        kill_timer_(loop, [this] { kill(launcher_, SIGKILL); }),
        rest_timer_(loop, [this] { over_ = true; }),
        child_(loop, SIGCHLD, [this] { Reap(); }),
        typed_poll_(loop, typed_.get(), [this](int) { OnTyped(); }),
        listener_poll_(loop, listener_.get(), [this](int) { Accept(); }),
        output_poll_(loop, output_.get(), [this](int) { TakeOutput(); }),
        link_poll_(loop, link_.get(), [this](int) { OnLink(); }) {
    for (const int signo : kStopSignals) {  // as to a launch in the foreground
      signals_.emplace_back(loop, signo, [this, signo] {
        Stop({signo, signo == SIGINT && std::exchange(interrupted_, true), -1});
      });
    }
    for (UvPoll* poll : {&typed_poll_, &listener_poll_, &output_poll_, &link_poll_}) {
      poll->Start(UV_READABLE);
    }
    Reap();  // it may have ended before the handler was there
  }

  bool over() const { return over_; }

  void End() {
    OnLink();
    record_.ended_at = absl::Now();
    const bool stopped = WIFSIGNALED(status_) && WTERMSIG(status_) == stop_signal_;
    record_.state = WIFEXITED(status_) || stopped ? JobState::kEnded : JobState::kLost;
    record_.exit_code = ExitCodeOf(status_);
    log_.Close();
    [[maybe_unused]] const absl::Status status = WriteRecord(folder_, record_);  // nobody to tell
    unlink(absl::StrCat(folder_, "/", kControlSocket).c_str());
    if (typed_.valid()) {
      SendPacket(typed_.get(), Packet::kEnded, absl::StrCat(record_.exit_code));
    }
  }

 private:
  struct Client {
    UniqueFd fd;
    bool follows = false;
    std::unique_ptr<UvPoll> poll;  // closed before fd
  };

  void Reap() {
    if (ended_ || waitpid(launcher_, &status_, WNOHANG) != launcher_) {
      return;
    }
    ended_ = true;
    insist_timer_.Stop();
    kill_timer_.Stop();  // its number may be another's now
    rest_timer_.StartAfter(kRestOfOutput);
    TakeOutput();
  }

  void TakeOutput() {
    char bytes[kReadBytes];
    bool any = false;
    for (size_t i = 0; i < kReadsAtOnceMax && !output_ended_; ++i) {
      const ssize_t n = read(output_.get(), bytes, sizeof(bytes));
      if (n > 0) {
        log_.Append({bytes, static_cast<size_t>(n)}, absl::Now());
        any = true;
      } else if (n == 0) {
        output_ended_ = true;
        output_poll_.Stop();
      } else if (errno != EINTR) {
        break;
      }
    }
    for (auto& [number, client] : clients_) {
      if (any && client.follows) {
        SendPacket(client.fd.get(), Packet::kOutput);
      }
    }
    over_ = over_ || (ended_ && output_ended_);
  }

  void OnLink() {
    bool closed = false;
    while (const std::optional<KeeperPacket> packet = ReceivePacket(link_.get(), closed)) {
      if (typed_.valid() && packet->kind == Packet::kText) {
        SendPacket(typed_.get(), Packet::kText, packet->text);
      } else if (packet->kind == Packet::kListens) {
        listens_ = true;
        master_elsewhere_ = packet->text;
      } else if (packet->kind == Packet::kStarted) {
        Started(packet->text);
      } else if (const auto answer = ParseNumbered(packet->text);
                 packet->kind == Packet::kAnswer && answer.has_value()) {
        Pass(*answer);
      }
    }
    if (closed) {
      link_poll_.Stop();
    }
  }

  void Started(const std::string& text) {
    const std::vector<std::string> numbers = absl::StrSplit(text, ' ');
    if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &record_.world_size) ||
        !absl::SimpleAtoi(numbers[1], &record_.nodes)) {
      return;
    }
    record_.state = JobState::kRunning;
    if (const absl::Status status = WriteRecord(folder_, record_); !status.ok()) {
      log_.Append(absl::StrCat("muster: ", status.message(), "\n"), absl::Now());
    }
    if (typed_.valid()) {
      SendPacket(typed_.get(), Packet::kStarted, text);
      ForgetTyped();
    }
  }

  void OnTyped() {
    bool closed = false;
    while (const std::optional<KeeperPacket> packet = ReceivePacket(typed_.get(), closed)) {
      if (const auto order = ParseStop(packet->text); packet->kind == Packet::kStop && order) {
        Stop(*order);
      }
    }
    if (closed) {
      ForgetTyped();  // its terminal is gone: the job goes on
    }
  }

  void ForgetTyped() {
    typed_poll_.Stop();
    typed_.Reset();
  }

  void Accept() {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid() || clients_.size() >= kClientsMax) {
      return;  // closed, while we live: so the client knows
    }
    const uint64_t number = ++client_numbers_;
    Client& client = clients_[number];
    client.fd = std::move(fd);
    client.poll =
        std::make_unique<UvPoll>(loop_, client.fd.get(), [this, number](int) { OnClient(number); });
    client.poll->Start(UV_READABLE);
  }

  ptrdiff_t Followers() const {
    return std::count_if(clients_.begin(), clients_.end(),
                         [](const auto& client) { return client.second.follows; });
  }

  void OnClient(uint64_t number) {
    Client& client = clients_.at(number);
    bool closed = false;
    while (const std::optional<KeeperPacket> packet = ReceivePacket(client.fd.get(), closed)) {
      if (packet->kind == Packet::kFollow) {
        client.follows = client.follows || Followers() < kFollowersMax;
        SendPacket(client.fd.get(), client.follows ? Packet::kOutput : Packet::kFull);
      } else if (const auto order = ParseStop(packet->text);
                 packet->kind == Packet::kStop && order.has_value()) {
        Stop(*order);
        SendPacket(client.fd.get(), Packet::kOk);
      } else if (packet->kind == Packet::kDrill || packet->kind == Packet::kKill) {
        Drill(number, *packet);
      } else if (packet->kind == Packet::kRestart) {
        Ask(number, *packet);
      }
    }
    if (closed) {
      clients_.erase(number);
    }
  }

  // Those of the launch that has the master.
  void Drill(uint64_t number, const KeeperPacket& packet) {
    OnLink();  // it may have said just now that it listens
    if (ended_ || !listens_) {
      NothingRuns(number);
    } else if (!master_elsewhere_.empty()) {
      Answer(number, {false, absl::StrCat("this launch does not serve its job, whose master is at ",
                                          master_elsewhere_,
                                          ": type this where it was started (muster-rendezvous "
                                          "does no drills)")});
    } else if (packet.kind == Packet::kKill) {
      kill(launcher_, SIGKILL);
      Answer(number, {true, "the launcher is killed"});
    } else {
      Ask(number, packet);
    }
  }

  void Ask(uint64_t number, const KeeperPacket& packet) {
    OnLink();  // it may have said just now that it listens
    if (!listens_ || ended_ ||
        !SendPacket(link_.get(), packet.kind, NumberedText({number, packet.text}))) {
      NothingRuns(number);
    }
  }

  void NothingRuns(uint64_t number) {
    Answer(number, {false, "nothing of it runs now: try again"});
  }

  void Answer(uint64_t number, const OrderAnswer& answer) { Pass({number, AnswerText(answer)}); }

  void Pass(const Numbered& answer) {
    if (const auto client = clients_.find(answer.number); client != clients_.end()) {
      SendPacket(client->second.fd.get(), Packet::kAnswer, answer.text);
    }
  }

  void Stop(const StopOrder& order) {
    if (ended_) {
      return;
    }
    OnLink();  // it may have said just now that it listens
    if (listens_) {
      SendPacket(link_.get(), Packet::kStop, StopText(order));
    } else {
      stop_signal_ = order.signo;
      kill(launcher_, order.signo);
    }
    kill(launcher_, SIGCONT);  // it may be stopped
    if (order.now) {
      kill_timer_.StartAfter(kBeyondGrace);
    } else {
      insist_timer_.StartAfter(order.grace_ms >= 0 ? absl::Milliseconds(order.grace_ms)
                                                   : record_.grace + kBeyondGrace);
    }
  }

  uv_loop_t* const loop_;
  const std::string folder_;
  JobRecord record_;
  JobLogWriter log_;
  UniqueFd typed_;
  const UniqueFd listener_;
  const UniqueFd output_;
  const UniqueFd link_;
  const pid_t launcher_;
  int status_ = 0;
  bool ended_ = false;  // the launcher
  bool output_ended_ = false;
  bool over_ = false;
  bool interrupted_ = false;
  bool listens_ = false;
  std::string master_elsewhere_;
  int stop_signal_ = 0;  // that was sent to a launcher that did not listen yet
  uint64_t client_numbers_ = 0;
  std::map<uint64_t, Client> clients_;
  UvTimer insist_timer_;
  UvTimer kill_timer_;
  UvTimer rest_timer_;
  UvSignal child_;
  std::vector<UvSignal> signals_;
  UvPoll typed_poll_;
  UvPoll listener_poll_;
  UvPoll output_poll_;
  UvPoll link_poll_;
};

// Away from the terminal and from whatever else the caller has open: its pipes must see their end.
// Anonymous descriptors are a library's own.
void LeaveTerminal(const KeeperOptions& options) {
  setsid();
  signal(SIGHUP, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  std::vector<int> foreign;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir("/proc/self/fd"), closedir);
  while (dir != nullptr) {
    const dirent* entry = readdir(dir.get());
    int fd = 0;
    if (entry == nullptr) {
      break;
    }
    char target[64] = {};
    if (absl::SimpleAtoi(entry->d_name, &fd) && fd > STDERR_FILENO && fd != dirfd(dir.get()) &&
        fd != options.typed.get() && fd != options.claim.get() &&
        readlinkat(dirfd(dir.get()), entry->d_name, target, sizeof(target) - 1) > 0 &&
        !absl::StartsWith(target, "anon_inode:")) {
      foreign.push_back(fd);
    }
  }
  for (const int fd : foreign) {
    close(fd);
  }
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    dup2(null.get(), fd);
  }
}

[[noreturn]] void RunLauncher(const std::function<int(int)>& launcher, pid_t keeper, int output,
                              int link) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) {
    _exit(1);
  }
  // What the caller ignored (nohup, a shell's background job) is not meant for this session.
  for (const int signo : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE}) {
    signal(signo, SIG_DFL);
  }
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  close(output);
  const int code = launcher(link);
  std::fflush(nullptr);
  _exit(code);
}

[[noreturn]] void GiveUp(const KeeperOptions& options, const absl::Status& status) {
  SendPacket(options.typed.get(), Packet::kText, absl::StrCat("muster: ", status.message(), "\n"));
  SendPacket(options.typed.get(), Packet::kEnded, "1");
  RemoveJobFolder(options.folder);
  _exit(1);
}

}  // namespace

void KeepJob(KeeperOptions options) {
  LeaveTerminal(options);
  options.record.keeper = NameProcess(getpid());
  JobLogWriter log(options.folder, options.log_bytes_max);
  absl::StatusOr<UniqueFd> listener = ListenAtControl(options.folder, kClientsMax);
  for (const absl::Status& status :
       {log.Open(), WriteRecord(options.folder, options.record), listener.status()}) {
    if (!status.ok()) {
      GiveUp(options, status);
    }
  }
  options.claim.Reset();
  int output[2] = {-1, -1};
  int link[2] = {-1, -1};
  if (pipe2(output, O_CLOEXEC) != 0 ||
      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, link) != 0) {
    GiveUp(options, absl::ResourceExhaustedError(
                        absl::StrCat("--detach: no descriptors left: ", std::strerror(errno))));
  }
  UniqueFd output_read(output[0]);
  UniqueFd output_write(output[1]);
  UniqueFd link_ours(link[0]);
  UniqueFd link_theirs(link[1]);
  const pid_t keeper = getpid();
  const pid_t launcher = fork();
  if (launcher < 0) {
    GiveUp(options, absl::ResourceExhaustedError(
                        absl::StrCat("--detach: cannot start a process: ", std::strerror(errno))));
  }
  if (launcher == 0) {
    options.typed.Reset();
    log.Close();  // else what is dropped of the output would keep its place on the disk
    listener->Reset();
    output_read.Reset();
    link_ours.Reset();
    RunLauncher(options.launcher, keeper, output_write.Release(), link_theirs.get());
  }
  output_write.Reset();
  link_theirs.Reset();
  fcntl(output_read.get(), F_SETFL, O_NONBLOCK);
  uv_loop_t loop;
  uv_loop_init(&loop);
  Keeper job(&loop, std::move(options), std::move(log), *std::move(listener),
             std::move(output_read), std::move(link_ours), launcher);
  UvRunUntil(&loop, [&job] { return job.over(); });
  job.End();
  _exit(0);  // which closes the clients' sockets: they see that the job is over
}

}  // namespace muster
