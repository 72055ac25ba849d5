// many-agents HOST:PORT AGENTS SECRET_FILE [again]: as many agents of one job as asked for, each
// with a machine and a connection of its own, in this process; nothing is spawned. Prints, when all
// run:
//   all_ms      from the first connection until every agent has its ranks, all starting at once
//   last_ms     from the last agent's Join until every agent has its ranks, all others waiting
//   bytes       that the master sent to one agent in the second (mean), in which all wait for the
//               last one for 2.5 beats and then run until 2.8. An eighth came before the count, so
//               that what the job waits for names as many nodes to the first as to the others.
// Each of the two is a job of its own; after each it prints "job N" and waits for a line on stdin,
// so that the master can be looked at while all are connected. With `again` there is only the first
// job, and during its wait the master is replaced; the line comes when the new one listens:
//   back_ms     from that line until it has admitted every agent
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "agent/core/agent_machine.h"
#include "agent/io/master_client.h"
#include "proto/base/clock.h"
#include "proto/tls/tls_thread.h"
#include "proto/wire/secret.h"
#include "proto/wire/uv_handles.h"
#include "tests/bench/tcp_bytes.h"

namespace muster {
namespace {

// As long for the first as for the last: what a job's size costs is asked, not what names cost.
std::string HostName(uint32_t number) { return absl::StrFormat("host%05d", number); }

struct JobOfMany {
  std::string target;
  std::string secret;
  uint32_t agents = 0;
  std::string id;
  TlsThread* tls = nullptr;  // Main's; one for all, as a process has
};

// The loop around one agent's decisions; its workers are for ever about to start, since what an
// agent does with a machine of its own is not to be measured here.
class Agent {
 public:
  Agent(uv_loop_t* loop, const JobOfMany& job, uint32_t number)
      : timer_(loop, [this] { Post(TimeElapsed{}); }), client_(loop, OptionsOf(job, number)) {
    Join& join = config_.join;
    join.key = absl::StrCat("agent/", number);
    join.hostname = HostName(number);
    join.address = absl::StrCat("10.", number / 65536, ".", number / 256 % 256, ".", number % 256);
    join.workers = 16;
    join.life = life_;
  }

  void Start() {
    client_.link().Start({[this] {
                            up_at = BootNow();
                            Post(LinkUp{});
                          },
                          [this](const std::string& why, bool told) {
                            Post(LinkDown{why, false, told});
                          },
                          [this](const MasterMessage& message) { Post(MessageReceived{message}); },
                          nullptr, nullptr, nullptr});
  }
  void Stop(const std::function<void()>& done) { client_.link().Stop(done); }

  absl::Time up_at = absl::InfiniteFuture();
  absl::Time joined_at = absl::InfiniteFuture();  // the first Join went out
  absl::Time runs_at = absl::InfiniteFuture();    // it has its ranks
  bool admitted() const { return state_.admitted; }
  uint64_t epoch() const { return state_.epoch_max; }  // of the masters that have admitted it

 private:
  MasterClientOptions OptionsOf(const JobOfMany& job, uint32_t number) {
    MasterClientOptions options;
    options.targets = {job.target};
    options.secret = job.secret;
    options.tls = job.tls;
    options.job_id = job.id;
    options.terms.nodes_min = options.terms.nodes_max = job.agents;
    options.connect_timeout = absl::Seconds(60);  // one process makes every connection
    options.hostname = HostName(number);
    options.life = life_;
    return options;
  }

  void Post(AgentEvent event) {
    events_.push_back(std::move(event));
    if (std::exchange(stepping_, true)) {
      return;
    }
    while (!events_.empty()) {
      const AgentEvent next = std::move(events_.front());
      events_.pop_front();
      for (const AgentEffect& effect : Step(config_, state_, next, BootNow())) {
        std::visit([this](const auto& one) { Do(one); }, effect);
      }
    }
    stepping_ = false;
  }

  void Do(const SendToMaster& effect) {
    if (std::holds_alternative<Join>(effect.message)) {
      joined_at = std::min(joined_at, BootNow());
    }
    client_.link().Send(effect.message);
  }
  void Do(const OpenStore&) { Post(StorePortReady{4000}); }
  void Do(const SpawnRound&) { runs_at = BootNow(); }
  void Do(const SetTimer& effect) { timer_.StartAt(effect.at); }
  template <typename Other>
  void Do(const Other&) {}  // nothing runs here that could be stopped, leased or shown

  const uint64_t life_ = NewLife();
  AgentConfig config_;
  AgentState state_;
  std::deque<AgentEvent> events_;
  bool stepping_ = false;
  UvTimer timer_;
  MasterClient client_;
};

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "many-agents: %s\n", why.c_str());
  std::exit(1);
}

class Job {
 public:
  Job(uv_loop_t* loop, const JobOfMany& job) : loop_(loop) {
    for (uint32_t i = 0; i < job.agents; ++i) {
      agents_.push_back(std::make_unique<Agent>(loop, job, i));
    }
  }

