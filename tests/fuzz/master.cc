// The master's decisions, on whatever agents of a job say that the wire lets through: broken ones,
// and such as mean harm, with rounds, ranks and numbers that are not theirs. Now and then the next
// master takes over, and has to be able to read what the one before has written.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "rendezvous/core/replay.h"
#include "rendezvous/core/round_machine.h"
#include "rendezvous/service/journal_codec.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

constexpr size_t kAgents = 3;
constexpr size_t kEventsMax = 300;
enum Event : char { kJoin, kBeat, kLeave, kLink, kTime, kUser, kNextMaster, kStart, kEvents };
enum Config : char {
  kOne = 1,
  kJournal = 2,
  kContinue = 4,
  kElastic = 8,
  kStarts = 16,
  kReturn = 32
};

class Job {
 public:
  explicit Job(absl::string_view bytes) : left_(bytes) {
    const uint8_t flags = Next();
    config_.job_id = "job";
    config_.restart = (flags & kOne) != 0 ? RestartMode::kOne : RestartMode::kAll;
    config_.journal = (flags & kJournal) != 0;
    config_.on_failure = (flags & kContinue) != 0 ? OnFailure::kContinue : OnFailure::kStop;
    config_.nodes_max = 2;
    config_.nodes_min = (flags & kElastic) != 0 ? 1 : 2;
    config_.starts_again = (flags & kStarts) != 0;
    config_.machines_return = config_.starts_again && (flags & kReturn) != 0;
    config_.restarts_max = 3;
    config_.rules.wait_first = absl::ZeroDuration();
  }

  void Run() {
    for (size_t i = 0; i < kEventsMax && !left_.empty(); ++i) {
      const uint8_t event = Next();
      Agent& agent = agents_.at(event / kEvents % kAgents);
      Take(static_cast<Event>(event % kEvents), agent);
    }
  }

 private:
  struct Agent {
    NodeId node;
    Incarnation incarnation;
    uint64_t seq = 0;
  };

  uint8_t Next() {
    if (left_.empty()) {
      return 0;
    }
    const auto byte = static_cast<uint8_t>(left_.front());
    left_.remove_prefix(1);
    return byte;
  }
  uint32_t Below(uint32_t n) { return Next() % n; }

