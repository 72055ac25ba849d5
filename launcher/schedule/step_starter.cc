#include "launcher/schedule/step_starter.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/schedule/bootstrap_channel.h"
#include "launcher/schedule/child_process.h"
#include "launcher/schedule/dial_door.h"
#include "launcher/schedule/last_words.h"
#include "launcher/schedule/said_by.h"
#include "proto/base/check.h"
#include "proto/base/log.h"
#include "proto/base/status_macros.h"
#include "proto/wire/dial.h"
#include "proto/wire/uv_handles.h"

namespace muster {
namespace {

// A command whose agents have all left ends by itself.
constexpr absl::Duration kEndWithin = absl::Seconds(1);
constexpr absl::Duration kKillAfter = absl::Seconds(2);
// srun and the daemons of its step speak through one pipe, in any order: for the rest of it.
constexpr absl::Duration kRestWithin = absl::Milliseconds(500);
constexpr absl::string_view kOwnWords = "muster: ";  // proto/base/log

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
    // A step goes on for its other nodes; of this one it says nothing any more.
    nodes_[index] = Node{std::move(target)};
    waiting_.push_back(index);
    pump_.StartAfter(absl::ZeroDuration());  // all that are asked for now come in one step
  }

  void Stop(std::function<void()> done) override {
    stopping_ = true;
    stop_done_ = std::move(done);
    waiting_.clear();
    steps_waiting_.clear();
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
    std::unique_ptr<LastWords> told;   // by its agents, on stdout
    std::unique_ptr<LastWords> words;  // its own
    std::unique_ptr<UvTimer> late;
    std::string agent_said;  // last, of what its agents say beside their connections; "" = nothing
    std::map<size_t, StepEnd> unsaid =
        {};  // of nodes that have not called; why may be in the next line
    std::unique_ptr<UvTimer> rest = nullptr;
  };
  struct Node {
    StartTarget target;
    Step* step = nullptr;  // in steps_; null: it does not run
    bool connected = false;
    std::unique_ptr<BootstrapChannel> channel = nullptr;
    bool unreachable = false;  // we are, for this one
  };

  void Pump() {
    if (stopping_) {
      return CheckStopped();
    }
    if (waiting_.empty() && steps_waiting_.empty()) {
      return;
    }
    if (options_.command_of_one) {
      while (!waiting_.empty() && Awaited() < kStartsAtOnceMax) {
        const size_t index = waiting_.front();
        waiting_.pop_front();
        StartStep({nodes_.at(index).target.host});
      }
      return;
    }
    std::vector<std::string> hosts;
    for (const size_t index : std::exchange(waiting_, {})) {
      hosts.push_back(nodes_.at(index).target.host);
    }
    if (!hosts.empty()) {
      for (std::vector<std::string>& step : options_.steps(hosts)) {
        steps_waiting_.push_back(std::move(step));
      }
    }
    while (!steps_waiting_.empty() && StepsAwaited() < kStartsAtOnceMax) {
      const std::vector<std::string> step = std::move(steps_waiting_.front());
      steps_waiting_.pop_front();
      StartStep(step);
    }
  }

  // Of which a node has not called yet: each is a process here and work for the scheduler's daemon.
  size_t StepsAwaited() const {
    std::set<const Step*> awaited;
    for (const auto& [index, node] : nodes_) {
      if (node.step != nullptr && !node.connected) {
        awaited.insert(node.step);
      }
    }
    return awaited.size();
  }

  void StartStep(const std::vector<std::string>& hosts) {
    absl::Status status = Listen();
    if (status.ok()) {
      status = Spawn(hosts);
    }
    for (const std::string& host : hosts) {
      if (!status.ok()) {
        Fail(Find(host)->first, std::string(status.message()));
      }
    }
  }

  absl::Status Listen() {
    if (door_ != nullptr) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(StepDoor door, options_.listen());
    DialTicket ticket{options_.job_id, options_.secret, std::move(door.targets)};
    LogDebug(absl::StrCat("agents call ", absl::StrJoin(ticket.targets, ", ")));
    door_ = std::make_unique<DialDoor>(
        loop_, std::move(door.socket), std::move(ticket), nodes_.size(),
        DialDoor::Callbacks{[this](const std::string& node) { return MayCome(node); },
                            [this](const std::string& node, UniqueFd socket) {
                              OnAgent(node, std::move(socket));
                            }});
    return absl::OkStatus();
  }

  absl::Status Spawn(const std::vector<std::string>& hosts) {
    if (options_.prepare) {
      RETURN_IF_ERROR(options_.prepare());
    }
    const std::vector<std::string> argv =
        options_.command_of_one ? options_.command_of_one(hosts.front(), door_->ticket())
                                : options_.command(hosts);
    ASSIGN_OR_RETURN(Child child, SpawnChild(argv, options_.environment, options_.leads));
    LogDebug(absl::StrCat(options_.program, " runs, process ", child.pid, ": ",
                          absl::StrJoin(argv, " ")));
    Step& step = steps_.emplace_back();
    step.pid = child.pid;
    for (const std::string& host : hosts) {
      const size_t index = Find(host)->first;
      step.nodes.push_back(index);
      nodes_.at(index).step = &step;
      if (callbacks_.on_spawned) {
        callbacks_.on_spawned(index, step.pid);
      }
    }
    step.words =
        std::make_unique<LastWords>(loop_, std::move(child.errors),
                                    [this, &step](const std::string& line) { OnLine(step, line); });
    step.late = std::make_unique<UvTimer>(loop_, [this, &step] { OnLate(step); });
    step.late->StartAfter(options_.answer_timeout);
    step.rest = std::make_unique<UvTimer>(loop_, [this, &step] { TellUnsaid(step); });
    // It fits into the channel, which is empty. A child that is gone already says why by its exit.
    const std::string text = options_.command_of_one ? "" : TicketText(door_->ticket());
    (void)!send(child.channel.get(), text.data(), text.size(), MSG_NOSIGNAL);
    shutdown(child.channel.get(), SHUT_WR);
    step.told =
        std::make_unique<LastWords>(loop_, std::move(child.channel),
                                    [this, &step](const std::string& line) { OnTold(step, line); });
    MindDoor();
    return absl::OkStatus();
  }

