#include "worker_sdk/transport/arena.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>

#include "proto/base/why_no_memory.h"

namespace muster {
namespace {

// Asleep for no longer than this: what nobody wakes us for (a peer that died) is seen then.
constexpr std::chrono::nanoseconds kLookEvery{50'000'000};
// Of somebody who looks around every 50 ms, even where many ranks share a core.
constexpr std::chrono::nanoseconds kLooksWithin{300'000'000};
constexpr std::chrono::nanoseconds kShortNap{200'000};  // with work to do in between
// Most waits are shorter; then it is time to ask whether spinning makes sense.
constexpr uint32_t kFewSpins = 20;
// For the failure that another rank is writing down, unless it died.
constexpr int kFailureLooks = 10000;
// Looks between two looks at the clock.
constexpr int kLooks = 16;

// The word that futexes of a phase are about: its lower half.
uint32_t* Word(uint64_t& phase) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  return reinterpret_cast<uint32_t*>(&phase);
}

// Of CLOCK_MONOTONIC, the same for all processes of a node.
uint64_t Nanoseconds() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace

StatusOr<std::unique_ptr<Arena>> Arena::Map(const UniqueFd& memory, ArenaGeometry geometry,
                                            uint32_t place, std::vector<uint32_t> rank_of,
                                            WaitPolicy policy) {
  struct stat facts {};
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (fstat(memory.get(), &facts) != 0 || place >= geometry.local_size ||
      rank_of.size() != geometry.local_size ||
      static_cast<uint64_t>(facts.st_size) < geometry.Bytes() || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0) {
    return Status(StatusCode::kInternal, "what the agent handed out is not this node's arena");
  }
  void* mapped =
      mmap(nullptr, geometry.Bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    return Status(error == ENOMEM ? StatusCode::kResourceExhausted : StatusCode::kInternal,
                  "cannot map the node's shared memory: " + WhyNoMemory(error, geometry.Bytes()));
  }
  return std::unique_ptr<Arena>(
      new Arena(static_cast<uint8_t*>(mapped), geometry, place, std::move(rank_of), policy));
}

void Arena::Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

Arena::~Arena() { munmap(memory_, geometry_.Bytes()); }

void Arena::Publish() {
  ++phase_;
  ArenaLine& line = Line(place_);
  // Right before the phase: who waits looks at the line all the time, and each look takes it from
  // us, so that every store behind it has to fetch it again.
  line.call[announced_ & 1] = call_;
  // In one order with `sleepers` for everybody: either we see the sleeper, or it sees the phase.
  std::atomic_ref(line.phase).exchange(phase_, std::memory_order_seq_cst);
  if (std::atomic_ref(line.sleepers).load(std::memory_order_seq_cst) != 0) {
    syscall(SYS_futex, Word(line.phase), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

Status Arena::WaitFor(uint32_t place, const std::function<Status(uint32_t rank)>& give_up) {
  for (uint32_t i = 0; !Reached(place); ++i) {
    if (i >= policy_.spins || (i == kFewSpins && SharesCore(place))) {
      return WaitLong(place, give_up);
    }
    Pause();
  }
  return {};
}

Status Arena::WaitForAll(const std::function<Status(uint32_t rank)>& give_up) {
  if (all_reached_ == phase_) {
    return {};
  }
  for (uint32_t place = 0; place < geometry_.local_size; ++place) {
    if (!Reached(place)) {
      if (Status status = WaitFor(place, give_up); !status.ok()) {
        return status;
      }
    }
  }
  all_reached_ = phase_;
  return {};
}

Status Arena::WaitLong(uint32_t place, const std::function<Status(uint32_t rank)>& give_up) {
  const auto begin = std::chrono::steady_clock::now();
  auto counted = begin;
  Status status = WaitSince(begin, counted, place, give_up);
  waited_[place].Add(std::chrono::steady_clock::now() - counted);
  return status;
}

// `counted`: up to then, what we have waited is known.
Status Arena::WaitSince(std::chrono::steady_clock::time_point begin,
                        std::chrono::steady_clock::time_point& counted, uint32_t place,
                        const std::function<Status(uint32_t rank)>& give_up) {
  auto looked = begin;  // around
  for (bool awake = true;;) {
    for (int i = 0; awake && i < kLooks; ++i) {
      if (Reached(place)) {
        return {};
      }
      sched_yield();
    }
    const bool busy = work_ && work_();
    awake = awake && !policy_.IsLong(std::chrono::steady_clock::now() - begin);
    if (awake) {
      continue;
    }
    const auto most = nap_ ? std::min(kLookEvery, nap_(rank_of_[place])) : kLookEvery;
    Sleep(place, busy ? std::min(kShortNap, most) : most);
    if (Reached(place)) {
      return {};
    }
    const auto now = std::chrono::steady_clock::now();
    if (busy && most > kShortNap && now - looked < kLookEvery) {
      continue;
    }
    looked = now;
    waited_[place].Add(now - counted);
    counted = now;
    if (Status status = LookAround(place, give_up); !status.ok()) {
      return status;
    }
  }
}

Status Arena::LookAround(uint32_t place,
                         const std::function<Status(uint32_t rank)>& give_up) const {
  Watch();
  Status gone = Gone(place);
  if (Status failed = failure(); !failed.ok()) {  // it may be why that rank is gone
    return failed;
  }
  return gone.ok() ? give_up(rank_of_[place]) : gone;
}

Status Arena::Gone(uint32_t place) const {
  const LineEnd how = EndOf(place);
  if (how == LineEnd::kNone || Reached(place)) {
    return {};
  }
  const std::string who = name_(rank_of_[place]);
  const auto peer = static_cast<int>(rank_of_[place]);
  return how == LineEnd::kDied
             ? Status(StatusCode::kUnavailable, who + " has died", peer)
             : Status(StatusCode::kFailedPrecondition, who + " has closed its communicator", peer);
}

void Arena::Sleep(uint32_t place, std::chrono::nanoseconds nap) {
  const timespec limit = {0, nap.count()};  // below a second
  ArenaLine& line = Line(place);
  std::atomic_ref<uint32_t> sleepers(line.sleepers);
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  const uint64_t seen = std::atomic_ref(line.phase).load(std::memory_order_seq_cst);
  if (seen < phase_) {
    syscall(SYS_futex, Word(line.phase), FUTEX_WAIT, static_cast<uint32_t>(seen), &limit, nullptr,
            0);
  }
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void Arena::Ring(uint32_t place) {
  ArenaBell& bell = Bell(place);
  if (std::atomic_ref(bell.sleepers).load(std::memory_order_seq_cst) != 0) {
    std::atomic_ref(bell.rings).fetch_add(1, std::memory_order_seq_cst);
    syscall(SYS_futex, &bell.rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void Arena::SleepUntilRing(std::chrono::nanoseconds nap, const std::function<bool()>& look) {
  ArenaBell& bell = Bell(place_);
  std::atomic_ref<uint32_t> sleepers(bell.sleepers);
  const uint32_t rings = std::atomic_ref(bell.rings).load(std::memory_order_seq_cst);
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (!look()) {
    const timespec limit = {static_cast<time_t>(nap.count() / 1'000'000'000),
                            static_cast<long>(nap.count() % 1'000'000'000)};
    syscall(SYS_futex, &bell.rings, FUTEX_WAIT, rings, &limit, nullptr, 0);
  }
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

bool Arena::SharesCore(uint32_t place) const {
  const auto core = static_cast<uint32_t>(sched_getcpu() + 1);
  const std::atomic_ref<uint32_t> ours(Bell(place_).core);
  if (ours.load(std::memory_order_relaxed) != core) {  // others read that line all the time
    ours.store(core, std::memory_order_relaxed);
  }
  return core == std::atomic_ref(Bell(place).core).load(std::memory_order_relaxed);
}

void Arena::NoteLook() {
  std::atomic_ref(Bell(place_).looked).store(Nanoseconds(), std::memory_order_relaxed);
}

bool Arena::Looks(uint32_t place) const {
  const uint64_t looked = std::atomic_ref(Bell(place).looked).load(std::memory_order_relaxed);
  return looked != 0 && Nanoseconds() < looked + static_cast<uint64_t>(kLooksWithin.count());
}

void Arena::CountStep() {
  ArenaBell& bell = Bell(place_);
  const std::atomic_ref<uint64_t> commits(bell.commits);
  const uint64_t before = commits.load(std::memory_order_relaxed);
  const uint64_t now = Nanoseconds();
  if (before == 0) {
    std::atomic_ref(bell.commit_first).store(now, std::memory_order_relaxed);
  }
  std::atomic_ref(bell.commit_last).store(now, std::memory_order_relaxed);
  commits.store(before + 1, std::memory_order_release);
}

void Arena::Fail(const Status& why) {
  std::atomic_ref<uint32_t> claimed(header().failure_claimed);
  if (claimed.exchange(1) != 0) {
    return;
  }
  const size_t length = std::min(why.message().size(), sizeof(header().failure) - 1);
  std::memcpy(header().failure, why.message().data(), length);
  header().failure_peer = why.peer();
  std::atomic_ref<uint32_t>(header().failed)
      .store(static_cast<uint32_t>(why.code()), std::memory_order_release);
}

Status Arena::failure() const {
  const uint32_t code = std::atomic_ref<uint32_t>(header().failed).load(std::memory_order_acquire);
  if (code == 0) {
    return over();
  }
  const size_t length = strnlen(header().failure, sizeof(header().failure));
  return {static_cast<StatusCode>(code), std::string(header().failure, length),
          header().failure_peer};
}

Status Arena::ReadCounts() const {
  if (std::atomic_ref<uint32_t>(header().failure_claimed).load() == 0) {
    return over();
  }
  Status failed = failure();
  for (int i = 0; i < kFailureLooks && failed.ok(); ++i) {  // its sentence is being written
    sched_yield();
    failed = failure();
  }
  return failed.ok() ? Status(StatusCode::kUnavailable, "a rank of this node has given up")
                     : failed;
}

Status Arena::over() const {
  if (std::atomic_ref<uint32_t>(header().over).load(std::memory_order_acquire) == 0) {
    return {};
  }
  const auto place = static_cast<uint32_t>(header().over_place);  // -1: none of ours
  const size_t length = strnlen(header().over_why, sizeof(header().over_why));
  return {StatusCode::kUnavailable, std::string(header().over_why, length),
          place < geometry_.local_size ? static_cast<int>(rank_of_[place]) : -1};
}

}  // namespace muster
