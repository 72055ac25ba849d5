#include "agent/io/worker_door.h"

#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "proto/base/arena_memory.h"
#include "proto/base/fd_message.h"
#include "proto/base/limits.h"

namespace muster {
namespace {

static_assert(kLocalSizeMax == kWorkersPerNodeMax);
constexpr int kTakenAtOnce = 64;  // hellos; then others of the loop have their turn

void Answer(int socket, LinkWelcome welcome, std::vector<uint32_t> ranks, int memory) {
  iovec parts[2] = {{&welcome, sizeof(welcome)}, {ranks.data(), ranks.size() * sizeof(uint32_t)}};
  // An empty socket takes one message; a worker that is gone again needs none.
  (void)SendWithFd(socket, parts, 2, memory, MSG_DONTWAIT);
}

void Refuse(int socket, absl::string_view why) {
  LinkWelcome refusal;
  refusal.answer = LinkAnswer::kRefused;
  why.substr(0, sizeof(refusal.why) - 1).copy(refusal.why, sizeof(refusal.why) - 1);
  Answer(socket, refusal, {}, -1);
}

ArenaLine& LineOf(uint8_t* arena, uint32_t place) {
  return *reinterpret_cast<ArenaLine*>(arena + ArenaGeometry().LinesAt() +
                                       place * ArenaGeometry::kLineBytes);
}

}  // namespace

WorkerDoor::Meeting::~Meeting() {
  if (mapped != nullptr) {
    munmap(mapped, mapped_bytes);
  }
}

WorkerDoor::WorkerDoor(uv_loop_t* loop, UniqueFd door, uint32_t cpus)
    : loop_(loop), door_(std::move(door)), cpus_(cpus) {
  if (door_.valid()) {
    poll_.emplace(loop_, door_.get(), [this](int) { OnDoor(); });
    poll_->Start(UV_READABLE);
    poll_->Unref();
  }
}

void WorkerDoor::BeginRound(const Assignment& assignment) {
  links_.clear();
  meetings_.clear();
  round_ = assignment.round.Token();
  rank_of_.clear();
  for (uint32_t i = 0; i < assignment.workers; ++i) {
    rank_of_.push_back(assignment.RankOf(LocalRank{i}).value);
  }
  ranks_ = rank_of_;
  std::sort(ranks_.begin(), ranks_.end());
  opened_.assign(ranks_.size(), 0);
  ended_.assign(ranks_.size(), false);
}

void WorkerDoor::OnDoor() {
  for (int i = 0; i < kTakenAtOnce && TakeOne(); ++i) {
  }
}

bool WorkerDoor::TakeOne() {
  LinkHello hello;
  iovec part = {&hello, sizeof(hello)};
  UniqueFd fd;
  const ssize_t got = ReceiveWithFd(door_.get(), &part, 1, fd, MSG_DONTWAIT);
  if (got < 0) {
    if (errno != EAGAIN) {
      poll_.reset();  // nobody can come any more
    }
    return false;
  }
  if (fd.valid() && got == sizeof(hello)) {
    Admit(std::move(fd), hello);
  }
  return true;  // anything else is no worker's SDK: its descriptor is closed
}

void WorkerDoor::Admit(UniqueFd fd, const LinkHello& hello) {
  if (hello.magic != kLinkMagic || hello.version != kLinkVersion) {
    return Refuse(fd.get(), absl::StrCat("libmuster speaks version ", hello.version,
                                         ", the agent of this node ", kLinkVersion,
                                         ": take both from one installation"));
  }
  const uint32_t place = PlaceOf(hello.rank);
  if (hello.round != round_ || place == ranks_.size()) {
    return Refuse(fd.get(), absl::StrCat("rank ", hello.rank, " of round ", hello.round,
                                         " is no worker of this node in round ", round_));
  }
  const uint32_t number = opened_[place];
  absl::StatusOr<Meeting*> meeting = MeetingOf(number);
  if (!meeting.ok()) {
    return Refuse(fd.get(), meeting.status().message());
  }
  ++opened_[place];
  const ArenaGeometry geometry = ArenaFor(static_cast<uint32_t>(ranks_.size()));
  LinkWelcome welcome;
  welcome.cpus = cpus_;
  welcome.local_size = geometry.local_size;
  welcome.slot_bytes = geometry.slot_bytes;
  Answer(fd.get(), welcome, ranks_, (*meeting)->memory.get());
  const auto link = links_.emplace(links_.end());
  link->fd = std::move(fd);
  link->place = place;
  link->meeting = number;
  link->poll.emplace(loop_, link->fd.get(), [this, link](int) { OnLink(link); });
  link->poll->Start(UV_READABLE);
  link->poll->Unref();
}

uint32_t WorkerDoor::PlaceOf(uint32_t rank) const {
  const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  const bool found = at != ranks_.end() && *at == rank;
  return static_cast<uint32_t>((found ? at : ranks_.end()) - ranks_.begin());
}

absl::StatusOr<WorkerDoor::Meeting*> WorkerDoor::MeetingOf(uint32_t number) {
  if (const auto found = meetings_.find(number); found != meetings_.end()) {
    return &found->second;
  }
  const ArenaGeometry geometry = ArenaFor(static_cast<uint32_t>(ranks_.size()));
  UniqueFd memory = MakeArenaMemory(geometry);
  if (!memory.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no shared memory for the workers: ", std::strerror(errno)));
  }
  const uint64_t bytes = geometry.SlotsAt();
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map the workers' shared memory: ", std::strerror(errno)));
  }
  Meeting& meeting = meetings_[number];
  meeting.memory = std::move(memory);
  meeting.mapped = static_cast<uint8_t*>(mapped);
  meeting.mapped_bytes = bytes;
  meeting.left = geometry.local_size;
  for (uint32_t i = 0; i < ended_.size(); ++i) {
    if (ended_[i]) {
      Mark(meeting, i, LineEnd::kDied);
    }
  }
  return &meeting;
}

void WorkerDoor::OnLink(std::list<Link>::iterator link) {
  LinkBye bye;
  iovec part = {&bye, sizeof(bye)};
  UniqueFd fd;
  const ssize_t got = ReceiveWithFd(link->fd.get(), &part, 1, fd, MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) {
    return;
  }
  Gone(link, got == sizeof(bye) && bye.magic == kLinkMagic ? LineEnd::kClosed : LineEnd::kDied);
}

// Whoever waits for that rank looks now and then.
void WorkerDoor::Mark(const Meeting& meeting, uint32_t place, LineEnd how) {
  std::atomic_ref<uint32_t>(LineOf(meeting.mapped, place).gone)
      .store(static_cast<uint32_t>(how), std::memory_order_release);
}

void WorkerDoor::Gone(std::list<Link>::iterator link, LineEnd how) {
  const auto meeting = meetings_.find(link->meeting);
  Mark(meeting->second, link->place, how);
  if (--meeting->second.left == 0) {
    meetings_.erase(meeting);
  }
  links_.erase(link);
}

void WorkerDoor::WorkerEnded(LocalRank local) {
  const uint32_t place = PlaceOf(rank_of_[local.value]);
  for (auto link = links_.begin(); link != links_.end();) {
    const auto next = std::next(link);
    if (link->place == place) {
      Gone(link, LineEnd::kDied);
    }
    link = next;
  }
  ended_[place] = true;
  for (const auto& [number, meeting] : meetings_) {
    if (number >= opened_[place]) {
      Mark(meeting, place, LineEnd::kDied);  // the others wait for it to open theirs
    }
  }
}

}  // namespace muster
