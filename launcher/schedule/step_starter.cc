#include "launcher/schedule/step_starter.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/schedule/bootstrap_channel.h"
#include "launcher/schedule/child_process.h"
#include "launcher/schedule/dial_door.h"
#include "launcher/schedule/hostlist.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/wire/dial.h"
#include "proto/wire/uv_handles.h"

namespace muster {
namespace {

constexpr size_t kTailLines = 8;              // of stderr, in a failure's sentence
constexpr size_t kStderrLineBytesMax = 4096;  // longer lines are cut
// A command whose agents have all left ends by itself.
constexpr absl::Duration kEndWithin = absl::Seconds(1);
constexpr absl::Duration kKillAfter = absl::Seconds(2);

class StepStarter final : public Starter {
 public:
  StepStarter(uv_loop_t* loop, StepOptions options)
      : loop_(loop),
        options_(std::move(options)),
        pump_(loop, [this] { Pump(); }),
        child_(loop, SIGCHLD, [this] { Reap(); }) {}

  ~StepStarter() override {
    for (const Step& step : steps_) {
      if (step.pid > 0) {
        kill(-step.pid, SIGKILL);
        waitpid(step.pid, nullptr, WNOHANG);
      }
    }
  }

  void SetCallbacks(Callbacks callbacks) override { callbacks_ = std::move(callbacks); }

  void Start(StartTarget target) override {
    const size_t index = target.index;
    CHECK(nodes_.count(index) == 0 || nodes_.at(index).step == nullptr);
    nodes_[index] = Node{std::move(target), nullptr, false, nullptr};
    waiting_.push_back(index);
    pump_.StartAfter(absl::ZeroDuration());  // all that are asked for now come in one step
  }

  void Stop(std::function<void()> done) override {
    stopping_ = true;
    stop_done_ = std::move(done);
    waiting_.clear();
    if (door_ != nullptr) {
      door_->Await(0);
    }
    for (auto& [index, node] : nodes_) {
      node.channel.reset();
    }
    urge_ = std::make_unique<UvTimer>(loop_, [this] { Urge(); });
    urge_->StartAfter(nodes_.empty() ? absl::ZeroDuration() : kEndWithin);
    pump_.StartAfter(absl::ZeroDuration());
  }

 private:
  // One run of the command.
  struct Step {
    pid_t pid = -1;
    std::vector<size_t> nodes;
    UniqueFd channel;  // its stdin and stdout
    UniqueFd errors;
    std::unique_ptr<UvPoll> out_poll;
    std::unique_ptr<UvPoll> error_poll;
    std::unique_ptr<UvTimer> late;
    std::string line;
    std::deque<std::string> tail;
  };
  struct Node {
    StartTarget target;
    Step* step = nullptr;  // in steps_; null: it does not run
    bool connected = false;
    std::unique_ptr<BootstrapChannel> channel;
  };
  void Pump() {
    if (stopping_) {
      return CheckStopped();
    }
    if (waiting_.empty()) {
      return;
    }
    std::vector<size_t> nodes(waiting_.begin(), waiting_.end());
    waiting_.clear();
    absl::Status status = Listen();
    if (status.ok()) {
      status = Spawn(nodes);
    }
    for (const size_t index : nodes) {
      if (!status.ok()) {
        Fail(index, std::string(status.message()));
      }
    }
  }

  absl::Status Listen() {
    if (door_ != nullptr) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(StepDoor door, options_.listen());
    DialTicket ticket;
    ticket.job_id = options_.job_id;
    ticket.secret = options_.secret;
    for (const std::string& address : options_.addresses) {
      ticket.targets.push_back(HostPort(address, door.port));
    }
    LogDebug(absl::StrCat("agents call ", absl::StrJoin(ticket.targets, ", ")));
    door_ = std::make_unique<DialDoor>(
        loop_, std::move(door.socket), std::move(ticket),
        DialDoor::Callbacks{[this](const std::string& node) { return MayCome(node); },
                            [this](const std::string& node, UniqueFd socket) {
                              OnAgent(node, std::move(socket));
                            }});
    return absl::OkStatus();
  }

