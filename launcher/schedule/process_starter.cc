#include "launcher/schedule/process_starter.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "launcher/schedule/child_process.h"
#include "proto/base/build_info.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

constexpr absl::Duration kKillAfter = absl::Seconds(2);
constexpr absl::Duration kSlowAfter = absl::Seconds(30);  // 3 Mbit/s
constexpr double kHintAfter = 0.3;                        // of the time for an answer
constexpr absl::string_view kMayHold =
    "a start-up file of its shell (.bashrc) may read input or redirect output, or the host hangs";

constexpr absl::string_view kDrops =
    "sshd, of the node or of a jump host, closes connections when many log in at once "
    "(MaxStartups in sshd_config)";

}  // namespace

ProcessStarter::ProcessStarter(uv_loop_t* loop, ProcessStarterOptions options)
    : loop_(loop),
      options_(std::move(options)),
      program_(options_.agent_path),
      program_token_(options_.may_push ? MakeSecret().value_or("") : ""),
      jitter_(options_.seed),
      pump_(loop, [this] { Pump(); }),
      haste_(loop),
      child_(loop, SIGCHLD, [this] { Reap(); }) {}

ProcessStarter::~ProcessStarter() {
  for (auto& [index, node] : nodes_) {
    if (node.pid > 0) {
      kill(-node.pid, SIGKILL);
      waitpid(node.pid, nullptr, WNOHANG);  // one that the kernel holds is left to init
    }
  }
}

void ProcessStarter::Start(StartTarget target) {
  const size_t index = target.index;
  if (const auto old = nodes_.find(index); old != nodes_.end()) {
    CHECK(!old->second.starting);
    Unroute(index);
    Abandon(old->second);
    nodes_.erase(old);
  }
  nodes_[index].target = std::move(target);
  waiting_.push_back(index);
  pump_.StartAfter(absl::ZeroDuration());
}

// An agent's shepherd tidies up by itself.
void ProcessStarter::Abandon(Node& node) {
  if (node.pid > 0) {
    haste_.Drop(node.pid);
    kill(options_.ends_group ? -node.pid : node.pid, SIGKILL);
    abandoned_.push_back(node.pid);
  }
}

