// What goes wrong, and when.
#include <algorithm>
#include <csignal>
#include <iterator>
#include <vector>

#include "tests/sim/world.h"

namespace muster::sim {

void World::WriteScript() {
  constexpr double kLoss[] = {0, 0.01, 0.1};
  constexpr Nanos kLate[] = {2 * kMilli, 50 * kMilli, kSecond, 4 * kSecond};
  wire_.loss = kLoss[rng_.Below(3)];
  wire_.twice = kLoss[rng_.Below(3)];
  wire_.late = kLoss[rng_.Below(3)] * 2;
  wire_.late_max = kLate[rng_.Below(4)];
  rack_ = uint32_t{2} << rng_.Below(4);
  const Nanos half = absl::ToInt64Nanoseconds(options_.run) / 2;
  const uint64_t count = rng_.Below(4 + options_.agents / 8);
  for (uint64_t i = 0; i < count; ++i) {
    Fault fault;
    constexpr FaultKind kKinds[] = {
        FaultKind::kCut,        FaultKind::kClose,        FaultKind::kCrash,
        FaultKind::kFreeze,     FaultKind::kZombie,       FaultKind::kClockJump,
        FaultKind::kKillWorker, FaultKind::kFreezeMaster, FaultKind::kRack};
    fault.kind = kKinds[rng_.Below(std::size(kKinds))];
    fault.process = static_cast<uint32_t>(rng_.Next());
    fault.length = Between(50 * kMilli, 12 * kSecond);
    fault.variant = static_cast<uint32_t>(rng_.Below(6));
    faults_.push_back(fault);
    queue_.Push({Between(0, half), 0, faults_.size() - 1, 0, 0, Kind::kFault});
  }
  for (uint64_t i = rng_.Below(4); i > 0; --i) {
    Ask(Between(0, half), 0);
  }
  if (Chance(0.12)) {
    const Nanos at = Between(0, half);
    Ask(at, 1);
    Ask(at + Between(kSecond, 40 * kSecond), 2);
  }
  if (Chance(0.15)) {
    const Nanos at = Between(0, half);
    Ask(at, 3);
    if (Chance(0.5)) {
      Ask(at + Between(0, 2 * kSecond), 4);
    }
  } else if (Chance(0.08)) {
    const auto who = static_cast<uint32_t>(rng_.Below(options_.agents));
    queue_.Push({Between(kSecond, half), 0, rng_.Below(3), who, 0, Kind::kAgentStop});
  }
  // Drawn apart: the other jobs are what they were.
  if (SplitMix64 all(options_.seed * 11); all.Below(4) == 0) {
    const auto at = static_cast<Nanos>(all.Below(static_cast<uint64_t>(half)));
    StandAllStill(at, 50 * kMilli + static_cast<Nanos>(all.Below(uint64_t{20} * kSecond)));
  }
  if (SplitMix64 user(options_.seed * 5); user.Below(4) == 0) {
    const auto at = static_cast<Nanos>(user.Below(static_cast<uint64_t>(half)));
    Ask(at, 5);
  }
  queue_.Push({half, 0, 0, 0, 0, Kind::kHeal});
}

// A third of the jobs have a journal, and masters that are killed, some of them soon after each
// other; none of those whose master starts agents, as that one dies with what it has started. Drawn
// apart: the other jobs are what they were.
void World::WriteMasterScript() {
  SplitMix64 rng(options_.seed * 3);
  config_.journal = !config_.starts_again && rng.Below(3) != 0;
  if (!config_.journal) {
    return;
  }
  config_.lease = kLeaseWithJournal;
  const Nanos half = absl::ToInt64Nanoseconds(options_.run) / 2;
  for (uint64_t i = rng.Below(4); i > 0; --i) {
    const auto at = static_cast<Nanos>(rng.Below(static_cast<uint64_t>(half)));
    const auto length = static_cast<Nanos>(rng.Below(uint64_t{12} * kSecond));
    faults_.push_back({FaultKind::kCrashMaster, 0, length, 0});
    queue_.Push({at, 0, faults_.size() - 1, 0, 0, Kind::kFault});
  }
}

// A living process, counted from a random index; the last process if none lives.
uint32_t World::Victim(uint32_t index) const {
  const auto size = static_cast<uint32_t>(processes_.size());
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t who = (index + i) % size;
    if (processes_[who].alive && !processes_[who].finished) {
      return who;
    }
  }
  return size - 1;
}

