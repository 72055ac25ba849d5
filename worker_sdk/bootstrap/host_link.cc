#include "worker_sdk/bootstrap/host_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

#include "proto/base/arena_memory.h"

namespace muster {
namespace {

constexpr char kMemoryKey[] = "muster/memory";

// Which descriptors of rank 0 the memory is; travels through the store.
struct SharedMemory {
  int32_t arena = -1;
  int32_t table = -1;
};

Status Failed(const std::string& what) {
  return {StatusCode::kInternal, what + ": " + std::strerror(errno)};
}

size_t TableBytes(uint32_t size) { return size_t{size} * size * sizeof(uint32_t); }

uint32_t CpusOf(const Roster& roster) {
  uint32_t out = 0;
  for (uint32_t word = 0; word < RankCard::kCpusMax / 64; ++word) {
    uint64_t all = 0;
    for (const RankCard& card : roster.cards) {
      all |= card.cpus[word];
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

}  // namespace

void HostLink::Unmap::operator()(uint8_t* memory) const { munmap(memory, bytes); }

StatusOr<std::unique_ptr<Link>> HostLink::Open(Store& store, const Roster& roster, uint32_t rank) {
  std::unique_ptr<HostLink> out(new HostLink(roster, rank));
  if (Status status = out->Share(store); !status.ok()) {
    return status;
  }
  for (uint32_t other = 0; other < out->pids_.size(); ++other) {
    if (other == rank) {
      continue;
    }
    out->processes_[other].Reset(
        static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(out->pids_[other]), 0)));
    if (!out->processes_[other].valid() && errno != ESRCH) {
      return Failed("pidfd_open");
    }
  }
  return std::unique_ptr<Link>(std::move(out));
}

HostLink::HostLink(const Roster& roster, uint32_t rank)
    : rank_(rank),
      number_(roster.number),
      cpus_(CpusOf(roster)),
      processes_(roster.cards.size()),
      made_(roster.cards.size()) {
  for (const RankCard& card : roster.cards) {
    pids_.push_back(card.pid);
  }
}

HostLink::~HostLink() {
  if (lines_) {
    SetEnd(rank_, LineEnd::kClosed);
  }
}

ArenaGeometry HostLink::geometry() const {
  const auto size = static_cast<uint32_t>(pids_.size());
  return ArenaFor(size, 1, size);
}

Status HostLink::Share(Store& store) {
  const size_t table_bytes = TableBytes(static_cast<uint32_t>(pids_.size()));
  if (rank_ == 0) {
    arena_ = MakeArenaMemory(geometry());
    table_ = MakeSealedMemory("muster-pipes", table_bytes);
    if (!arena_.valid() || !table_.valid()) {
      return Failed("memfd_create");
    }
    const SharedMemory mine = {arena_.get(), table_.get()};
    if (Status status =
            store.Set(kMemoryKey, std::string(reinterpret_cast<const char*>(&mine), sizeof(mine)));
        !status.ok()) {
      return status;
    }
  } else {
    StatusOr<std::string> text = store.Get(kMemoryKey);
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
  Status status = Map(arena_, geometry().SlotsAt(), lines_);
  return status.ok() ? Map(table_, table_bytes, pipes_) : status;
}

Status HostLink::Map(const UniqueFd& memory, size_t bytes, Mapping& out) const {
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) {
    return Failed("mmap");
  }
  out = Mapping(static_cast<uint8_t*>(mapped), {bytes});
  return {};
}

uint32_t& HostLink::PipeOf(uint32_t lower, uint32_t higher) const {
  return reinterpret_cast<uint32_t*>(pipes_.get())[lower * pids_.size() + higher];
}

uint32_t& HostLink::OpenedOf(uint32_t lower, uint32_t higher) const {
  return PipeOf(higher, lower);  // which no pipe has
}

void HostLink::SetEnd(uint32_t rank, LineEnd end) const {
  auto* const line = reinterpret_cast<ArenaLine*>(lines_.get() + geometry().LinesAt() +
                                                  rank * ArenaGeometry::kLineBytes);
  uint32_t none = 0;
  std::atomic_ref(line->gone).compare_exchange_strong(none, static_cast<uint32_t>(end));
}

Status HostLink::Seek(uint32_t rank, LinkChannel /*channel*/) const {
  if (rank < rank_) {
    return {};
  }
  made_[rank] = MakePipeMemory();
  if (!made_[rank].valid()) {
    return Failed("memfd_create");
  }
  std::atomic_ref(PipeOf(rank_, rank))
      .store(static_cast<uint32_t>(made_[rank].get()) + 1, std::memory_order_release);
  return {};
}

std::optional<StatusOr<UniqueFd>> HostLink::Take(uint32_t rank, LinkChannel /*channel*/) const {
  if (rank > rank_) {
    // Not before the other one has it: without us it could not get it, nor what we had sent.
    if (std::atomic_ref(OpenedOf(rank_, rank)).load(std::memory_order_acquire) != 0) {
      return StatusOr<UniqueFd>(std::move(made_[rank]));
    }
  } else if (const uint32_t word =
                 std::atomic_ref(PipeOf(rank, rank_)).load(std::memory_order_acquire);
             word != 0) {
    StatusOr<UniqueFd> pipe = OpenOf(pids_[rank], word - 1);
    if (!pipe.ok()) {
      return StatusOr<UniqueFd>(
          Status(StatusCode::kUnavailable, pipe.status().message(), static_cast<int>(rank)));
    }
    std::atomic_ref(OpenedOf(rank, rank_)).store(1, std::memory_order_release);
    return pipe;
  }
  auto* const line = reinterpret_cast<ArenaLine*>(lines_.get() + geometry().LinesAt() +
                                                  rank * ArenaGeometry::kLineBytes);
  Watch();
  if (std::atomic_ref(line->gone).load(std::memory_order_acquire) != 0) {
    return StatusOr<UniqueFd>(Status(StatusCode::kUnavailable,
                                     "rank " + std::to_string(rank) + " has ended",
                                     static_cast<int>(rank)));
  }
  return std::nullopt;
}

Status HostLink::Connect(const std::vector<uint32_t>& /*ranks*/,
                         const std::function<Status(uint32_t, StatusOr<UniqueFd>)>& /*take*/,
                         const std::function<Status(uint32_t)>& /*give_up*/) const {
  return {StatusCode::kInternal, "ranks of one host have no connections"};
}

void HostLink::Watch() const {
  for (uint32_t rank = 0; rank < pids_.size(); ++rank) {
    pollfd one = {processes_[rank].get(), POLLIN, 0};
    if (rank != rank_ && (!processes_[rank].valid() || poll(&one, 1, 0) == 1)) {
      SetEnd(rank, LineEnd::kDied);
    }
  }
}

}  // namespace muster
