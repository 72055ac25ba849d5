#include "agent/io/worker_door.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "agent/core/group_hello.h"
#include "agent/io/link_words.h"
#include "proto/base/fd_message.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

static_assert(kLocalSizeMax == kWorkersPerNodeMax);
constexpr int kTakenAtOnce = 64;  // hellos; then others of the loop have their turn

// Groups count no steps.
void Count(uint64_t number, const WorkerMeeting& meeting, StepCount& out) {
  const StepCount steps = number < kGroupMin ? meeting.Steps() : StepCount();
  out.steps += steps.steps;
  out.took += steps.took;
}

std::string NameOf(uint64_t group) { return absl::StrCat("group ", absl::Hex(group)); }

}  // namespace

WorkerDoor::WorkerDoor(uv_loop_t* loop, UniqueFd door, uint32_t cpus, PeerOptions peers,
                       std::function<void(NodeRank)> ask, size_t groups_max)
    : loop_(loop),
      door_(std::move(door)),
      cpus_(cpus),
      groups_max_(groups_max),
      peers_(
          loop, std::move(peers),
          {std::move(ask), [this](uint64_t number, Rank mine) { return MaySeek(number, mine); }}),
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
  followers_.clear();
  old_links_.clear();
  EndMeetings();
  rank_of_.clear();
  ranks_.clear();
  opened_.clear();
  ended_.clear();
  started_in_.clear();
  replaces_.clear();
  blamed_.clear();
  failing_.clear();
}

void WorkerDoor::EndMeetings() {
  links_.clear();
  for (const auto& [number, meeting] : meetings_) {
    Count(number, *meeting, steps_);
  }
  meetings_.clear();
  groups_ = 0;
  closed_in_order_.clear();
  closed_.clear();
  again_.Stop();
}

void WorkerDoor::BeginRound(const Assignment& assignment, UniqueFd listening) {
  EndRound();
  SetRound(assignment);
  ended_.assign(ranks_.size(), false);
  started_in_.assign(ranks_.size(), round_);
  replaces_.assign(ranks_.size(), false);
  for (uint32_t i = 0; i < assignment.workers; ++i) {
    replaces_[WorkerOf(rank_of_[i])] = assignment.IsReplacement(LocalRank{i});
  }
  blamed_.assign(ranks_.size(), std::nullopt);
  failing_.assign(ranks_.size(), false);
  peers_.BeginRound(assignment, &map_, std::move(listening));
}

void WorkerDoor::SetRound(const Assignment& assignment) {
  round_ = assignment.round.Token();
  node_ = assignment.node_rank;
  map_ = RankMap(assignment);
  ended_well_.reset();
  rank_of_.clear();
  for (uint32_t i = 0; i < assignment.workers; ++i) {
    rank_of_.push_back(assignment.RankOf(LocalRank{i}).value);
  }
  ranks_ = rank_of_;
  std::sort(ranks_.begin(), ranks_.end());
  opened_.assign(ranks_.size(), 0);
  geometry_ = ArenaFor(assignment.workers, assignment.nodes, assignment.world_size);
}

void WorkerDoor::OnDoor() {
  for (int i = 0; i < kTakenAtOnce && TakeOne(); ++i) {
  }
}

bool WorkerDoor::TakeOne() {
  LinkHello hello;
  std::array<uint32_t, kLocalSizeMax> behind;
  std::array<iovec, 2> parts = {{{&hello, sizeof(hello)}, {behind.data(), sizeof(behind)}}};
  UniqueFd fd;
  const ssize_t got = ReceiveWithFd(door_.get(), parts.data(), parts.size(), fd, MSG_DONTWAIT);
  if (got < 0) {
    if (errno != EAGAIN) {
      poll_.reset();  // nobody can come any more
    }
    return false;
  }
  const auto bytes = static_cast<size_t>(got);
  if (fd.valid() && bytes >= sizeof(hello)) {
    const size_t members = (bytes - sizeof(hello)) / sizeof(uint32_t);
    Admit(std::move(fd), hello, {behind.data(), behind.data() + members});
  }
  return true;  // anything else is no worker's SDK: its descriptor is closed
}