  // Other lines are nothing of ours.
  void OnTold(const Step& step, const std::string& line) {
    const std::optional<Unreachable> said = ParseUnreachable(line);
    const auto node = said ? Find(said->node) : nodes_.end();
    if (node == nodes_.end() || node->second.step != &step || node->second.connected) {
      return;
    }
    LogDebug(absl::StrCat(said->node, ": cannot connect to launch: ", said->why));
    node->second.unreachable = true;
    const bool all = std::all_of(nodes_.begin(), nodes_.end(), [](const auto& one) {
      return one.second.unreachable && !one.second.connected;
    });
    if (all && !stopping_ && options_.on_unreachable) {
      options_.on_unreachable(absl::StrCat(said->node, ": ", said->why));
    }
  }

  void OnLine(Step& step, const std::string& line) {
    const bool all_there =
        std::all_of(step.nodes.begin(), step.nodes.end(), [this, &step](size_t index) {
          return nodes_.at(index).connected || nodes_.at(index).step != &step;
        });
    if (all_there && !stopping_) {  // else it is in the sentence of a failure
      LogInfo(SaidBy(options_.program, line));
    }
    if (absl::StartsWith(line, kOwnWords)) {
      step.agent_said = line.substr(kOwnWords.size());
    }
    StepEnd end = options_.end_of(line);
    if (end.by_itself && !step.agent_said.empty()) {
      end.how = absl::StrCat(end.how, "; an agent said: ", step.agent_said);
    }
    if (end.cancelled && callbacks_.on_cancelled) {
      callbacks_.on_cancelled();
    }
    for (const std::string& host : end.hosts) {
      const auto node = Find(host);
      if (node == nodes_.end() || node->second.step != &step) {
        continue;
      }
      if (end.by_itself && !node->second.connected) {  // why comes beside it
        step.unsaid.emplace(node->first, end);
        step.rest->StartAfter(kRestWithin);
      } else {
        Ended(node->first, end);
      }
    }
  }

  void TellUnsaid(Step& step) {
    for (const auto& [index, end] : std::exchange(step.unsaid, {})) {
      if (nodes_.at(index).step == &step) {
        Ended(index, end);
      }
    }
  }

  // Agents that were started and have not come.
  size_t Awaited() const {
    return static_cast<size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](const auto& node) {
      return node.second.step != nullptr && !node.second.connected;
    }));
  }

  void MindDoor() {
    if (door_ == nullptr || stopping_) {
      return;
    }
    const size_t awaited = Awaited();
    door_->Await(awaited);
    if (!waiting_.empty() || !steps_waiting_.empty()) {
      pump_.StartAfter(absl::ZeroDuration());
    } else if (awaited == 0 && options_.on_all_called) {
      options_.on_all_called();
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
        loop_, std::move(socket), *std::move(frame),
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

  void OnLate(const Step& step) {
    for (const size_t index : step.nodes) {
      if (nodes_.at(index).step == &step && !nodes_.at(index).connected) {
        Fail(index,
             absl::StrCat("no call within ", absl::FormatDuration(options_.answer_timeout), " (to ",
                          absl::StrJoin(door_->ticket().targets, ", "), ")", step.words->Text(),
                          options_.late_hint.empty() ? "" : "; ", options_.late_hint));
      }
    }
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
    step->words->Finish();
    TellUnsaid(*step);
    const StepEnd end = HowAgentsEnded(*step, status);
    for (const size_t index : step->nodes) {
      Node& node = nodes_.at(index);
      if (node.step != &*step) {
        continue;  // it has failed before
      }
      if (options_.agents_outlive && node.connected && status != 0) {
        node.step = nullptr;
        LogDebug(absl::StrCat(node.target.host, ": ", end.how));
      } else {
        Ended(index, end);
      }
    }
    steps_.erase(step);
  }

  StepEnd HowAgentsEnded(const Step& step, int status) const {
    for (const std::string& line : step.words->lines()) {
      if (StepEnd end = options_.end_of(line); end.hosts.empty() && !end.how.empty()) {
        return end;
      }
    }
    return {{}, absl::StrCat(options_.program, " ", HowItEnded(status), step.words->Text())};
  }

  // This node's agent has ended, or will never come.
  void Ended(size_t index, const StepEnd& end) {
    Node& node = nodes_.at(index);
    if (!node.connected) {
      return Fail(index, end.how);
    }
    node.step = nullptr;
    node.connected = false;
    if (!stopping_) {
      callbacks_.on_exit(index, absl::StrCat(node.target.host, ": ", end.how), end.killed);
    }
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
  std::deque<std::vector<std::string>> steps_waiting_;  // hosts of each, until their turn comes
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
