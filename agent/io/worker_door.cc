#include "agent/io/worker_door.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

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
constexpr int kTakenAtOnce = 64;  // hellos, words; then others of the loop have their turn
constexpr absl::Duration kSendPause = absl::Milliseconds(50);

void Welcome(int socket, LinkWelcome welcome, int memory) {
  iovec part = {&welcome, sizeof(welcome)};
  // An empty socket takes one message; a worker that is gone again needs none.
  (void)SendWithFd(socket, &part, 1, memory, MSG_DONTWAIT);
}

// Into a message for people, zero-filled before.
template <size_t kSize>
void Write(absl::string_view why, char (&out)[kSize]) {
  why.substr(0, kSize - 1).copy(out, kSize - 1);
}

void Refuse(int socket, absl::string_view why) {
  LinkWelcome refusal;
  refusal.answer = LinkAnswer::kRefused;
  Write(why, refusal.why);
  Welcome(socket, refusal, -1);
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

WorkerDoor::WorkerDoor(uv_loop_t* loop, UniqueFd door, uint32_t cpus, PeerOptions peers,
                       std::function<void(NodeRank)> ask)
    : loop_(loop),
      door_(std::move(door)),
      cpus_(cpus),
      peers_(
          loop, std::move(peers),
          {std::move(ask), [this](uint32_t number, Rank mine) { return MaySeek(number, mine); }}),
      again_(loop, [this] {
        for (auto link = links_.begin(); link != links_.end();) {
          const LinkId id = link->first;
          ++link;
          SendResults(id);
        }
      }) {
  again_.Unref();
  if (door_.valid()) {
    poll_.emplace(loop_, door_.get(), [this](int) { OnDoor(); });
    poll_->Start(UV_READABLE);
    poll_->Unref();
  }
}

void WorkerDoor::EndRound() {
  peers_.EndRound();
  links_.clear();
  meetings_.clear();
  again_.Stop();
  rank_of_.clear();
  ranks_.clear();
  opened_.clear();
  ended_.clear();
}

void WorkerDoor::BeginRound(const Assignment& assignment, UniqueFd listening) {
  EndRound();
  round_ = assignment.round.Token();
  node_ = assignment.node_rank;
  map_ = RankMap(assignment);
  for (uint32_t i = 0; i < assignment.workers; ++i) {
    rank_of_.push_back(assignment.RankOf(LocalRank{i}).value);
  }
  ranks_ = rank_of_;
  std::sort(ranks_.begin(), ranks_.end());
  opened_.assign(ranks_.size(), 0);
  ended_.assign(ranks_.size(), false);
  geometry_ = ArenaFor(assignment.workers, assignment.nodes, assignment.world_size);
  peers_.BeginRound(assignment, &map_, std::move(listening));
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
  LinkWelcome welcome;
  welcome.cpus = cpus_;
  welcome.local_size = geometry_.local_size;
  welcome.nodes = geometry_.nodes;
  welcome.world_size = geometry_.world_size;
  welcome.slot_bytes = geometry_.slot_bytes;
  welcome.result_bytes = geometry_.result_bytes;
  Welcome(fd.get(), welcome, (*meeting)->memory.get());
  const LinkId id = {place, number};
  Link& link = links_[id];
  link.fd = std::move(fd);
  link.poll.emplace(loop_, link.fd.get(), [this, id](int) { OnLink(id); });
  link.poll->Start(UV_READABLE);
  link.poll->Unref();
}

uint32_t WorkerDoor::PlaceOf(uint32_t rank) const {
  const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  const bool found = at != ranks_.end() && *at == rank;
  return static_cast<uint32_t>((found ? at : ranks_.end()) - ranks_.begin());
}

absl::StatusOr<WorkerDoor::Meeting*> WorkerDoor::MeetingOf(uint32_t number) {
  const auto found = meetings_.find(number);
  return found != meetings_.end() ? &found->second : OpenMeeting(number);
}

absl::StatusOr<WorkerDoor::Meeting*> WorkerDoor::OpenMeeting(uint32_t number) {
  UniqueFd memory = MakeArenaMemory(geometry_);
  if (!memory.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no shared memory for the workers: ", std::strerror(errno)));
  }
  const std::vector<uint32_t> words = map_.Words();
  const auto bytes = static_cast<ssize_t>(words.size() * sizeof(uint32_t));
  if (pwrite(memory.get(), words.data(), static_cast<size_t>(bytes),
             static_cast<off_t>(geometry_.MapAt())) != bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the workers' map: ", std::strerror(errno)));
  }
  const uint64_t mapped_bytes = geometry_.MapAt();
  void* mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map the workers' shared memory: ", std::strerror(errno)));
  }
  Meeting& meeting = meetings_[number];
  meeting.memory = std::move(memory);
  meeting.mapped = static_cast<uint8_t*>(mapped);
  meeting.mapped_bytes = mapped_bytes;
  meeting.left = geometry_.local_size;
  for (uint32_t i = 0; i < ended_.size(); ++i) {
    if (ended_[i]) {
      Mark(meeting, i, LineEnd::kDied);
    }
  }
  return &meeting;
}

