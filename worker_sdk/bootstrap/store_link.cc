#include "worker_sdk/bootstrap/store_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "proto/base/arena_memory.h"
#include "proto/base/why_no_memory.h"

namespace muster {
namespace {

constexpr std::chrono::milliseconds kLookAround{10};

// Which descriptors of the lowest rank of a host the memory is; travels through the store.
struct SharedMemory {
  int32_t arena = -1;
  int32_t table = -1;
};

Status Failed(const std::string& what) {
  return {StatusCode::kInternal, what + ": " + WhyNoDescriptor(errno)};
}

size_t TableBytes(uint32_t size) { return size_t{size} * size * sizeof(uint32_t); }

std::string MemoryKey(uint32_t lowest) { return "muster/memory/" + std::to_string(lowest); }

uint32_t CpusOf(const Roster& roster, const std::vector<uint32_t>& ranks) {
  uint32_t out = 0;
  for (uint32_t word = 0; word < RankCard::kCpusMax / 64; ++word) {
    uint64_t all = 0;
    for (const uint32_t rank : ranks) {
      all |= roster.cards[rank].cpus[word];
    }
    out += static_cast<uint32_t>(std::popcount(all));
  }
  return std::max(out, 1u);
}

StatusOr<UniqueFd> OpenOf(uint32_t pid, uint32_t fd) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  UniqueFd out(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!out.valid()) {
    return Status(StatusCode::kFailedPrecondition,
                  "cannot open " + path +
                      ", memory of a rank on this host: " + std::strerror(errno) +
                      ". Where processes may not look at each other, start them with launch");
  }
  return out;
}

ArenaLine& LineOf(uint8_t* arena, uint32_t place) {
  return *reinterpret_cast<ArenaLine*>(arena + ArenaGeometry().LinesAt() +
                                       place * ArenaGeometry::kLineBytes);
}

}  // namespace

void StoreLink::Unmap::operator()(uint8_t* memory) const { munmap(memory, bytes); }

StatusOr<std::unique_ptr<Link>> StoreLink::Open(Store& store, const Roster& roster,
                                                const Layout& layout, uint32_t rank,
                                                std::unique_ptr<RankDoor> door) {
  std::unique_ptr<StoreLink> out(new StoreLink(roster, layout, rank));
  if (layout.nodes() > 1) {
    if (Status status = door->Start(roster, rank); !status.ok()) {
      return status;
    }
    out->door_ = std::move(door);
  }
  if (Status status = out->Share(store); !status.ok()) {
    return status;
  }
  for (uint32_t place = 0; place < out->pids_.size(); ++place) {
    if (place == out->place_) {
      continue;
    }
    out->processes_[place].Reset(
        static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(out->pids_[place]), 0)));
    if (!out->processes_[place].valid() && errno != ESRCH) {
      return Failed("pidfd_open");
    }
  }
  return std::unique_ptr<Link>(std::move(out));
}

StoreLink::StoreLink(const Roster& roster, const Layout& layout, uint32_t rank)
    : geometry_(ArenaFor(layout.SizeOf(layout.SeatOf(rank).node), layout.nodes(), layout.world())),
      ranks_(layout.RanksOf(layout.SeatOf(rank).node)),
      place_(layout.SeatOf(rank).place),
      number_(roster.number),
      cpus_(CpusOf(roster, ranks_)),
      processes_(ranks_.size()),
      made_(ranks_.size()) {
  for (const uint32_t here : ranks_) {
    pids_.push_back(roster.cards[here].pid);
  }
}

StoreLink::~StoreLink() {
  if (lines_) {
    SetEnd(place_, LineEnd::kClosed);
  }
}

std::optional<uint32_t> StoreLink::PlaceOf(uint32_t rank) const {
  const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
  return found == ranks_.end() ? std::nullopt
                               : std::optional(static_cast<uint32_t>(found - ranks_.begin()));
}

Status StoreLink::Share(Store& store) {
  const size_t table_bytes = TableBytes(static_cast<uint32_t>(pids_.size()));
  if (place_ == 0) {
    arena_ = MakeArenaMemory(geometry_);
    table_ = MakeSealedMemory("muster-pipes", table_bytes);
    if (!arena_.valid() || !table_.valid()) {
      return {StatusCode::kResourceExhausted,
              "no shared memory: " + WhyNoMemory(errno, geometry_.Bytes())};
    }
    const SharedMemory mine = {arena_.get(), table_.get()};
    if (Status status = store.Set(MemoryKey(ranks_[0]),
                                  std::string(reinterpret_cast<const char*>(&mine), sizeof(mine)));
        !status.ok()) {
      return status;
    }
  } else {
    StatusOr<std::string> text = store.Get(MemoryKey(ranks_[0]));
    if (!text.ok()) {
      return text.status();
    }
    SharedMemory theirs;
    std::memcpy(&theirs, text->data(), std::min(text->size(), sizeof(theirs)));
    StatusOr<UniqueFd> arena = OpenOf(pids_[0], static_cast<uint32_t>(theirs.arena));
    StatusOr<UniqueFd> table = OpenOf(pids_[0], static_cast<uint32_t>(theirs.table));
    if (!arena.ok() || !table.ok()) {
      return arena.ok() ? table.status() : arena.status();
    }
    arena_ = *std::move(arena);
    table_ = *std::move(table);
  }
  Status status = Map(arena_, geometry_.SlotsAt(), lines_);
  return status.ok() ? Map(table_, table_bytes, pipes_) : status;
}