void ProcessStarter::ReapAbandoned() {
  const auto left = std::remove_if(abandoned_.begin(), abandoned_.end(),
                                   [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
  abandoned_.erase(left, abandoned_.end());
}

void ProcessStarter::Pump() {
  while (!stopping_ && !waiting_.empty() && starting_ < kStartsAtOnceMax) {
    Node& node = nodes_.at(waiting_.front());
    waiting_.pop_front();
    ++starting_;
    node.starting = true;
    Spawn(node);
  }
}

void ProcessStarter::Spawn(Node& node) {
  const size_t index = node.target.index;
  node.failure.clear();
  node.ended_by_us = false;
  node.banner.clear();
  node.words.reset();
  ++node.tries;
  // Two are sent the program at a time: of so few nobody gets it from another.
  const bool gives = nodes_.size() > CopyRouteBounds().from_launch;
  node.target.bootstrap.program_token = gives ? program_token_ : "";
  absl::StatusOr<std::string> frame = BootstrapFrame(node.target.bootstrap);
  absl::StatusOr<Child> child = frame.ok() ? SpawnChild(options_.command(node.target))
                                           : absl::StatusOr<Child>(frame.status());
  if (!child.ok()) {
    Fail(index, absl::StrCat(node.target.host, ": ", child.status().message()));  // this side's
    return;
  }
  node.pid = child->pid;
  if (options_.hastens) {
    haste_.Add(node.pid);
  }
  LogDebug(absl::StrCat(node.target.host, ": ", options_.program, " runs, process ", node.pid,
                        node.tries > 1 ? absl::StrCat(", try ", node.tries) : ""));
  if (callbacks_.on_spawned) {
    callbacks_.on_spawned(index, node.pid);
  }
  node.words = std::make_unique<LastWords>(
      loop_, std::move(child->errors), [this, index](const std::string& line) {
        if (nodes_.at(index).connected && callbacks_.on_line && !stopping_) {
          callbacks_.on_line(index, line);
        }
      });
  BootstrapChannel::Callbacks on;
  on.on_ready = [this, index](UniqueFd socket) { OnReady(index, std::move(socket)); };
  on.on_failed = [this, index](const std::string& why, bool closed) {
    OnChannelFailed(index, why, closed);
  };
  on.on_progress = [this, index] {
    nodes_.at(index).hint.reset();
    nodes_.at(index).timer->StartAfter(options_.answer_timeout);
  };
  if (options_.may_push) {
    on.on_wanted = [this, index](bool fetches) { OnWanted(index, fetches); };
  }
  if (!node.target.bootstrap.program_token.empty()) {
    on.on_gives = [this, index](const auto& at) { OnGives(index, at); };
  }
  node.channel = std::make_unique<BootstrapChannel>(loop_, std::move(child->channel),
                                                    *std::move(frame), std::move(on));
  node.timer = std::make_unique<UvTimer>(loop_, [this, index] {
    Node& late = nodes_.at(index);
    const size_t unsent = late.channel->unsent();
    const std::string within = absl::FormatDuration(options_.answer_timeout);
    End(late, unsent == 0 ? absl::StrCat("no answer within ", within, "; ", kMayHold)
                          : absl::StrCat("it has taken nothing more of the agent's program for ",
                                         within, "; ", unsent, " bytes are missing there"));
  });
  node.timer->StartAfter(options_.answer_timeout);
  node.hint = std::make_unique<UvTimer>(loop_, [this, index] {
    LogInfo(absl::StrCat(nodes_.at(index).target.host, ": no answer for ",
                         ShortDuration(options_.answer_timeout * kHintAfter), "; ", kMayHold));
  });
  node.hint->StartAfter(options_.answer_timeout * kHintAfter);
}

// It waits in its shell while others get the program, each of them within a bound.
void ProcessStarter::OnWanted(size_t index, bool fetches) {
  Node& node = nodes_.at(index);
  if (!fetches || node.target.bootstrap.program_token.empty()) {
    GetsProgram(index, std::nullopt);
    return;
  }
  node.timer->Stop();
  if (std::exchange(node.routed, true)) {
    routes_.Missed(index);
  } else {
    routes_.Wants(index);
  }
  Route();
}

// Who is sent to a door has to get there before it closes; its port may be another's then.
void ProcessStarter::ForgetClosed() {
  const absl::Time now = BootNow();
  for (auto& [index, node] : nodes_) {
    if (now - node.gave > kAgentGivesFor * 3 / 4) {
      node.gave = absl::InfiniteFuture();
      node.routed = false;
      routes_.Gone(index);
    }
  }
}

void ProcessStarter::Route() {
  ForgetClosed();
  for (const CopyRoutes::Route& route : routes_.Begin()) {
    GetsProgram(route.to, route.from);
  }
}

void ProcessStarter::GetsProgram(size_t index, std::optional<size_t> from) {
  Node& node = nodes_.at(index);
  const absl::StatusOr<absl::string_view> bytes = program_.Bytes();
  const absl::StatusOr<std::string> digest = from.has_value() ? program_.Digest() : "";
  if (!bytes.ok() || !digest.ok()) {
    return End(node, absl::StrCat("the node has no muster-agent ", BuildName(),
                                  ", and it cannot be sent: ", bytes.status().message()));
  }
  node.timer->StartAfter(options_.answer_timeout);
  if (from.has_value()) {
    LogDebug(absl::StrCat(node.target.host, ": gets the agent's program from ",
                          nodes_.at(*from).target.host));
    node.channel->Refer(bytes->size(), *digest, program_token_, nodes_.at(*from).gives);
  } else {
    LogDebug(absl::StrCat(node.target.host, ": is sent the agent's program"));
    node.slow = std::make_unique<UvTimer>(loop_, [this, index] {
      routes_.Slow(index);
      Route();
    });
    node.slow->StartAfter(kSlowAfter);
    node.channel->Send(*bytes);
  }
}

void ProcessStarter::OnGives(size_t index, const std::optional<ProgramGiverAddress>& gives) {
  Node& node = nodes_.at(index);
  node.slow.reset();
  if (!node.routed) {
    return;
  }
  if (gives.has_value()) {
    node.gives = *gives;
    node.gave = BootNow();
    routes_.Has(index);
    Route();
  } else {
    Unroute(index);
  }
}

void ProcessStarter::Unroute(size_t index) {
  Node& node = nodes_.at(index);
  node.slow.reset();
  node.gave = absl::InfiniteFuture();
  if (std::exchange(node.routed, false)) {
    routes_.Gone(index);
    Route();
  }
}

void ProcessStarter::OnReady(size_t index, UniqueFd socket) {
  Node& node = nodes_.at(index);
  node.channel.reset();
  node.timer.reset();
  node.hint.reset();
  haste_.Drop(node.pid);
  node.connected = true;
  node.starting = false;
  --starting_;
  pump_.StartAfter(absl::ZeroDuration());
  LogDebug(absl::StrCat(node.target.host, ": the agent answers"));
  if (!stopping_) {
    callbacks_.on_connected(index, std::move(socket));
  }
}

void ProcessStarter::OnChannelFailed(size_t index, const std::string& why, bool closed) {
  Node& node = nodes_.at(index);
  if (!closed) {
    End(node, why);
    return;
  }
  // The child's status and last words say more; it is given a moment to end by itself.
  node.banner = node.channel->banner();
  node.channel.reset();
  Unroute(index);
  node.failure = why;
  node.timer = std::make_unique<UvTimer>(loop_, [this, index, why] { End(nodes_.at(index), why); });
  node.timer->StartAfter(kKillAfter);
}

// Ends a child that does not end by itself: TERM, and KILL when that does not help.
void ProcessStarter::End(Node& node, const std::string& why) {
  node.failure = why;
  node.hint.reset();
  node.ended_by_us = true;
  if (node.channel != nullptr) {
    node.banner = node.channel->banner();
    node.channel.reset();
  }
  Unroute(node.target.index);
  const pid_t pid = node.pid;
  if (pid <= 0) {
    return;  // it ended meanwhile
  }
  kill(-pid, SIGTERM);
  node.timer = std::make_unique<UvTimer>(loop_, [pid] { kill(-pid, SIGKILL); });
  node.timer->StartAfter(kKillAfter);
}

void ProcessStarter::Reap() {
  ReapAbandoned();
  std::vector<std::pair<size_t, int>> ended;
  for (auto& [index, node] : nodes_) {
    siginfo_t info{};
    const auto id = static_cast<id_t>(node.pid);
    if (node.pid > 0 && waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == node.pid) {
      if (options_.ends_group) {  // before its number is free for others
        kill(-node.pid, SIGKILL);
      }
      haste_.Drop(node.pid);
      int status = 0;
      waitpid(node.pid, &status, 0);
      node.pid = -1;
      ended.emplace_back(index, status);
    }
  }
  for (const auto& [index, status] : ended) {
    OnExit(index, status);
  }
  CheckStopped();
}

void ProcessStarter::OnExit(size_t index, int status) {
  Node& node = nodes_.at(index);
  node.words->Finish();
  if (node.channel != nullptr) {
    node.banner = node.channel->banner();
  }
  node.channel.reset();
  node.timer.reset();
  node.hint.reset();
  if (stopping_) {
    return;
  }
  Unroute(index);
  const std::string how = absl::StrCat(options_.program, " ", HowItEnded(status));
  const bool lost = WIFEXITED(status) && WEXITSTATUS(status) == 255;  // ssh's own failures
  if (node.connected) {
    node.connected = false;
    callbacks_.on_exit(index, absl::StrCat(node.target.host, ": ", how, node.words->Text()),
                       lost || WIFSIGNALED(status));
    return;
  }
  if (lost && !node.ended_by_us && SpawnLater(node, StartLossOf(node.words->lines()))) {
    return;
  }
  if (node.ended_by_us) {
    Fail(index, Sentence(node, node.failure));
  } else if (lost || node.failure.empty()) {
    Fail(index, Sentence(node, how));
  } else {
    Fail(index, Sentence(node, absl::StrCat(node.failure, "; ", how)));
  }
}

bool ProcessStarter::SpawnLater(Node& node, StartLoss loss) {
  const std::optional<absl::Duration> wait =
      RetryAfter(options_.retries, loss, node.tries, jitter_.Unit());
  if (!wait.has_value()) {
    return false;
  }
  if (node.tries == options_.retries.tries) {  // from here on it takes seconds
    LogInfo(absl::StrCat(node.target.host, ": dropped ", node.tries,
                         " times before the login, and tried again up to ",
                         options_.retries.if_dropped, " times; ", kDrops));
  }
  node.timer = std::make_unique<UvTimer>(loop_, [this, index = node.target.index] {
    Node& again = nodes_.at(index);
    const std::unique_ptr<UvTimer> spent = std::move(again.timer);
    Spawn(again);
  });
  node.timer->StartAfter(*wait);
  return true;
}

std::string ProcessStarter::Sentence(const Node& node, const std::string& what) const {
  std::string out = absl::StrCat(node.target.host, ": ", what);
  if (node.tries > 1) {
    absl::StrAppend(&out, " (", node.tries, " tries)");
  }
  if (const std::string words = node.words->Text(); !words.empty()) {
    absl::StrAppend(&out, words);
  } else if (const auto banner = absl::StripAsciiWhitespace(node.banner); !banner.empty()) {
    // Some shells say why on stdout: "This account is currently not available."
    const std::vector<std::string> lines = absl::StrSplit(banner, '\n', absl::SkipWhitespace());
    absl::StrAppend(&out, ": ", lines.back());
  }
  if (StartLossOf(node.words->lines()) == StartLoss::kDropped) {
    absl::StrAppend(&out, "; ", kDrops);
  }
  if (options_.next_step) {
    absl::StrAppend(&out, "; ", options_.next_step(node.target));
  }
  return out;
}

void ProcessStarter::Fail(size_t index, const std::string& reason) {
  Node& node = nodes_.at(index);
  if (node.starting) {
    node.starting = false;
    --starting_;
    pump_.StartAfter(absl::ZeroDuration());
  }
  if (!stopping_) {
    callbacks_.on_failed(index, reason);
  }
}

void ProcessStarter::SignalAll(int signo) {
  for (const auto& [index, node] : nodes_) {
    if (node.pid > 0) {
      kill(-node.pid, signo);
    }
  }
}

void ProcessStarter::Stop(std::function<void()> done) {
  stopping_ = true;
  stop_done_ = std::move(done);
  waiting_.clear();
  for (auto& [index, node] : nodes_) {
    node.channel.reset();
    node.timer.reset();
    node.slow.reset();
    node.hint.reset();
  }
  // ssh has nothing left to say or to tidy; an agent must not take its shepherd with it.
  SignalAll(options_.ends_group ? SIGKILL : SIGTERM);
  kill_ = std::make_unique<UvTimer>(loop_, [this] { KillOrGiveUp(); });
  kill_->StartAfter(kKillAfter);
  pump_ = UvTimer(loop_, [this] { CheckStopped(); });
  pump_.StartAfter(absl::ZeroDuration());
}

void ProcessStarter::KillOrGiveUp() {
  if (!std::exchange(killed_, true)) {
    SignalAll(SIGKILL);
    kill_->StartAfter(kKillAfter);
    return;
  }
  LogWarning(absl::StrCat(options_.program, " does not end after SIGKILL: left to the kernel"));
  std::exchange(stop_done_, nullptr)();
}

void ProcessStarter::CheckStopped() {
  const bool left =
      !abandoned_.empty() || std::any_of(nodes_.begin(), nodes_.end(),
                                         [](const auto& node) { return node.second.pid > 0; });
  if (stopping_ && !left && stop_done_ != nullptr) {
    kill_.reset();
    std::exchange(stop_done_, nullptr)();
  }
}

}  // namespace muster
