#include "agent/io/shepherd_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/core/env_filter.h"
#include "agent/io/process_tree.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

namespace muster {
namespace {

// It has nothing to do behind a shepherd that has gone by itself.
constexpr absl::Duration kReaperWithin = absl::Seconds(2);
// The reaper kills what one has left, and has another, within this time, or is held likewise.
constexpr absl::Duration kNextWithin = absl::Seconds(15);

// What execvp would try, in order.
std::vector<std::string> Candidates(const WorkerProgram& program) {
  const std::string& name = program.argv[0];
  if (name.empty() || name.find('/') != std::string::npos) {
    return {name};
  }
  absl::string_view path = kDefaultPath;
  for (const std::string& variable : program.environment) {
    if (absl::StartsWith(variable, "PATH=")) {
      path = absl::string_view(variable).substr(5);
    }
  }
  std::vector<std::string> out;
  for (const absl::string_view folder : absl::StrSplit(path, ':')) {
    out.push_back(folder.empty() ? name : absl::StrCat(folder, "/", name));
  }
  return out;
}

// Whether the other side closes its end in time; what it still says is not heard any more. (A
// pidfd would do as well, but kernels before 5.3 have none.)
bool EndsWithin(int socket, absl::Duration within) {
  const absl::Time deadline = BootNow() + within;
  while (true) {
    const absl::Status heard = ReceiveFrame(socket).status();
    if (!heard.ok() && !absl::IsUnavailable(heard)) {
      return true;
    }
    const absl::Duration left = deadline - BootNow();
    if (left <= absl::ZeroDuration()) {
      return false;
    }
    pollfd wait = {socket, POLLIN, 0};
    poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
  }
}

}  // namespace

ShepherdClient::ShepherdClient(uv_loop_t* loop, ShepherdProcess process, Callbacks callbacks)
    : loop_(loop),
      process_(std::move(process)),
      callbacks_(std::move(callbacks)),
      births_timer_(loop, [this] { GoOnWithout(); }),
      clear_timer_(loop, [this] { KillOrGiveUp(); }),
      look_timer_(loop, [this] { Look(); }) {
  look_timer_.Unref();
  births_poll_.emplace(loop, process_.births.get(), [this](int) { OnBirth(); });
  poll_.emplace(loop, process_.socket.get(), [this](int events) { OnReady(events); });
  Watch();
}

ShepherdClient::~ShepherdClient() { Close(); }

void ShepherdClient::Close() {
  const absl::Duration within = births_timer_.active() ? kNextWithin : kReaperWithin;
  poll_.reset();
  births_poll_.reset();
  births_timer_.Stop();
  clear_timer_.Stop();
  look_timer_.Stop();
  shutdown(process_.births.get(), SHUT_WR);  // no other after this one
  if (process_.pid > 0) {
    shutdown(process_.socket.get(), SHUT_WR);
    // It kills for at most kKillWithin and goes; unless the kernel holds it.
    if (!EndsWithin(process_.socket.get(), kShepherdWithin)) {
      (void)Kill();
    }
  }
  if (process_.reaper > 0 && !EndsWithin(process_.births.get(), within)) {
    kill(process_.reaper, SIGKILL);  // somebody has stopped it
  }
  // The shepherd is our child where the reaper has been killed.
  for (const pid_t child : {process_.reaper, process_.pid}) {
    while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  process_.reaper = process_.pid = -1;
  process_.births.Reset();
  process_.socket.Reset();
}

bool ShepherdClient::Kill() {
  // -1 would be every process there is.
  return process_.pid > 0 && kill(process_.pid, SIGKILL) == 0;
}

void ShepherdClient::SetProgram(const WorkerProgram& program) {
  const std::vector<std::string> candidates = Candidates(program);
  std::vector<std::string> strings = {program.wdir, absl::StrCat(candidates.size())};
  strings.insert(strings.end(), candidates.begin(), candidates.end());
  strings.push_back(absl::StrCat(program.argv.size()));
  strings.insert(strings.end(), program.argv.begin(), program.argv.end());
  strings.insert(strings.end(), program.environment.begin(), program.environment.end());
  const std::string packed = PackStrings(strings);
  UniqueFd memory(memfd_create("muster-program", MFD_CLOEXEC));
  const ssize_t written =
      memory.valid() ? write(memory.get(), packed.data(), packed.size()) : ssize_t{-1};
  if (written != static_cast<ssize_t>(packed.size())) {
    const int error = written < 0 ? errno : EFBIG;
    LogError(absl::StrCat("cannot hand the program to the shepherd: memfd of ", packed.size(),
                          " bytes: ", std::strerror(error),
                          error == EFBIG ? ": raise the limit of file sizes (ulimit -f)" : ""));
    memory.Reset();
  }
  ShepherdFrame frame;
  frame.type = static_cast<uint32_t>(ShepherdOrder::kPrograms);
  frame.value = (program.hold ? kProgramsHeld : 0) |
                (program.no_new_privileges ? kProgramsNoNewPrivileges : 0);
  if (memory.valid()) {
    frame.fds.push_back(std::move(memory));
  }
  Send(std::move(frame));
}

void ShepherdClient::Spawn(uint32_t local_rank, const std::vector<std::string>& own_environment,
                           const SpawnBinding& binding, UniqueFd stdin_fd, UniqueFd stdout_fd,
                           UniqueFd stderr_fd, PmiEnd pmi) {
  ShepherdFrame frame;
  if (stdin_fd.valid()) {
    frame.fds.push_back(std::move(stdin_fd));
  }
  frame.fds.push_back(std::move(stdout_fd));
  frame.fds.push_back(std::move(stderr_fd));
  SendSpawn(local_rank, own_environment, binding, std::move(pmi), std::move(frame));
}

void ShepherdClient::SpawnOnTerminal(uint32_t local_rank,
                                     const std::vector<std::string>& own_environment,
                                     const SpawnBinding& binding, UniqueFd terminal, PmiEnd pmi) {
  ShepherdFrame frame;
  frame.value = 1;
  for (int i = 0; i < 2; ++i) {
    UniqueFd copy(fcntl(terminal.get(), F_DUPFD_CLOEXEC, 3));
    if (!copy.valid()) {
      return callbacks_.on_spawn_failed(local_rank, EMFILE,
                                        "no descriptors left for its terminal: raise `ulimit -n`");
    }
    frame.fds.push_back(std::move(copy));
  }
  frame.fds.push_back(std::move(terminal));
  SendSpawn(local_rank, own_environment, binding, std::move(pmi), std::move(frame));
}

void ShepherdClient::SendSpawn(uint32_t local_rank, const std::vector<std::string>& own_environment,
                               const SpawnBinding& binding, PmiEnd pmi, ShepherdFrame frame) {
  if (pmi.fd.valid()) {
    frame.extra = kSpawnWithPmi | (pmi.offered ? kSpawnPmiOffered : 0);
    frame.fds.push_back(std::move(pmi.fd));
  }
  frame.type = static_cast<uint32_t>(ShepherdOrder::kSpawn);
  frame.index = static_cast<int32_t>(local_rank);
  frame.payload = PackStrings(PackBinding(binding)) + PackStrings(own_environment);
  if (frame.payload.size() > kShepherdFrameBytesMax / 2) {
    return callbacks_.on_spawn_failed(
        local_rank, E2BIG,
        absl::StrCat("the worker's own variables take ", frame.payload.size(),
                     " bytes; the limit is ", kShepherdFrameBytesMax / 2));
  }
  if (!dead_) {
    watch_.SpawnAsked(BootNow());
    ArmLook();
  }
  Send(std::move(frame));
}

void ShepherdClient::StartHelper(const std::vector<std::string>& argv,
                                 const std::vector<std::string>& environment, UniqueFd socket) {
  ShepherdFrame frame;
  frame.type = static_cast<uint32_t>(ShepherdOrder::kHelper);
  frame.payload = absl::StrCat(PackStrings({absl::StrCat(argv.size())}), PackStrings(argv),
                               PackStrings(environment));
  frame.fds.push_back(std::move(socket));
  if (frame.payload.size() > kShepherdFrameBytesMax / 2) {
    return callbacks_.on_helper_failed(absl::StrCat("its arguments and variables take ",
                                                    frame.payload.size(), " bytes; the limit is ",
                                                    kShepherdFrameBytesMax / 2));
  }
  Send(std::move(frame));
}

void ShepherdClient::Signal(int signo, bool stops) {
  ShepherdFrame frame;
  frame.type = static_cast<uint32_t>(ShepherdOrder::kSignal);
  frame.value = signo;
  frame.extra = stops ? kSignalStops : 0;
  Send(std::move(frame));
}

void ShepherdClient::AwaitGroups() {
  ShepherdFrame frame;
  frame.type = static_cast<uint32_t>(ShepherdOrder::kAwaitGroups);
  Send(std::move(frame));
}

void ShepherdClient::KillWorker(uint32_t local_rank) {
  ShepherdFrame frame;
  frame.type = static_cast<uint32_t>(ShepherdOrder::kKill);
  frame.index = static_cast<int32_t>(local_rank);
  Send(std::move(frame));
}

void ShepherdClient::ClearWorker(uint32_t local_rank) {
  ShepherdFrame frame;
  frame.type = static_cast<uint32_t>(ShepherdOrder::kClearWorker);
  frame.index = static_cast<int32_t>(local_rank);
  Send(std::move(frame));
}

void ShepherdClient::Clear() {
  if (dead_) {
    return births_timer_.active() ? void() : callbacks_.on_cleared("");
  }
  ShepherdFrame frame;
  frame.type = static_cast<uint32_t>(ShepherdOrder::kClear);
  Send(std::move(frame));
  if (!killed_) {
    clear_timer_.StartAfter(kShepherdWithin);
  }
}

// Its end is noticed on the socket; unless a child that the kernel holds keeps that open.
void ShepherdClient::KillOrGiveUp() {
  if (std::exchange(killed_, true)) {
    return Died();
  }
  LogWarning(
      "the shepherd process does not answer (stopped, or held by a folder on a dead server?): it "
      "is killed, and every worker here with it");
  (void)Kill();
  clear_timer_.StartAfter(absl::Seconds(1));
}

void ShepherdClient::SetLease(int64_t boot_ns) {
  lease_ = boot_ns;
  ShepherdFrame frame;
  frame.type = static_cast<uint32_t>(ShepherdOrder::kSetLease);
  frame.value = boot_ns;
  Send(std::move(frame));
  watch_.SetLease(boot_ns, BootNow());
  ArmLook();
}

void ShepherdClient::Ping() {
  if (!dead_ && watch_.Ping(BootNow())) {
    SendPing();
    ArmLook();
  }
}

void ShepherdClient::SendPing() {
  ShepherdFrame frame;
  frame.type = static_cast<uint32_t>(ShepherdOrder::kPing);
  Send(std::move(frame));
}

void ShepherdClient::Look() {
  if (poll_) {
    OnReady(0);  // what it has said while we did not look
  }
  if (watch_.IsSilent(BootNow()) && !dead_ && !killed_) {
    KillOrGiveUp();
  }
  ArmLook();
}

void ShepherdClient::ArmLook() { look_timer_.StartAt(watch_.next()); }

void ShepherdClient::SetRunDir(const std::string& folder) {
  ShepherdFrame frame;
  frame.type = static_cast<uint32_t>(ShepherdOrder::kRunDir);
  frame.payload = folder;
  (void)SendFrame(process_.births.get(), frame).ok();  // one that is gone removes nothing
  Send(std::move(frame));
}

void ShepherdClient::Send(ShepherdFrame frame) {
  if (dead_) {
    if (frame.type == static_cast<uint32_t>(ShepherdOrder::kSpawn)) {
      callbacks_.on_spawn_failed(static_cast<uint32_t>(frame.index), ECHILD,
                                 "the shepherd process is gone");
    }
    return;
  }
  queue_.push_back(std::move(frame));
  Flush();
}

void ShepherdClient::Flush() {
  while (!queue_.empty() && !dead_) {
    const absl::Status status = SendFrame(process_.socket.get(), queue_.front());
    if (absl::IsUnavailable(status)) {
      break;
    }
    if (!status.ok()) {
      break;  // EOF is noticed by the read side
    }
    queue_.pop_front();
  }
  Watch();
}

void ShepherdClient::Watch() {
  const int wanted = UV_READABLE | (queue_.empty() ? 0 : UV_WRITABLE);
  if (poll_ && std::exchange(watched_, wanted) != wanted) {
    poll_->Start(wanted);
  }
}

void ShepherdClient::OnReady(int events) {
  if ((events & UV_WRITABLE) != 0) {
    watched_ = 0;  // an error comes as this, too, and has stopped the watch
    Flush();
  }
  for (int i = 0; i < 64 && poll_; ++i) {
    const absl::StatusOr<ShepherdFrame> frame = ReceiveFrame(process_.socket.get());
    if (absl::IsUnavailable(frame.status())) {
      return;
    }
    if (!frame.ok()) {
      return Died();
    }
    Handle(*frame);
  }
}

void ShepherdClient::Handle(const ShepherdFrame& frame) {
  const auto local_rank = static_cast<uint32_t>(frame.index);
  switch (static_cast<ShepherdNews>(frame.type)) {
    case ShepherdNews::kSpawned:
      watch_.SpawnAnswered(BootNow());
      return callbacks_.on_spawned(local_rank, static_cast<pid_t>(frame.value));
    case ShepherdNews::kSpawnFailed:
      watch_.SpawnAnswered(BootNow());
      return callbacks_.on_spawn_failed(local_rank, static_cast<int>(frame.value), frame.payload);
    case ShepherdNews::kEnded:
      return callbacks_.on_ended(
          local_rank, {static_cast<int>(frame.value), frame.extra, frame.alone != 0, frame.times});
    case ShepherdNews::kGroupsEnded:
      return callbacks_.on_groups_ended();
    case ShepherdNews::kCleared:
      clear_timer_.Stop();
      return callbacks_.on_cleared(frame.payload);
    case ShepherdNews::kLeaseEnded:
      SendPing();  // it waits for a sign that this process lives
      return callbacks_.on_lease_ended();
    case ShepherdNews::kHelperFailed:
      return callbacks_.on_helper_failed(frame.payload);
    case ShepherdNews::kAlive:
      return watch_.Alive();
    case ShepherdNews::kLeaseSeen:
      return watch_.LeaseSeen(frame.value);
  }
}

void ShepherdClient::Died() {
  if (dead_) {
    return;
  }
  dead_ = true;
  process_.pid = -1;
  queue_.clear();
  poll_.reset();
  clear_timer_.Stop();
  watch_.Forget();
  // Workers had a death signal, but their own children did not: the reaper has them now. It says
  // when they are gone, and who comes next.
  births_poll_->Start(UV_READABLE);
  births_timer_.StartAfter(kNextWithin);
}

void ShepherdClient::OnBirth() {
  absl::StatusOr<ShepherdFrame> born = ReceiveFrame(process_.births.get());
  if (absl::IsUnavailable(born.status())) {
    return;
  }
  if (!born.ok() || born->value <= 0 || born->fds.size() != 1) {
    return GoOnWithout();
  }
  Adopt(*std::move(born));
}

void ShepherdClient::Adopt(ShepherdFrame born) {
  births_poll_->Stop();
  births_timer_.Stop();
  process_.pid = static_cast<pid_t>(born.value);
  process_.socket = std::move(born.fds[0]);
  watched_ = 0;
  poll_.emplace(loop_, process_.socket.get(), [this](int events) { OnReady(events); });
  dead_ = killed_ = false;
  SetLease(lease_);
  callbacks_.on_dead();
}

// The reaper is dead, too, or stuck.
void ShepherdClient::GoOnWithout() {
  births_poll_->Stop();
  births_timer_.Stop();
  KillDescendants(kKillWithin, [this](pid_t pid, int, uint64_t) {
    process_.reaper = pid == process_.reaper ? -1 : process_.reaper;
  });
  callbacks_.on_dead();
}

}  // namespace muster