Status StoreLink::Map(const UniqueFd& memory, size_t bytes, Mapping& out) const {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) {
    return {StatusCode::kResourceExhausted,
            "cannot map the node's shared memory: " + WhyNoMemory(errno, bytes)};
  }
  out = Mapping(static_cast<uint8_t*>(mapped), {bytes});
  return {};
}

uint32_t& StoreLink::PipeOf(uint32_t lower, uint32_t higher) const {
  return reinterpret_cast<uint32_t*>(pipes_.get())[lower * pids_.size() + higher];
}

uint32_t& StoreLink::OpenedOf(uint32_t lower, uint32_t higher) const {
  return PipeOf(higher, lower);  // which no pipe has
}

void StoreLink::SetEnd(uint32_t place, LineEnd end) const {
  uint32_t none = 0;
  std::atomic_ref(LineOf(lines_.get(), place).gone)
      .compare_exchange_strong(none, static_cast<uint32_t>(end));
}

LineEnd StoreLink::EndOf(uint32_t place) const {
  return static_cast<LineEnd>(
      std::atomic_ref(LineOf(lines_.get(), place).gone).load(std::memory_order_acquire));
}

Status StoreLink::Seek(uint32_t rank, LinkChannel channel) const {
  const std::optional<uint32_t> place = PlaceOf(rank);
  if (!place.has_value()) {
    door_->Seek(rank, channel);
    return {};
  }
  if (*place < place_) {
    return {};
  }
  made_[*place] = MakePipeMemory();
  if (!made_[*place].valid()) {
    return Failed("memfd_create");
  }
  std::atomic_ref(PipeOf(place_, *place))
      .store(static_cast<uint32_t>(made_[*place].get()) + 1, std::memory_order_release);
  return {};
}

std::optional<StatusOr<UniqueFd>> StoreLink::Take(uint32_t rank, LinkChannel channel) const {
  const std::optional<uint32_t> place = PlaceOf(rank);
  return place.has_value() ? TakePipe(rank, *place) : door_->Take(rank, channel);
}

std::optional<StatusOr<UniqueFd>> StoreLink::TakePipe(uint32_t rank, uint32_t place) const {
  // First: what it has done before it ended, opening our pipe and sending through it, counts.
  Watch();
  const bool ended = EndOf(place) != LineEnd::kNone;
  if (place > place_) {
    // Not before the other one has it: without us it could not get it, nor what we had sent.
    if (std::atomic_ref(OpenedOf(place_, place)).load(std::memory_order_acquire) != 0) {
      return StatusOr<UniqueFd>(std::move(made_[place]));
    }
  } else if (const uint32_t word =
                 std::atomic_ref(PipeOf(place, place_)).load(std::memory_order_acquire);
             word != 0) {
    StatusOr<UniqueFd> pipe = OpenOf(pids_[place], word - 1);
    if (!pipe.ok()) {
      return StatusOr<UniqueFd>(
          Status(StatusCode::kUnavailable, pipe.status().message(), static_cast<int>(rank)));
    }
    std::atomic_ref(OpenedOf(place, place_)).store(1, std::memory_order_release);
    return pipe;
  }
  if (ended) {
    return StatusOr<UniqueFd>(Status(StatusCode::kUnavailable,
                                     "rank " + std::to_string(rank) + " has ended",
                                     static_cast<int>(rank)));
  }
  return std::nullopt;
}

// With ranks of other hosts.
Status StoreLink::Connect(const std::vector<uint32_t>& ranks,
                          const std::function<Status(uint32_t, StatusOr<UniqueFd>)>& take,
                          const std::function<Status(uint32_t)>& give_up) const {
  return SeekAndTake(ranks, take, give_up, [this] { return door_->Await(kLookAround); });
}

void StoreLink::Watch() const {
  for (uint32_t place = 0; place < pids_.size(); ++place) {
    pollfd one = {processes_[place].get(), POLLIN, 0};
    if (place != place_ && (!processes_[place].valid() || poll(&one, 1, 0) == 1)) {
      SetEnd(place, LineEnd::kDied);
    }
  }
}

}  // namespace muster