void WorkerDoor::Admit(UniqueFd fd, const LinkHello& hello, const std::vector<uint32_t>& members) {
  if (hello.magic != kLinkMagic || hello.version != kLinkVersion) {
    return Refuse(fd.get(), absl::StrCat("libmuster speaks version ", hello.version,
                                         ", the agent of this node ", kLinkVersion,
                                         ": take both from one installation"));
  }
  const uint32_t worker = WorkerOf(hello.rank);
  if (worker == ranks_.size() || ended_[worker] || hello.round < started_in_[worker] ||
      hello.round > round_) {
    return Refuse(fd.get(), absl::StrCat("rank ", hello.rank, " of round ", hello.round,
                                         " is no worker of this node in round ", round_));
  }
  if (hello.follows != 0 && hello.round == round_) {
    return Follow(std::move(fd), worker);
  }
  if (hello.group != 0 && hello.round != round_) {
    return Refuse(fd.get(), absl::StrCat("round ", hello.round, " is over, and its groups with it"),
                  LinkAnswer::kOver);
  }
  Enter(std::move(fd), worker, hello, members);
}

void WorkerDoor::Enter(UniqueFd fd, uint32_t worker, const LinkHello& hello,
                       const std::vector<uint32_t>& members) {
  const bool all = hello.group == 0;
  if (all && ended_well_.has_value()) {
    return RefuseToMeet(fd, worker);
  }
  const LinkId id = {worker, all ? opened_[worker] : hello.group};
  const absl::StatusOr<WorkerMeeting*> found = all ? MeetingOf(worker) : GroupOf(hello, members);
  if (!found.ok()) {
    return Refuse(fd.get(), found.status().message());
  }
  WorkerMeeting& meeting = **found;
  if (opened_[worker] == 0) {
    blamed_[worker].reset();  // what was in a round before this one is no cause any more
    failing_[worker] = false;
  }
  opened_[worker] += all ? 1 : 0;
  meeting.Come(*meeting.PlaceOf(hello.rank));
  LinkWelcome welcome;
  welcome.cpus = cpus_;
  welcome.local_size = meeting.geometry().local_size;
  welcome.nodes = meeting.geometry().nodes;
  welcome.world_size = meeting.geometry().world_size;
  welcome.slot_bytes = meeting.geometry().slot_bytes;
  welcome.result_bytes = meeting.geometry().result_bytes;
  welcome.number = id.second;
  welcome.round = round_;
  welcome.replaces = replaces_[worker] ? 1 : 0;
  Welcome(fd.get(), welcome, meeting.memory().get());
  Link& link = links_[id];
  link.fd = std::move(fd);
  link.poll.emplace(loop_, link.fd.get(), [this, id](int) { OnLink(id); });
  link.poll->Start(UV_READABLE);
  link.poll->Unref();
}

uint32_t WorkerDoor::WorkerOf(uint32_t rank) const {
  const auto at = std::lower_bound(ranks_.begin(), ranks_.end(), rank);
  const bool found = at != ranks_.end() && *at == rank;
  return static_cast<uint32_t>((found ? at : ranks_.end()) - ranks_.begin());
}

absl::StatusOr<WorkerMeeting*> WorkerDoor::MeetingOf(uint32_t worker) {
  const auto found = meetings_.find(opened_[worker]);
  return found != meetings_.end() ? found->second.get()
                                  : OpenMeeting(opened_[worker], geometry_, ranks_, map_.Words());
}

absl::StatusOr<WorkerMeeting*> WorkerDoor::GroupOf(const LinkHello& hello,
                                                   const std::vector<uint32_t>& members) {
  RETURN_IF_ERROR(CheckGroup(hello, members, ranks_, geometry_));
  const ArenaGeometry geometry = ArenaFor(hello.local_size, hello.nodes, hello.world_size);
  const auto found = meetings_.find(hello.group);
  if (found == meetings_.end()) {
    if (closed_.count(hello.group) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(NameOf(hello.group), " is over: all its ranks of this node have left it"));
    }
    if (groups_ >= groups_max_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the workers of this node have ", groups_,
                       " groups open, which is the limit: close some before the next Split"));
    }
    return OpenMeeting(hello.group, geometry, members, {});
  }
  WorkerMeeting& meeting = *found->second;
  if (meeting.geometry() != geometry || meeting.ranks() != members) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", hello.rank, " and one that came before it disagree on who is in ",
                     NameOf(hello.group)));
  }
  if (!meeting.MayCome(hello.place)) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", hello.rank, " has been in ", NameOf(hello.group), " before"));
  }
  return &meeting;
}