void World::Inject(Fault fault) {
  ++injected_;
  const uint32_t who = Victim(fault.process);
  Process& p = processes_[who];
  switch (fault.kind) {
    case FaultKind::kCut: {
      p.cut_out = fault.variant != 0;
      p.cut_in = fault.variant != 1;
      faults_.push_back({FaultKind::kUncut, who, 0, 0});
      Post(fault.length, Kind::kFault, 0, 0, faults_.size() - 1);
      if (fault.variant >= 4) {  // somebody notices
        Close(p.connection, fault.variant == 4, fault.variant == 5);
      }
      return;
    }
    case FaultKind::kUncut:
      processes_[fault.process].cut_in = processes_[fault.process].cut_out = false;
      return;
    case FaultKind::kClose:
      return Close(p.connection, true, true);
    case FaultKind::kCrash:
      Crash(who, fault.variant == 0);
      if (!config_.starts_again) {
        AddProcess(processes_[who].key, now_ + fault.length);
      }
      return;
    case FaultKind::kFreeze:
      // Neither shorter nor less than a freeze that lasts: what waits for its end would come too
      // late.
      p.frozen_shepherd = fault.variant != 0 || (p.frozen_shepherd && now_ < p.frozen_until);
      p.frozen_until = p.thawed = std::max(p.frozen_until, now_ + fault.length);
      return;
    case FaultKind::kZombie:
      if (config_.journal && fault.variant == 2) {  // it is well, and only cut off
        p.cut_out = p.cut_in = true;
        faults_.push_back({FaultKind::kUncut, who, 0, 0});
        Post(fault.length, Kind::kFault, 0, 0, faults_.size() - 1);
        return AddProcess(p.key, now_ + fault.length / 2);
      }
      p.frozen_until = p.thawed = std::max(p.frozen_until, now_ + fault.length);
      p.frozen_shepherd = true;
      if (fault.variant >= 3) {  // its connection is taken for dead, so its place is free at once
        Close(p.connection, /*agent_sees=*/false, /*master_sees=*/true);
      }
      return AddProcess(p.key, now_ + fault.length / 2);
    case FaultKind::kClockJump:
      p.offset += fault.length;
      return ArmAgentTimers(who);
    case FaultKind::kKillWorker:
      for (uint32_t local = 0; local < p.workers.size(); ++local) {
        if (p.workers[local].running && !p.workers[local].stopped) {
          WorkerExit exit;
          exit.kind = ExitKind::kSignaled;
          exit.code = SIGKILL;
          return EndIn(who, local, 0, exit);
        }
      }
      return;
    case FaultKind::kFreezeMaster:
      return FreezeMaster(now_ + fault.length);
    case FaultKind::kFreezeAll:
      return FreezeAll(fault.length);
    case FaultKind::kCrashMaster:
      return CrashMaster(fault.length);
    case FaultKind::kRack:
      return InjectRack(fault);
  }
}

void World::StandAllStill(Nanos at, Nanos length) {
  faults_.push_back({FaultKind::kFreezeAll, 0, length, 0});
  queue_.Push({at, 0, faults_.size() - 1, 0, 0, Kind::kFault});
}

void World::FreezeMaster(Nanos until) {
  const bool stepped = master_.stepped_at != absl::InfinitePast();
  const Nanos last =
      stepped ? absl::ToInt64Nanoseconds(master_.stepped_at - absl::UnixEpoch()) : now_;
  master_froze_ = master_frozen_ <= now_ ? std::min(last, now_) : master_froze_;
  master_frozen_ = until;
  master_stood_ = std::max(master_stood_, until - master_froze_);
}

// A scheduler suspends the job, or a host of virtual machines sleeps: they do not wake at once.
void World::FreezeAll(Nanos length) {
  SplitMix64 rng(static_cast<uint64_t>(now_ + length));
  const auto end = [&] { return now_ + length + static_cast<Nanos>(rng.Below(50 * kMilli)); };
  FreezeMaster(std::max(master_frozen_, end()));
  for (Process& p : processes_) {
    p.frozen_until = p.thawed = std::max(p.frozen_until, end());
    p.frozen_shepherd = true;
  }
}

// Power, switch or hypervisor of a rack: what happens to one of its nodes happens to all. A switch
// may fail in one direction only.
void World::InjectRack(const Fault& fault) {
  constexpr FaultKind kKinds[] = {FaultKind::kCut, FaultKind::kCrash, FaultKind::kFreeze};
  const Fault each = {kKinds[fault.process % std::size(kKinds)], 0, fault.length, fault.variant};
  const uint32_t rack = processes_[Victim(fault.process)].key / rack_;
  std::vector<uint32_t> nodes;
  for (uint32_t who = 0; who < processes_.size(); ++who) {
    const Process& p = processes_[who];
    if (p.alive && !p.finished && p.key / rack_ == rack) {
      nodes.push_back(who);
    }
  }
  racks_failed_ += nodes.size() > 1 ? 1 : 0;
  for (const uint32_t who : nodes) {
    Fault one = each;
    one.process = who;
    Inject(one);
  }
}

// From now on nothing goes wrong: whoever is frozen thaws, whoever is cut off is back.
void World::Heal() {
  healed_ = true;
  master_frozen_ = std::min(master_frozen_, now_ + kSecond);
  for (Process& p : processes_) {
    p.cut_in = p.cut_out = false;
  }
}

}  // namespace muster::sim