void WorkerDoor::OnLink(LinkId id) {
  for (int i = 0; i < kTakenAtOnce && SendResults(id) && TakeWord(id); ++i) {
  }
}

bool WorkerDoor::TakeWord(LinkId id) {
  Link& link = links_.at(id);
  if (!link.results.empty()) {
    return false;  // who does not listen is not listened to
  }
  LinkWord word;
  iovec part = {&word, sizeof(word)};
  UniqueFd fd;
  const ssize_t got = ReceiveWithFd(link.fd.get(), &part, 1, fd, MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) {
    return false;
  }
  const bool whole = got == sizeof(word) && word.magic == kLinkMagic;
  if (whole && word.verb == LinkVerb::kSeek) {
    Seek(id, word.rank);
    return true;
  }
  Gone(id, whole && word.verb == LinkVerb::kBye ? LineEnd::kClosed : LineEnd::kDied);
  return false;
}

void WorkerDoor::Seek(LinkId id, uint32_t rank) {
  const std::optional<NodeRank> node = map_.NodeOf(Rank{rank});
  const auto refuse = [&](absl::string_view why) {
    Answer(id, rank, absl::InvalidArgumentError(absl::StrCat("rank ", rank, " ", why)));
  };
  if (!node.has_value()) {
    refuse(absl::StrCat("is none of this round's ", geometry_.world_size));
  } else if (*node == node_) {
    refuse("runs on this node: it is reached through memory");
  } else if (!links_.at(id).sought.insert(rank).second) {
    refuse("has been sought on this communicator already");
  } else {
    peers_.Seek(
        {id.second, ranks_[id.first], rank},
        [this, id, rank](absl::StatusOr<UniqueFd> result) { Answer(id, rank, std::move(result)); });
  }
}

void WorkerDoor::Answer(LinkId id, uint32_t rank, absl::StatusOr<UniqueFd> result) {
  Result out;
  out.words.rank = rank;
  if (result.ok()) {
    out.socket = *std::move(result);
  } else {
    out.words.answer = LinkAnswer::kRefused;
    Write(result.status().message(), out.words.why);
  }
  links_.at(id).results.push_back(std::move(out));
  SendResults(id);
}

bool WorkerDoor::SendResults(LinkId id) {
  const auto found = links_.find(id);
  if (found == links_.end()) {
    return false;
  }
  Link& link = found->second;
  while (!link.results.empty()) {
    Result& result = link.results.front();
    iovec part = {&result.words, sizeof(result.words)};
    if (SendWithFd(link.fd.get(), &part, 1, result.socket.get(), MSG_DONTWAIT) >= 0) {
      link.results.pop_front();
    } else if (errno == EAGAIN) {
      link.poll->Start(UV_WRITABLE);
      return true;
    } else if (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM) {
      link.poll->Stop();
      again_.StartAfter(kSendPause);
      return true;
    } else {
      Gone(id, LineEnd::kDied);
      return false;
    }
  }
  link.poll->Start(UV_READABLE);
  return true;
}

bool WorkerDoor::MaySeek(uint32_t communicator, Rank mine) const {
  const uint32_t place = PlaceOf(mine.value);
  return place < ranks_.size() && !ended_[place] &&
         (communicator >= opened_[place] || links_.count({place, communicator}) != 0);
}

// Whoever waits for that rank looks now and then.
void WorkerDoor::Mark(const Meeting& meeting, uint32_t place, LineEnd how) {
  std::atomic_ref<uint32_t>(LineOf(meeting.mapped, place).gone)
      .store(static_cast<uint32_t>(how), std::memory_order_release);
}

void WorkerDoor::Gone(LinkId id, LineEnd how) {
  const auto [place, number] = id;
  const auto meeting = meetings_.find(number);
  Mark(meeting->second, place, how);
  if (--meeting->second.left == 0) {
    meetings_.erase(meeting);
  }
  links_.erase(id);
  peers_.Forget(number, Rank{ranks_[place]});
}

void WorkerDoor::WorkerEnded(LocalRank local) {
  if (local.value >= rank_of_.size()) {
    return;  // one that was stuck in the kernel when its round ended
  }
  const uint32_t place = PlaceOf(rank_of_[local.value]);
  ended_[place] = true;
  for (auto link = links_.lower_bound({place, 0}); link != links_.end();
       link = links_.lower_bound({place, 0})) {
    if (link->first.first != place) {
      break;
    }
    Gone(link->first, LineEnd::kDied);
  }
  peers_.ForgetAll(Rank{ranks_[place]});
  for (const auto& [number, meeting] : meetings_) {
    if (number >= opened_[place]) {
      Mark(meeting, place, LineEnd::kDied);  // the others wait for it to open theirs
    }
  }
}

}  // namespace muster