  void Start(size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      agents_[i]->Start();
    }
  }

  template <typename Condition>
  void RunUntil(const char* what, size_t count, Condition condition) {
    const absl::Time deadline = BootNow() + absl::Seconds(60);
    UvTimer look(loop_, [] {});  // wakes the loop for the deadline
    look.StartEvery(absl::Seconds(1));
    for (size_t i = 0; i < count;) {
      if (condition(*agents_[i])) {
        ++i;
      } else if (BootNow() > deadline) {
        Die(absl::StrCat(count - i, " of ", count, " agents: not ", what, " within 60 s"));
      } else {
        uv_run(loop_, UV_RUN_ONCE);
      }
    }
  }

  void RunUntil(absl::Time when) {
    UvTimer wake(loop_, [] {});
    wake.StartAt(when);
    UvRunUntil(loop_, [when] { return BootNow() >= when; });
  }

  uint64_t epoch() const { return agents_.front()->epoch(); }
  double AllMs() const {
    absl::Time first = absl::InfiniteFuture();
    for (const auto& agent : agents_) {
      first = std::min(first, agent->up_at);
    }
    return absl::ToDoubleMilliseconds(LastRuns() - first);
  }
  double LastMs() const {
    return absl::ToDoubleMilliseconds(LastRuns() - agents_.back()->joined_at);
  }

  void Stop() {
    size_t left = agents_.size();
    for (const auto& agent : agents_) {
      agent->Stop([&left] { --left; });
    }
    UvRunUntil(loop_, [&left] { return left == 0; });
    agents_.clear();
    uv_run(loop_, UV_RUN_NOWAIT);
  }

 private:
  absl::Time LastRuns() const {
    absl::Time last = absl::InfinitePast();
    for (const auto& agent : agents_) {
      last = std::max(last, agent->runs_at);
    }
    return last;
  }

  uv_loop_t* const loop_;
  std::vector<std::unique_ptr<Agent>> agents_;
};

// While the reader looks, agents go on beating.
void AwaitLine(uv_loop_t* loop) {
  bool heard = false;
  UvPoll poll(loop, STDIN_FILENO, [&heard](int) {
    char byte = 0;
    heard = read(STDIN_FILENO, &byte, 1) <= 0 || byte == '\n';
  });
  poll.Start(UV_READABLE);
  UvRunUntil(loop, [&heard] { return heard; });
}

int Main(int argc, char** argv) {
  uint32_t agents = 0;
  const bool again = argc == 5 && absl::string_view(argv[4]) == "again";
  if ((argc != 4 && !again) || !absl::SimpleAtoi(argv[2], &agents) || agents < 2) {
    Die("usage: many-agents HOST:PORT AGENTS SECRET_FILE [again]");
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const absl::StatusOr<std::string> secret = SecretFor(/*insecure=*/false, argv[3]);
  if (!secret.ok()) {
    Die(std::string(secret.status().message()));
  }
  uv_loop_t loop;
  uv_loop_init(&loop);
  TlsThread tls;
  const auto runs = [](const Agent& agent) { return agent.runs_at < absl::InfiniteFuture(); };

  Job at_once(&loop, {argv[1], *secret, agents, "at-once", &tls});
  at_once.Start(0, agents);
  at_once.RunUntil("running", agents, runs);
  std::printf("job 1: all_ms %.1f\n", at_once.AllMs());
  std::fflush(stdout);
  const uint64_t epoch = at_once.epoch();
  AwaitLine(&loop);
  if (again) {
    const absl::Time listens = BootNow();
    at_once.RunUntil("back", agents, [epoch](const Agent& agent) { return agent.epoch() > epoch; });
    std::printf("job 1: back_ms %.1f\n", absl::ToDoubleMilliseconds(BootNow() - listens));
    at_once.Stop();
    return 0;
  }
  at_once.Stop();

  Job one_late(&loop, {argv[1], *secret, agents, "one-late", &tls});
  const auto admitted = [](const Agent& agent) { return agent.admitted(); };
  one_late.Start(0, agents / 8);
  one_late.RunUntil("admitted", agents / 8, admitted);
  one_late.RunUntil(BootNow() + 1.5 * kBeatInterval);
  const uint64_t before = TcpBytesReceived();
  const absl::Time begun = BootNow();
  one_late.Start(agents / 8, agents - 1);
  one_late.RunUntil("admitted", agents - 1, admitted);
  one_late.RunUntil(begun + 2.5 * kBeatInterval);
  one_late.Start(agents - 1, agents);
  one_late.RunUntil("running", agents, runs);
  one_late.RunUntil(begun + 2.8 * kBeatInterval);
  std::printf("job 2: last_ms %.1f bytes %.1f\n", one_late.LastMs(),
              static_cast<double>(TcpBytesReceived() - before) / agents);
  std::fflush(stdout);
  AwaitLine(&loop);
  one_late.Stop();
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  const int code = muster::Main(argc, argv);
  std::fflush(nullptr);
  _exit(code);  // gRPC's farewell is not measured
}