absl::StatusOr<WorkerMeeting*> WorkerDoor::OpenMeeting(uint64_t number,
                                                       const ArenaGeometry& geometry,
                                                       const std::vector<uint32_t>& ranks,
                                                       const std::vector<uint32_t>& map) {
  ASSIGN_OR_RETURN(std::unique_ptr<WorkerMeeting> meeting,
                   WorkerMeeting::Open(geometry, ranks, map));
  for (uint32_t place = 0; place < ranks.size(); ++place) {
    if (ended_[WorkerOf(ranks[place])]) {
      meeting->End(place, LineEnd::kDied);
    }
  }
  meeting->HoldUp(holding_);
  groups_ += number >= kGroupMin ? 1 : 0;
  return (meetings_[number] = std::move(meeting)).get();
}

void WorkerDoor::HoldUp(absl::Duration delay, absl::Duration length) {
  const absl::Duration now = absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
  holding_ = {static_cast<uint64_t>(absl::ToInt64Nanoseconds(now + length)),
              static_cast<uint64_t>(absl::ToInt64Nanoseconds(delay))};
  for (const auto& [number, meeting] : meetings_) {
    meeting->HoldUp(holding_);
  }
}

StepCount WorkerDoor::Steps() const {
  StepCount all = steps_;
  for (const auto& [number, meeting] : meetings_) {
    Count(number, *meeting, all);
  }
  return all;
}

void WorkerDoor::CloseMeeting(uint64_t number) {
  Count(number, *meetings_.at(number), steps_);
  meetings_.erase(number);
  if (number < kGroupMin) {
    return;
  }
  --groups_;
  closed_.insert(number);
  closed_in_order_.push_back(number);
  if (closed_in_order_.size() > kGroupsClosedMax) {
    closed_.erase(closed_in_order_.front());
    closed_in_order_.pop_front();
  }
}

bool WorkerDoor::MaySeek(uint64_t communicator, Rank mine) const {
  const uint32_t worker = WorkerOf(mine.value);
  if (worker == ranks_.size() || ended_[worker]) {
    return false;
  }
  const auto meeting = meetings_.find(communicator);
  if (meeting == meetings_.end()) {
    return communicator < kGroupMin ? communicator >= opened_[worker]
                                    : closed_.count(communicator) == 0;
  }
  const std::optional<uint32_t> place = meeting->second->PlaceOf(mine.value);
  return place.has_value() && meeting->second->EndOf(*place) == LineEnd::kNone;
}

void WorkerDoor::Gone(LinkId id, LineEnd how) {
  links_.erase(id);
  peers_.Forget(id.second, Rank{ranks_[id.first]});
  End(id, how);
}

void WorkerDoor::End(LinkId id, LineEnd how) {
  const auto [worker, number] = id;
  WorkerMeeting& meeting = *meetings_.at(number);
  const uint32_t rank = ranks_[worker];
  const uint32_t place = *meeting.PlaceOf(rank);
  meeting.End(place, how);
  for (const uint32_t waits : meeting.TakeWaitingFor(place)) {
    const LinkId other = {WorkerOf(meeting.ranks()[waits]), number};
    if (links_.count(other) != 0) {
      Answer(other, {rank, LinkChannel::kMessages}, GoneError(rank, how));
    }
  }
  if (meeting.IsOver()) {
    CloseMeeting(number);
  }
}

std::optional<Rank> WorkerDoor::WorkerEnded(LocalRank local) {
  if (local.value >= rank_of_.size()) {
    return std::nullopt;  // one that was stuck in the kernel when its round ended
  }
  const uint32_t rank = rank_of_[local.value];
  const uint32_t worker = WorkerOf(rank);
  ended_[worker] = true;
  for (auto link = links_.lower_bound({worker, 0});
       link != links_.end() && link->first.first == worker;
       link = links_.lower_bound({worker, 0})) {
    TakeLastWords(link->first);
    Gone(link->first, LineEnd::kDied);
  }
  followers_.erase(worker);
  LeaveOldLinks(worker);
  peers_.ForgetAll(Rank{rank});
  std::vector<uint64_t> awaited;  // where the others wait for it to come
  for (const auto& [number, meeting] : meetings_) {
    const std::optional<uint32_t> place = meeting->PlaceOf(rank);
    if (place.has_value() && meeting->MayCome(*place)) {
      awaited.push_back(number);
    }
  }
  for (const uint64_t number : awaited) {
    End({worker, number}, LineEnd::kDied);
  }
  return blamed_[worker];
}

bool WorkerDoor::IsAnyFailing() const {
  for (size_t worker = 0; worker < failing_.size(); ++worker) {
    if (failing_[worker] && !ended_[worker]) {
      return true;
    }
  }
  return false;
}

}  // namespace muster
