// The host of the round machine: timers, connections, requests of the user.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/numbers.h"
#include "rendezvous/core/replay.h"
#include "tests/sim/world.h"

namespace muster::sim {

void World::StepMaster(const RoundEvent& event) {
  const std::vector<RoundEffect> effects = Step(config_, master_, event, ToTime(now_));
  // A whole check is O(N): in big worlds now and then, and whenever something else than an answer
  // came of the event.
  const bool whole = options_.agents <= 256 || effects.size() > 4 ||
                     ++master_steps_ % (uint64_t{8} * options_.agents) == 0;
  FailIf(checker_->Check(master_, effects, whole));
  CheckProgress();
  if (master_.phase == JobPhase::kStopping && master_.stop_reason == StopReason::kGrowth &&
      grown_last_ != master_.round) {
    grown_last_ = master_.round;
    ++grown_;
  }
  for (const auto& [place, vacancy] : master_.next.vacant) {
    for (uint32_t local = 0; local < master_.members[place].workers; ++local) {
      lost_.insert({master_.chain, master_.members[place].RankAt(local)});
    }
  }
  DoAll(effects);
}

namespace {

// The journal's codec refuses negative durations, and then no master can take the job over.
absl::Status CheckReadable(const JournalRecord& record) {
  bool negative = record.progress.has_value() && record.progress->lived < absl::ZeroDuration();
  for (const Beat& beat : record.exits) {
    for (const WorkerExit& exit : beat.exits) {
      negative = negative || exit.age < absl::ZeroDuration();
    }
  }
  return negative ? absl::InternalError("a record of the journal has a negative duration")
                  : absl::OkStatus();
}

}  // namespace

// As the service does: what follows a Persist waits for the disk.
void World::DoAll(const std::vector<RoundEffect>& effects) {
  for (const RoundEffect& effect : effects) {
    if (const auto* persist = std::get_if<Persist>(&effect)) {
      FailIf(CheckReadable(persist->record));
      unwritten_.push_back(persist->record);
      const Nanos delay = Chance(0.05) ? Between(0, 2 * kSecond) : Between(kMilli / 10, 5 * kMilli);
      written_at_ = std::max(written_at_, now_ + delay);
      queue_.Push({written_at_, 0, config_.epoch, 0, 0, Kind::kPersisted});
    }
    if (const auto* arm = std::get_if<ArmTimer>(&effect)) {
      Do(*arm);
    } else if (!held_.empty() || std::holds_alternative<Persist>(effect)) {
      held_.push_back(effect);
    } else {
      std::visit([this](const auto& one) { Do(one); }, effect);
    }
  }
}

void World::Persisted(uint64_t epoch) {
  if (epoch != config_.epoch || now_ < master_down_) {
    return;  // of a master that is no more
  }
  if (unwritten_.front().round.has_value()) {
    journal_.clear();
  }
  journal_.push_back(std::move(unwritten_.front()));
  unwritten_.pop_front();
  do {
    const RoundEffect effect = std::move(held_.front());
    held_.pop_front();
    std::visit([this](const auto& one) { Do(one); }, effect);
  } while (!held_.empty() && !std::holds_alternative<Persist>(held_.front()));
}

// kill -9. Of what it was writing some may be on the disk.
void World::CrashMaster(Nanos length) {
  if (over_ >= 0 || now_ < master_down_) {
    return;
  }
  for (uint64_t whole = rng_.Below(unwritten_.size() + 1); whole > 0; --whole) {
    if (unwritten_.front().round.has_value()) {
      journal_.clear();
    }
    journal_.push_back(std::move(unwritten_.front()));
    unwritten_.pop_front();
  }
  unwritten_.clear();
  held_.clear();
  ++master_timer_;
  master_frozen_ = 0;
  master_down_ = now_ + std::max(length, kMilli);
  connection_of_.clear();
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i].open) {
      connections_[i].open = false;
      Close(i + 1, /*agent_sees=*/true, /*master_sees=*/false);
    }
  }
  queue_.Push({master_down_, 0, 0, 0, 0, Kind::kMasterBack});
}

void World::TakeOver() {
  ++config_.epoch;
  master_ = RoundState();
  for (const JournalRecord& record : journal_) {
    FailIf(Replay(config_, master_, record));
  }
  if (!journal_.empty()) {
    Resurrect(config_, master_, ToTime(now_));
  }
  FailIf(checker_->TakenOver(master_));
  CheckTakenOver();
  if (master_.phase == JobPhase::kEnded) {
    return Do(JobEnded{});  // the master before had written it down, and died of the next step
  }
  StepMaster(TimePassed{});
  if (user_stop_ != 0 && master_.user_signo == 0 && !master_.report.ended) {
    StepMaster(StopAsked{user_stop_, false});  // nobody had heard of it: the user says it again
  }
}

