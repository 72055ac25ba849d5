#include "tests/sim/world.h"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/check.h"

namespace muster::sim {
namespace {

constexpr Nanos kTooLong = 1800 * kSecond;  // after the heal: a job that still runs is stuck
constexpr uint32_t kRoundsOfAll = 64'000;   // agents times rounds, about

}  // namespace

Result Run(const Options& options) { return World(options).Run(); }

std::string CommandLine(const Options& options) {
  return absl::StrFormat("muster-sim --seed %u --agents %u --virtual-seconds %d --faults %d",
                         options.seed, options.agents, absl::ToInt64Seconds(options.run),
                         options.faults ? 1 : 0);
}

World::World(const Options& options) : options_(options), rng_(options.seed) {
  MakeJob();
  checker_ = std::make_unique<InvariantChecker>(config_);
  for (uint32_t key = 0; key < options_.agents; ++key) {
    AddProcess(key, Between(0, 500 * kMilli));
  }
  if (!options_.faults && options_.standstill > absl::ZeroDuration()) {
    StandAllStill(absl::ToInt64Nanoseconds(options_.run) / 3,
                  absl::ToInt64Nanoseconds(options_.standstill));
  }
  if (options_.faults) {
    WriteScript();
    WriteMasterScript();
  } else {
    healed_ = true;
  }
}

void World::MakeJob() {
  config_.nodes_max = options_.agents;
  config_.nodes_min = options_.agents;
  config_.join_timeout = absl::Hours(2);  // a job that never forms shows as one that is stuck
  if (!options_.faults) {
    return;
  }
  // A round costs every agent some messages: a large job has few of them.
  const uint32_t many = std::clamp(kRoundsOfAll / options_.agents, 3u, 1000u);
  const uint32_t restarts[] = {0, 3, many};
  config_.restarts_max = restarts[rng_.Below(3)];
  const uint64_t choice = rng_.Below(4);
  config_.nodes_min = choice == 0   ? options_.agents
                      : choice == 1 ? std::max(1u, options_.agents * 3 / 4)
                                    : 1;
  config_.starts_again = Chance(0.5);
  start_fail_chance_ = Chance(0.3) ? 0.7 : 0.1;
  config_.machines_return = config_.starts_again && options_.seed % 2 == 0;
  if (config_.starts_again) {
    for (uint32_t key = 0; key < options_.agents; ++key) {
      config_.expected.push_back(absl::StrCat("node", key));
    }
  }
  if (options_.agents > 2 && Chance(0.25)) {
    config_.spares = 1 + static_cast<uint32_t>(rng_.Below(options_.agents / 3));
    config_.nodes_max = options_.agents - *config_.spares;
    config_.nodes_min = std::min(config_.nodes_min, config_.nodes_max);
  }
  config_.on_failure = options_.seed % 3 == 0 ? OnFailure::kContinue : OnFailure::kStop;
  MakeRestartRules();
  config_.last_call = absl::Seconds(5);
  config_.grace = absl::Seconds(Chance(0.5) ? 2 : 10);
  config_.restart_grace = absl::Seconds(5);  // some never end by themselves: more rounds in a run
  fail_chance_ = Chance(0.5) ? 0.5 : 0.1;
  workers_max_ = 1 + static_cast<uint32_t>(rng_.Below(4));
  stays_ = Chance(0.5);
  together_ = Chance(0.5);
  if (config_.nodes_min == options_.agents && options_.seed % 2 == 0) {
    DealRanks();
  }
  if (options_.seed % 5 < 2) {
    config_.restart = RestartMode::kOne;
    config_.join_timeout = absl::Minutes(5);  // a spare may not fit: CheckGivenUp
    spares_ = ranks_.empty() && options_.agents > 2 && options_.seed % 5 == 0 ? 1 : 0;
    config_.nodes_max -= spares_;
    config_.nodes_min = std::min(config_.nodes_min, config_.nodes_max);
    if (config_.spares.has_value()) {
      *config_.spares += spares_;
    }
  }
}

void World::MakeRestartRules() {
  SplitMix64 rng(options_.seed * 31);
  RestartRules& rules = config_.rules;
  config_.seed = options_.seed;
  config_.restart = rng.Below(16) == 0 ? RestartMode::kNever : RestartMode::kAll;
  if (rng.Below(3) == 0) {
    rules.of_rank = static_cast<uint32_t>(rng.Below(3));
  }
  if (rng.Below(3) == 0) {
    rules.of_node = static_cast<uint32_t>(rng.Below(4));
  }
  rules.window = rng.Below(2) == 0 ? absl::ZeroDuration() : absl::Seconds(6);
  rules.wait_first = absl::Milliseconds(500) * static_cast<int64_t>(rng.Below(4));
  rules.wait_max = rng.Below(2) == 0 ? absl::Seconds(8) : absl::Seconds(30);
  rules.bad_node_after = static_cast<uint32_t>(rng.Below(3));
  rules.bad_node_for = absl::Seconds(40);
  if (rng.Below(2) == 0) {
    std::vector<uint32_t> codes(50);
    std::iota(codes.begin(), codes.end(), 1u);
    const bool large = options_.agents > kRoundsOfAll / 1000;
    rules.on_exit = {
        {ExitMatch::kCode, codes, large ? ExitAction::kRestart : ExitAction::kRestartFree},
        {ExitMatch::kCode, {60, 61, 62}, ExitAction::kStop},
        {ExitMatch::kSignal, {SIGSEGV}, ExitAction::kReplaceNode},
        {ExitMatch::kNodeLost, {}, ExitAction::kRestart}};
  }
}

uint32_t World::WorkersOf(uint32_t key) const {
  return options_.faults && spares_ == 0
             ? 1 + static_cast<uint32_t>(SplitMix64(options_.seed + key).Below(workers_max_))
             : workers_max_;
}

// As a rank file would: the nodes ask for ranks in any order.
void World::DealRanks() {
  std::vector<uint32_t> owners;
  for (uint32_t key = 0; key < options_.agents; ++key) {
    owners.insert(owners.end(), WorkersOf(key), key);
  }
  SplitMix64 rng(~options_.seed);
  for (size_t i = owners.size(); i > 1; --i) {
    std::swap(owners[i - 1], owners[rng.Below(i)]);
  }
  ranks_.resize(options_.agents);
  for (uint32_t rank = 0; rank < owners.size(); ++rank) {
    ranks_[owners[rank]].push_back(rank);
  }
}

void World::AddProcess(uint32_t key, Nanos at, uint32_t attempt) {
  Process p;
  p.key = key;
  p.attempt = attempt;
  p.waits_until = at + absl::ToInt64Nanoseconds(config_.lease);
  p.config.join.key = absl::StrCat("list/", key);
  p.config.join.key_is_exact = true;
  p.config.join.life = rng_.Next() | 1;
  p.config.join.node_rank = key < options_.agents - spares_ ? static_cast<int32_t>(key) : -1;
  p.config.join.hostname = absl::StrCat("node", key);
  p.config.join.address = absl::StrFormat("10.%d.%d.%d", key >> 16, (key >> 8) & 255, key & 255);
  p.config.join.workers = WorkersOf(key);
  if (!ranks_.empty()) {
    p.config.join.ranks = ranks_[key];
  }
  p.config.join_timeout = absl::Seconds(90);
  p.offset = Between(0, 1000 * kSecond);
  const auto who = static_cast<uint32_t>(processes_.size());
  processes_.push_back(std::move(p));
  lives_.resize(std::max<size_t>(lives_.size(), key + 1));
  lives_[key].push_back(who);
  queue_.Push({at, 0, 0, who, 0, Kind::kStart});
}

Result World::Run() {
  while (!queue_.Empty() && status_.ok()) {
    const Event event = queue_.Pop();
    CHECK(event.at >= now_);
    now_ = event.at;
    if (Defer(event)) {
      continue;
    }
    ++events_;
    Mix(static_cast<uint64_t>(event.at));
    Mix(static_cast<uint64_t>(event.kind) << 32 | event.who);
    if (options_.trace != nullptr) {
      Trace(event);
    }
    Dispatch(event);
    if (over_ < 0 && now_ > absl::ToInt64Nanoseconds(options_.run) + kTooLong) {
      Fail(absl::StrCat("progress: the job is stuck in phase ", static_cast<int>(master_.phase),
                        ", round ", master_.round.ToString()));
    }
  }
  if (status_.ok()) {
    CheckEnd();
  }
  const bool went_on = master_.report.exit_code == 0 && master_.round.epoch < config_.epoch;
  return {
      status_, events_,    digest_,           injected_, racks_failed_,           rounds_,
      grown_,  came_back_, config_.epoch - 1, went_on,   absl::Nanoseconds(now_), master_.report};
}

// Who is frozen gets its events when it thaws, in the order in which they came.
bool World::Defer(const Event& event) {
  Nanos until = 0;
  switch (event.kind) {
    case Kind::kToMaster:
    case Kind::kMasterTimer:
    case Kind::kMasterClosed:
    case Kind::kStartFailed:
    case Kind::kPersisted:
      until = master_frozen_;
      break;
    case Kind::kMasterAsked:
      until = std::max(master_frozen_, master_down_);
      break;
    case Kind::kLeaseEnd:
    case Kind::kWorkerEnd: {
      const Process& p = processes_[event.who];
      until = p.frozen_shepherd ? p.frozen_until : 0;
      break;
    }
    case Kind::kFault:
    case Kind::kHeal:
    case Kind::kStart:
    case Kind::kMasterBack:
      break;
    default:
      until = processes_[event.who].frozen_until;
  }
  if (until <= now_) {
    return false;
  }
  Event later = event;
  later.at = until;
  queue_.Push(later);
  return true;
}

void World::Dispatch(const Event& event) {
  const uint32_t who = event.who;
  switch (event.kind) {
    case Kind::kStart:
      if (!MayStart(event)) {
        return;
      }
      TakeHold(who);
      processes_[who].alive = true;
      StepAgent(who, TimeElapsed{});
      return Connect(who);
    case Kind::kConnect:
      return Connect(who);
    case Kind::kLinkUp:
      return LinkIsUp(event);
    case Kind::kLinkDown:
      return LinkIsDown(event);
    case Kind::kToAgent:
      return ArrivedAtAgent(event);
    case Kind::kAgentTimer:
      return event.number == processes_[who].timer ? StepAgent(who, TimeElapsed{}) : void();
    case Kind::kStorePort:
      processes_[who].port = static_cast<uint16_t>(event.number);
      return StepAgent(who, StorePortReady{static_cast<uint16_t>(event.number)});
    case Kind::kNoStorePort:
      ++starts_failed_;  // its agent ends, and says why
      return StepAgent(who, StorePortFailed{"the port is in use"});
    case Kind::kRestShown:
      return StepAgent(who, RestShown{});
    case Kind::kExitSeen: {
      auto [round, exit] = exits_seen_.Take(event.slot);
      return StepAgent(who, WorkerEnded{round, std::move(exit), Chance(0.5)});
    }
    case Kind::kGroupsEnded:
      return GroupsEnd(event);
    case Kind::kCleared:
      return StepAgent(who, RoundCleared{{static_cast<uint32_t>(event.number >> 32),
                                          static_cast<uint32_t>(event.number)}});
    case Kind::kSeek:
      return Seek(event);
    case Kind::kAgentStop:
      ++injected_;  // also where only a node that the job needs leaves, or has not come yet
      return StepAgent(
          who, UserStop{2, event.number == 1, event.number == 2 ? "left" : "", event.number == 2});
    case Kind::kLeaseEnd:
      return LookAtLease(event);
    case Kind::kLeaseEnded:
      return StepAgent(who, LeaseEnded{});
    case Kind::kWorkerEnd:
      return WorkerEnds(event);
    case Kind::kToMaster:
      return ArrivedAtMaster(event);
    case Kind::kMasterTimer:
      return event.number == master_timer_ ? StepMaster(TimePassed{}) : void();
    case Kind::kMasterClosed:
      return MasterClosed(event.number);
    case Kind::kStartFailed:
      return StartFails(event);
    case Kind::kMasterAsked:
      return MasterAsked();
    case Kind::kPersisted:
      return Persisted(event.number);
    case Kind::kMasterBack:
      return TakeOver();
    case Kind::kFault:
      return healed_ ? void() : Inject(faults_[event.number]);
    case Kind::kHeal:
      return Heal();
  }
}

void World::GroupsEnd(const Event& event) {
  Process& p = processes_[event.who];
  if (p.alive && p.saves && p.round.Token() == event.number) {
    CheckLease(event.who);
    p.saves = false;
    StepAgent(event.who, GroupsEnded{p.round});
  }
}

void World::Trace(const Event& event) const {
  constexpr const char* kNames[] = {"start",        "connect",      "link up",      "link down",
                                    "to agent",     "agent timer",  "port",         "no port",
                                    "rest shown",   "exit seen",    "groups ended", "cleared",
                                    "seek",         "agent stop",   "lease end",    "lease ended",
                                    "worker end",   "to master",    "master timer", "master closed",
                                    "start failed", "master asked", "persisted",    "master back",
                                    "fault",        "heal"};
  static_assert(std::size(kNames) == static_cast<size_t>(Kind::kHeal) + 1);
  const bool has_process = event.who < processes_.size();
  const Process& p = processes_[has_process ? event.who : 0];
  options_.trace(absl::StrFormat(
      "%.6f %s %s#%u slot %u number %u | agent phase %d round %s running %u admitted %d beat %u | "
      "master phase %d round %s pending %u ready %u",
      static_cast<double>(event.at) / kSecond, kNames[static_cast<size_t>(event.kind)],
      p.config.join.hostname, event.who, event.slot, event.number, static_cast<int>(p.state.phase),
      p.state.round.ToString(), p.running, p.state.admitted ? 1 : 0, p.state.beat_seq,
      static_cast<int>(master_.phase), master_.round.ToString(), master_.pending.size(),
      master_.ready.size()));
}

void World::Fail(const std::string& what) {
  if (status_.ok()) {
    status_ = absl::InternalError(
        absl::StrFormat("at %.6f s: %s", static_cast<double>(now_) / kSecond, what));
  }
}

void World::FailIf(const absl::Status& status) {
  if (!status.ok()) {
    Fail(std::string(status.message()));
  }
}

}  // namespace muster::sim