  void Take(Event event, Agent& agent) {
    switch (event) {
      case kJoin:
        return Feed(JoinReceived{{static_cast<uint64_t>(&agent - agents_.data())}, NewJoin(agent)});
      case kBeat:
        return Feed(BeatReceived{NewBeat(agent)});
      case kLeave:
        return Feed(LeaveReceived{{agent.node, agent.incarnation, "it says so"}});
      case kLink:
        return Feed(LinkClosed{agent.node, agent.incarnation});
      case kTime: {
        // A step of zero is one to the timer: with a longer one the master has been asleep.
        constexpr std::array<int64_t, 6> kSteps = {10, 300, 2'000, 8'000, 700'000, 0};
        const int64_t step = kSteps.at(Below(kSteps.size()));
        const bool armed = state_.timer_at != absl::InfiniteFuture();
        now_ =
            step == 0 && armed ? std::max(now_, state_.timer_at) : now_ + absl::Milliseconds(step);
        return Feed(TimePassed{});
      }
      case kUser:
        return TakeUser(agent);
      case kNextMaster:
        return TakeOver();
      default:
        return Feed(StartFailed{KeyOf(agent), "no route", Below(3), Below(2) == 1});
    }
  }

  void TakeUser(const Agent& agent) {
    const uint8_t what = Next();
    switch (what % 5) {
      case 0:
        return Feed(StopAsked{15, what > 128});
      case 1:
        return Feed(SignalAsked{10});
      case 2:
        return Feed(PauseAsked{what > 128});
      case 3:
        return Feed(RestartAsked{1});
      default: {
        DrillOrder drill;
        drill.kind = static_cast<DrillKind>(Below(5));
        drill.length = absl::Seconds(1);
        return Feed(DrillAsked{1, drill, what > 128 ? std::to_string(Below(5)) : KeyOf(agent)});
      }
    }
  }

  std::string KeyOf(const Agent& agent) const {
    return absl::StrCat("list/", &agent - agents_.data());
  }

  Join NewJoin(const Agent& agent) {
    const uint8_t how = Next();
    Join join;
    join.key = (how & 1) != 0 ? "machine" : KeyOf(agent);
    join.key_is_exact = (how & 2) == 0;
    join.life = static_cast<uint64_t>(&agent - agents_.data()) + 1 + ((how & 4) != 0 ? 10 : 0);
    join.node_rank = (how & 8) != 0 ? static_cast<int32_t>(Below(4)) - 1 : -1;
    join.hostname = KeyOf(agent);
    join.address = "10.0.0.1";
    join.workers = (how & 16) != 0 ? 1 + Below(4) : 2;
    join.store_port = (how & 32) != 0 ? 0 : 4000;
    join.holds = (how & 64) != 0 ? RoundId{Below(3), Below(4)} : RoundId();
    for (uint32_t i = 0; (how & 128) != 0 && i < join.workers; ++i) {
      join.ranks.push_back(Below(5));
    }
    return join;
  }

  Beat NewBeat(Agent& agent) {
    const uint8_t how = Next();
    Beat beat;
    beat.node = agent.node;
    beat.incarnation = agent.incarnation;
    beat.seq = ++agent.seq;
    beat.phase = static_cast<AgentPhase>(how % 3);
    beat.round = state_.round;
    if ((how & 4) != 0) {
      beat.round = {Below(3), Below(6)};
    }
    beat.store_port = beat.phase == AgentPhase::kReady ? 4000 : 0;
    beat.workers_started = (how & 8) != 0 ? Below(256) : 2;
    beat.workers_alive = beat.workers_started;
    if ((how & 16) != 0) {
      beat.exits_from = Below(4);
      for (uint32_t left = Below(4); left > 0; --left) {
        beat.exits.push_back(NewExit());
      }
    }
    if ((how & 32) != 0) {
      beat.signals_done = Below(3);
      beat.drills_done = Below(3);
      beat.sought = {{Below(4)}};
      beat.awaited = {{Below(6)}, {kWorldSizeMax - 1}};
      beat.heard = {{10, Below(3)}};
      beat.paused = true;
    }
    if ((how & 64) != 0) {
      beat.stop_asked = 15;
    }
    if ((how & 128) != 0) {
      beat.restart_asked = state_.round;
    }
    return beat;
  }

  WorkerExit NewExit() {
    const uint8_t how = Next();
    WorkerExit exit;
    exit.local_rank.value = Below(4);
    exit.rank.value = (how & 1) != 0 ? kWorldSizeMax - 1 - Below(256) : Below(8);
    exit.kind = static_cast<ExitKind>((how >> 1) % 3);
    exit.code = (how & 8) != 0 ? 9 : 0;
    exit.stopped_by_us = (how & 16) != 0;
    if ((how & 32) != 0) {
      exit.because_of = Rank{(how & 64) != 0 ? kWorldSizeMax - 1 : Below(6)};
    }
    return exit;
  }

  void Feed(const RoundEvent& event) {
    for (const RoundEffect& effect : Step(config_, state_, event, now_)) {
      if (const auto* persist = std::get_if<Persist>(&effect)) {
        Keep(persist->record);
      } else if (const auto* reply = std::get_if<Reply>(&effect)) {
        if (const auto* admitted = std::get_if<Admitted>(&reply->message)) {
          agents_.at(reply->to.value) = {admitted->node, admitted->incarnation, 0};
        }
      }
    }
  }

  void Keep(const JournalRecord& record) {
    const absl::StatusOr<std::string> bytes = EncodeRecord(record);
    CHECK(bytes.ok());
    file_ = record.round.has_value() ? *bytes : absl::StrCat(file_, *bytes);
  }

  void TakeOver() {
    if (file_.empty()) {
      return;
    }
    const absl::StatusOr<JournalFile> file =
        DecodeJournal(absl::StrCat(*EncodeHeader({"job", "job", "boot", {}}), file_));
    CHECK(file.ok());
    ++config_.epoch;
    state_ = RoundState();
    file_.clear();
    const absl::Duration shift = absl::Hours(Below(3));  // its clock shows more
    for (const JournalRecord& record : file->records) {
      const JournalRecord ours = Shifted(record, shift);
      CHECK(Replay(config_, state_, ours).ok());
      Keep(ours);
    }
    now_ += shift;
    Resurrect(config_, state_, now_);
  }

  absl::string_view left_;
  RoundConfig config_;
  RoundState state_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  std::array<Agent, kAgents> agents_;
  std::string file_;  // of the journal
};

std::string Of(std::initializer_list<int> bytes) {
  std::string out;
  for (const int byte : bytes) {
    out.push_back(static_cast<char>(byte));
  }
  return out;
}

int Say(Event event, int agent) { return event + kEvents * agent; }

}  // namespace

std::vector<std::string> Seeds() {
  const std::string both = Of({Say(kJoin, 0), 0, Say(kJoin, 1), 0});
  const std::string run = Of({Say(kBeat, 0), 1, Say(kBeat, 1), 1});
  // Rank 0 fails; both end well; what was stopped.
  const std::string fails = Of({Say(kBeat, 0), 1 + 16, 0, 1, 8, 0, 0});
  const std::string ends = Of({Say(kBeat, 0), 1 + 16, 0, 2, 0, 0, 0, 0, 1, 1,  //
                               Say(kBeat, 1), 1 + 16, 0, 2, 0, 0, 2, 0, 1, 3});
  const std::string stopped = Of({Say(kBeat, 0), 0 + 16, 1, 1, 2 + 8 + 16, 1, 1,  //
                                  Say(kBeat, 1), 0 + 16, 0, 2, 2 + 16, 0, 2, 2 + 16, 1, 3});
  const std::string next = Of({Say(kNextMaster, 0)});
  std::vector<std::string> seeds;
  for (const int config : {0, 1, 2, 3, 4, 7, 8, 9, 11, 15, 18, 27}) {
    const std::string begin = Of({config}) + both + run;
    seeds.push_back(begin + ends);
    seeds.push_back(begin + fails + next + both + run + stopped + run + ends);
    seeds.push_back(begin + Of({Say(kLink, 1), Say(kTime, 0), 3, Say(kJoin, 2), 0}) + run + next);
    seeds.push_back(begin + Of({Say(kUser, 0), 3}) + next + both + stopped + run);
    seeds.push_back(begin + Of({Say(kUser, 0), 2 + 130, Say(kUser, 0), 2}) + fails + ends);
    seeds.push_back(begin + Of({Say(kLeave, 1), Say(kTime, 0), 4}) + both + run + stopped);
  }
  return seeds;
}

void Run(absl::string_view bytes) { Job(bytes).Run(); }

}  // namespace muster::fuzz