  absl::Status Spawn(const std::vector<size_t>& nodes) {
    int channel[2] = {-1, -1};
    int errors[2] = {-1, -1};
    const bool opened = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) == 0 &&
                        pipe2(errors, O_CLOEXEC) == 0;
    const int error = errno;
    const UniqueFd theirs(channel[1]);
    const UniqueFd errors_write(errors[1]);
    Step& step = steps_.emplace_back();
    const auto at = std::prev(steps_.end());
    step.channel.Reset(channel[0]);
    step.errors.Reset(errors[0]);
    step.nodes = nodes;
    if (!opened) {
      steps_.erase(at);
      return absl::UnavailableError(
          absl::StrCat("no descriptors left: ", std::strerror(error), ": raise `ulimit -n`"));
    }
    std::vector<std::string> hosts;
    hosts.reserve(nodes.size());
    for (const size_t index : nodes) {
      hosts.push_back(nodes_.at(index).target.host);
    }
    std::vector<std::string> argv = options_.command(hosts);
    argv.insert(argv.end(), {options_.agent_path, "--dial"});
    // It fits into the channel, which is empty.
    const std::string text = TicketText(door_->ticket());
    const bool told = send(step.channel.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
                      static_cast<ssize_t>(text.size());
    shutdown(step.channel.get(), SHUT_WR);
    const absl::StatusOr<pid_t> pid =
        told ? SpawnChild({argv, theirs.get(), errors_write.get(), options_.environment})
             : absl::StatusOr<pid_t>(absl::UnavailableError("no room for the ticket"));
    if (!pid.ok()) {
      steps_.erase(at);
      return pid.status();
    }
    step.pid = *pid;
    LogDebug(
        absl::StrCat(options_.program, " runs, process ", *pid, ": ", absl::StrJoin(argv, " ")));
    for (const size_t index : nodes) {
      nodes_.at(index).step = &step;
      if (callbacks_.on_spawned) {
        callbacks_.on_spawned(index, *pid);
      }
    }
    fcntl(step.channel.get(), F_SETFL, O_NONBLOCK);
    fcntl(step.errors.get(), F_SETFL, O_NONBLOCK);
    step.out_poll =
        std::make_unique<UvPoll>(loop_, step.channel.get(), [&step](int) { Drain(step); });
    step.out_poll->Start(UV_READABLE);
    step.error_poll = std::make_unique<UvPoll>(loop_, step.errors.get(),
                                               [this, &step](int) { ReadErrors(step); });
    step.error_poll->Start(UV_READABLE);
    MindDoor();
    step.late = std::make_unique<UvTimer>(loop_, [this, &step] { OnLate(step); });
    step.late->StartAfter(options_.answer_timeout);
    return absl::OkStatus();
  }

  // What it writes on stdout is nothing of ours.
  static void Drain(Step& step) {
    char bytes[4096];
    const ssize_t n = read(step.channel.get(), bytes, sizeof(bytes));
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
      step.out_poll.reset();
    }
  }

  // Whether there was something.
  bool ReadErrors(Step& step) {
    char bytes[4096];
    const ssize_t n = read(step.errors.get(), bytes, sizeof(bytes));
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
      step.error_poll.reset();
    }
    for (const char c : absl::string_view(bytes, n > 0 ? static_cast<size_t>(n) : 0)) {
      if (c == '\n' || step.line.size() >= kStderrLineBytesMax) {
        AddLine(step, std::exchange(step.line, ""));
      }
      if (c != '\n' && c != '\r') {
        step.line.push_back(c);
      }
    }
    return n > 0;
  }

  void AddLine(Step& step, const std::string& line) {
    if (line.empty()) {
      return;
    }
    const bool all_there =
        std::all_of(step.nodes.begin(), step.nodes.end(), [this, &step](size_t index) {
          return nodes_.at(index).connected || nodes_.at(index).step != &step;
        });
    if (all_there && !stopping_) {  // else it is in the sentence of a failure
      LogInfo(absl::StrCat(options_.program, ": ", line));
    }
    step.tail.push_back(line);
    if (step.tail.size() > kTailLines) {
      step.tail.pop_front();
    }
    TakeEnds(step, line);
  }

  // srun goes on while other agents live, and says whose has failed:
  // "srun: error: node[1-2]: tasks 0-1: Exited with exit code 1".
  void TakeEnds(const Step& step, const std::string& line) {
    const std::string error = ": error: ";
    const size_t begin = line.find(error);
    const size_t end = line.find(": task");
    if (begin == std::string::npos || end == std::string::npos || end < begin + error.size()) {
      return;
    }
    const absl::StatusOr<std::vector<std::string>> hosts =
        ExpandHostList(line.substr(begin + error.size(), end - begin - error.size()));
    for (const size_t index : hosts.ok() ? step.nodes : std::vector<size_t>()) {
      Node& node = nodes_.at(index);
      if (node.step != &step ||
          std::find(hosts->begin(), hosts->end(), node.target.host) == hosts->end()) {
        continue;
      }
      if (!node.connected) {
        Fail(index, absl::StrJoin(step.tail, " | "));
        continue;
      }
      node.step = nullptr;
      node.connected = false;
      if (!stopping_) {
        callbacks_.on_exit(index, absl::StrCat(node.target.host, ": ", line));
      }
    }
    MindDoor();
  }

