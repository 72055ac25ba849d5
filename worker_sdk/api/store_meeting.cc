#include "worker_sdk/api/store_meeting.h"

#include <sched.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "proto/base/env_names.h"
#include "proto/base/worker_link.h"
#include "worker_sdk/algorithm/roster.h"
#include "worker_sdk/bootstrap/link.h"
#include "worker_sdk/bootstrap/own_addresses.h"
#include "worker_sdk/bootstrap/rank_door.h"
#include "worker_sdk/bootstrap/store_link.h"

namespace muster {
namespace {

constexpr char kRosterKey[] = "muster/ranks";

std::string CardKey(uint32_t rank) { return "muster/rank/" + std::to_string(rank); }

Status Random(void* out, size_t bytes) {
  return getrandom(out, bytes, 0) == static_cast<ssize_t>(bytes)
             ? Status()
             : Status(StatusCode::kInternal, std::string("getrandom: ") + std::strerror(errno));
}

template <size_t kSize>
void Fill(char (&field)[kSize], const std::string& text) {
  std::snprintf(field, kSize, "%s", text.c_str());
}

// This run of the machine's kernel, and in it the processes that we see; whose they are decides
// who may open their memory.
std::string HostName() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat processes = {};
  (void)stat("/proc/self/ns/pid", &processes);
  return boot + " " + std::to_string(processes.st_ino) + " " + std::to_string(geteuid());
}

// What a worker has started may have its variables, and not its way to the agent.
bool IsDoor(int fd) {
  int domain = 0;
  int type = 0;
  socklen_t bytes = sizeof(int);
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_UNIX &&
         getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_DGRAM;
}

RankCard CardOf(const WorkerIdentity& job) {
  RankCard out;
  out.pid = static_cast<uint32_t>(getpid());
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) {
    for (uint32_t cpu = 0; cpu < RankCard::kCpusMax; ++cpu) {
      out.cpus[cpu / 64] |= uint64_t{CPU_ISSET(cpu, &cpus) ? 1u : 0u} << (cpu % 64);
    }
  }
  Fill(out.host, HostName());
  if (job.launched && IsDoor(job.agent_fd)) {
    out.launched = 1;
    out.rank = job.rank;
    out.node = job.node_rank;
    out.round = job.round;
    const char* const name = std::getenv(kEnvJobId);
    Fill(out.job, name == nullptr ? "" : name);
  }
  return out;
}

// Rank 0 puts everybody's card together, so that each reads one value and not one from each.
Status Publish(Store& store, uint32_t size, const RankCard& mine) {
  Roster all;
  if (Status status = Random(&all.number, sizeof(all.number)); !status.ok()) {
    return status;
  }
  all.number = std::max(all.number, kGroupMin);
  all.cards = {mine};
  for (uint32_t rank = 1; rank < size; ++rank) {
    StatusOr<std::string> text = store.Get(CardKey(rank));
    if (!text.ok()) {
      return text.status();
    }
    StatusOr<RankCard> card = ReadCard(*text, rank);
    if (!card.ok()) {
      return card.status();
    }
    all.cards.push_back(*card);
  }
  return store.Set(kRosterKey, all.Text());
}

StatusOr<Roster> Exchange(Store& store, uint32_t rank, uint32_t size, const RankCard& mine) {
  if (Status status =
          rank == 0 ? Publish(store, size, mine) : store.Set(CardKey(rank), TextOf(mine));
      !status.ok()) {
    return status;
  }
  StatusOr<std::string> text = store.Get(kRosterKey);
  return text.ok() ? ReadRoster(*text, size) : text.status();
}

}  // namespace

StatusOr<Meeting> MeetAtStore(Store& store, uint32_t rank, uint32_t size,
                              const WorkerIdentity& job) {
  RankCard mine = CardOf(job);
  std::unique_ptr<RankDoor> door;
  if (mine.launched == 0) {  // others have agents, who listen for them
    // Open before others read of it: who finds nobody there knows that we have ended.
    StatusOr<std::unique_ptr<RankDoor>> opened = RankDoor::Open();
    if (!opened.ok()) {
      return opened.status();
    }
    door = *std::move(opened);
    door->Describe(OwnAddresses([](const char* name) -> const char* { return std::getenv(name); }),
                   mine);
  }
  StatusOr<Roster> all = Exchange(store, rank, size, mine);
  if (!all.ok()) {
    return all.status();
  }
  if (Status status = CheckAllDiffer(*all); !status.ok()) {
    return status;
  }
  SplitGroup group = GroupOf(*all, rank);
  if (size == 1 || IsOfOneJob(*all)) {
    return MeetAsGroup(std::move(group), job, all->number);
  }
  const bool is_mixed = std::any_of(all->cards.begin(), all->cards.end(),
                                    [](const RankCard& card) { return card.launched != 0; });
  if (group.layout.nodes() > 1 && is_mixed) {
    return Status(StatusCode::kUnimplemented,
                  "some of these processes are workers of launch's, and others are not workers of "
                  "the same job: on several hosts, start all of them with one launch, or none");
  }
  StatusOr<std::unique_ptr<Link>> link =
      StoreLink::Open(store, *all, group.layout, rank, std::move(door));
  if (!link.ok()) {
    return link.status();
  }
  const uint32_t here = group.layout.SizeOf(group.layout.SeatOf(rank).node);
  StatusOr<Meeting> met = MeetAt(*std::move(link), std::move(group.layout), rank, here);
  if (met.ok()) {
    met->has_agent = false;
  }
  return met;
}

}  // namespace muster