void World::Do(const Reply& effect) {
  Connection& c = connections_[effect.to.value - 1];
  if (const auto* admitted = std::get_if<Admitted>(&effect.message)) {
    c.node = admitted->node;
    c.incarnation = admitted->incarnation;
    connection_of_.resize(std::max<size_t>(connection_of_.size(), c.node.value + 1));
    connection_of_[c.node.value] = effect.to.value;
    Mix(admitted->incarnation.value);
  }
  if (c.open && effect.asks_again) {
    c.open = false;
    Close(effect.to.value, /*agent_sees=*/true, /*master_sees=*/false);
  } else if (c.open) {
    SendToAgent(effect.to.value, effect.message);
  }
}

void World::Do(const Send& effect) {
  const uint64_t number = ConnectionOf(effect.node);
  if (number == 0) {
    return;
  }
  const Connection& c = connections_[number - 1];
  if (c.open && c.incarnation == effect.incarnation) {
    Mix(effect.directive.round.Token() ^ static_cast<uint64_t>(effect.directive.wanted));
    SendToAgent(number, effect.directive);
  }
}

void World::Do(const Tell& effect) {
  if (options_.trace != nullptr) {
    options_.trace(effect.text);
  }
  for (const char c : effect.text) {
    Mix(static_cast<uint64_t>(c));
  }
}

void World::Do(const ArmTimer& effect) {
  ++master_timer_;
  if (effect.at != absl::InfiniteFuture()) {
    const Nanos at = std::max(ToNanos(effect.at), now_);
    queue_.Push({at, 0, master_timer_, 0, 0, Kind::kMasterTimer});
  }
}

void World::Do(const DropLink& effect) {
  const uint64_t number = ConnectionOf(effect.node);
  if (number == 0) {
    return;
  }
  Connection& c = connections_[number - 1];
  if (c.open && c.incarnation == effect.incarnation) {
    c.open = false;
    Close(number, /*agent_sees=*/true, /*master_sees=*/false);
  }
}

void World::Do(const RoundStarted& effect) {
  ++rounds_;
  Mix(effect.round.Token());
  if (master_.chain == effect.round) {
    CheckOrder();
  }
}

void World::Do(const WorkersStarted& effect) { Mix(effect.round.Token()); }

// A host that is frozen is not reached; at others it may fail for any reason.
void World::Do(const StartAgain& effect) {
  ++came_back_;
  Mix(effect.attempt);
  uint32_t key = 0;
  (void)absl::SimpleAtoi(effect.key.substr(effect.key.find('/') + 1), &key);
  bool reached = healed_ || (!Chance(start_fail_chance_) && off_until_[key] <= now_);
  for (const uint32_t who : lives_[key]) {
    const Process& p = processes_[who];
    reached &= !p.alive || p.finished || p.frozen_until <= now_;
  }
  if (reached) {
    return AddProcess(key, now_ + Between(20 * kMilli, kSecond), effect.attempt);
  }
  ++starts_failed_;
  Post(Between(10 * kMilli, 3 * kSecond), Kind::kStartFailed, key, 0, effect.attempt);
}

void World::StartFails(const Event& event) {
  if (event.number == 0 && config_.machines_return) {
    off_until_[event.who] = now_ + Between(0, 60 * kSecond);
  }
  StepMaster(StartFailed{absl::StrCat("list/", event.who), "a start failed",
                         static_cast<uint32_t>(event.number), event.slot == 1});
}

void World::Do(const NodeMissing& effect) { Mix(effect.place); }

void World::Do(const SignalHeard& effect) { Mix(effect.node.value); }

void World::Do(const JobEnded&) {
  over_ = now_;
  Heal();
  if (stays_) {
    return;
  }
  serving_ = false;
  for (size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i].open) {
      connections_[i].open = false;
      Close(i + 1, /*agent_sees=*/true, /*master_sees=*/false);
    }
  }
}

void World::MasterClosed(uint64_t connection) {
  Connection& c = connections_[connection - 1];
  if (!c.open) {
    return;
  }
  c.open = false;
  // Only the connection that the node has now says something about the node.
  if (c.node != NodeId() && ConnectionOf(c.node) == connection) {
    StepMaster(LinkClosed{c.node, c.incarnation});
  }
}

void World::Ask(Nanos at, uint64_t request) {
  asks_.emplace(at, request);
  queue_.Push({at, 0, 0, 0, 0, Kind::kMasterAsked});
}

// Who asks waits for the answer before asking for something else, also while a master is frozen.
void World::MasterAsked() {
  const uint64_t request = asks_.extract(asks_.begin()).mapped();
  switch (request) {
    case 0:
      signals_asked_[master_.chain] += master_.phase == JobPhase::kRunning ? 1 : 0;
      return StepMaster(SignalAsked{SIGUSR1});
    case 1:
      return StepMaster(PauseAsked{true});
    case 2:
      return StepMaster(PauseAsked{false});
    case 5:
      return StepMaster(RestartAsked{});
    default:
      user_stop_ = SIGINT;
      return StepMaster(StopAsked{SIGINT, request == 4});
  }
}

}  // namespace muster::sim