  void MindDoor() {
    if (door_ != nullptr && !stopping_) {
      door_->Await(
          static_cast<size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](const auto& node) {
            return node.second.step != nullptr && !node.second.connected;
          })));
    }
  }

  std::map<size_t, Node>::iterator Find(const std::string& host) {
    return std::find_if(nodes_.begin(), nodes_.end(),
                        [&host](const auto& one) { return one.second.target.host == host; });
  }

  bool MayCome(const std::string& host) {
    const auto node = Find(host);
    return node != nodes_.end() && node->second.step != nullptr && !node->second.connected &&
           node->second.channel == nullptr;
  }

  void OnAgent(const std::string& host, UniqueFd socket) {
    const auto node = Find(host);
    const size_t index = node->first;
    AgentBootstrap bootstrap = node->second.target.bootstrap;
    bootstrap.secret.clear();  // it came with the ticket
    absl::StatusOr<std::string> frame = BootstrapFrame(bootstrap);
    if (!frame.ok()) {
      return Fail(index, std::string(frame.status().message()));
    }
    node->second.channel = std::make_unique<BootstrapChannel>(
        loop_, std::move(socket), *std::move(frame), nullptr,
        BootstrapChannel::Callbacks{
            [this, index](UniqueFd ready) { OnReady(index, std::move(ready)); },
            [this, index](const std::string& why, bool) {
              nodes_.at(index).channel.reset();
              Fail(index, why);
            }});
  }

  void OnReady(size_t index, UniqueFd socket) {
    Node& node = nodes_.at(index);
    node.channel.reset();
    node.connected = true;
    MindDoor();
    LogDebug(absl::StrCat(node.target.host, ": the agent answers"));
    if (!stopping_) {
      callbacks_.on_connected(index, std::move(socket));
    }
  }

  void OnLate(Step& step) {
    for (const size_t index : std::vector<size_t>(step.nodes)) {
      if (nodes_.at(index).step == &step && !nodes_.at(index).connected) {
        Fail(index,
             absl::StrCat("no call within ", absl::FormatDuration(options_.answer_timeout), " (to ",
                          absl::StrJoin(door_->ticket().targets, ", "), ")", Tail(step),
                          "; can the node connect to this one? --port-range, --iface and ",
                          "a firewall decide"));
      }
    }
  }

  static std::string Tail(const Step& step) {
    return step.tail.empty() ? "" : absl::StrCat(": ", absl::StrJoin(step.tail, " | "));
  }

  void Reap() {
    for (auto at = steps_.begin(); at != steps_.end();) {
      const auto step = at++;
      int status = 0;
      if (step->pid > 0 && waitpid(step->pid, &status, WNOHANG) == step->pid) {
        step->pid = -1;
        OnExit(step, status);
      }
    }
    CheckStopped();
  }

  void OnExit(std::list<Step>::iterator step, int status) {
    while (ReadErrors(*step)) {
    }
    AddLine(*step, std::exchange(step->line, ""));
    const std::string how = absl::StrCat(options_.program, " ", HowItEnded(status), Tail(*step));
    for (const size_t index : step->nodes) {
      Node& node = nodes_.at(index);
      if (node.step != &*step) {
        continue;  // it has failed before
      }
      if (!node.connected) {
        Fail(index, how);
        continue;
      }
      node.step = nullptr;
      node.connected = false;
      if (!stopping_) {
        callbacks_.on_exit(index, absl::StrCat(node.target.host, ": ", how));
      }
    }
    steps_.erase(step);
  }

  void Fail(size_t index, const std::string& reason) {
    Node& node = nodes_.at(index);
    node.step = nullptr;
    node.channel.reset();
    MindDoor();
    if (!stopping_) {
      callbacks_.on_failed(index, absl::StrCat(node.target.host, ": ", reason));
    }
  }

  void Signal(int signo) {
    for (const Step& step : steps_) {
      if (step.pid > 0) {
        kill(-step.pid, signo);
      }
    }
  }

  // srun's death is that of all its processes at once, so it is signalled last.
  void Urge() {
    switch (urged_++) {
      case 0:
        Signal(SIGTERM);
        break;
      case 1:
        Signal(SIGKILL);
        break;
      default:
        LogWarning(
            absl::StrCat(options_.program, " does not end after SIGKILL: left to the kernel"));
        return std::exchange(stop_done_, nullptr)();
    }
    urge_->StartAfter(kKillAfter);
  }

  void CheckStopped() {
    if (stopping_ && steps_.empty() && stop_done_ != nullptr) {
      urge_.reset();
      std::exchange(stop_done_, nullptr)();
    }
  }

  uv_loop_t* const loop_;
  const StepOptions options_;
  Callbacks callbacks_;
  std::unique_ptr<DialDoor> door_;  // once we listen
  std::map<size_t, Node> nodes_;
  std::deque<size_t> waiting_;
  std::list<Step> steps_;
  bool stopping_ = false;
  int urged_ = 0;
  std::function<void()> stop_done_;
  std::unique_ptr<UvTimer> urge_;
  UvTimer pump_;
  UvSignal child_;
};

}  // namespace

std::unique_ptr<Starter> MakeStepStarter(uv_loop_t* loop, StepOptions options) {
  return std::make_unique<StepStarter>(loop, std::move(options));
}

}  // namespace muster
