#include "worker_sdk/bootstrap/agent_link.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "proto/base/fd_message.h"
#include "proto/base/why_no_memory.h"

namespace muster {
namespace {

constexpr std::chrono::seconds kTakenWithin{10};  // a message to the agent
constexpr std::chrono::milliseconds kLookAround{10};
constexpr std::chrono::milliseconds kFollowLook{50};

Status NoAgent(const std::string& what) {
  return {StatusCode::kUnavailable, "cannot reach the agent that started this worker: " + what};
}

template <size_t kSize>
Status Refused(const char (&why)[kSize]) {
  return {StatusCode::kFailedPrecondition, std::string(why, strnlen(why, kSize))};
}

// poll() that no signal cuts short.
int PollUntil(int fd, int16_t events, std::chrono::steady_clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    pollfd one = {fd, events, 0};
    const int ready = poll(&one, 1, static_cast<int>(left.count() > 0 ? left.count() : 0));
    if (ready >= 0 || errno != EINTR) {
      return ready;
    }
  }
}

// A message is there without its descriptor: the kernel had no place for that.
Status NotCome(const std::string& what) {
  return {StatusCode::kResourceExhausted,
          what + " did not come from the agent: " + WhyNoDescriptor(EMFILE)};
}

// About a door at which nobody can knock.
std::string WhatToDo(int door) {
  rlimit files{};
  constexpr rlim_t kEnough = 128;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < kEnough &&
      files.rlim_max <= static_cast<rlim_t>(door)) {
    return ": this process may have " + std::to_string(files.rlim_max) +
           " descriptors (ulimit -n), and this one is number " + std::to_string(door) +
           ": raise the limit to " + std::to_string(kEnough) + " or more";
  }
  return ". The descriptor in MUSTER_AGENT_FD must stay open until the communicator is made.";
}

}  // namespace

StatusOr<std::unique_ptr<AgentLink>> AgentLink::Open(const WorkerIdentity& me,
                                                     std::chrono::milliseconds within,
                                                     const LinkGroup& group) {
  const auto until = std::chrono::steady_clock::now() + within;
  LinkHello hello;
  hello.round = me.round;
  hello.rank = me.rank;
  LinkHello expected = hello;
  expected.local_size = me.local_size;
  expected.nodes = me.nodes;
  expected.world_size = me.size;
  if (group.number != 0) {
    hello.place = group.place;
    hello.group = group.number;
    hello.local_size = static_cast<uint32_t>(group.ranks_here.size());
    hello.nodes = group.nodes;
    hello.world_size = group.world_size;
    expected = hello;
  }
  std::unique_ptr<AgentLink> link(new AgentLink());
  Status status = link->Knock(me.agent_fd, hello, group.ranks_here, until);
  if (status.ok() && PollUntil(link->socket_.get(), POLLIN, until) == 0) {
    status = {StatusCode::kDeadlineExceeded, "the agent of this node does not answer"};
  }
  if (status.ok()) {
    status = link->TakeWelcome(expected);
  }
  if (!status.ok()) {
    return status;
  }
  return link;
}

StatusOr<std::unique_ptr<AgentLink>> AgentLink::Follow(const WorkerIdentity& me,
                                                       const std::function<Status()>& give_up) {
  using Clock = std::chrono::steady_clock;
  LinkHello hello;
  hello.round = me.round;
  hello.rank = me.rank;
  hello.follows = 1;
  std::unique_ptr<AgentLink> link(new AgentLink());
  Status status = link->Knock(me.agent_fd, hello, {}, Clock::now() + kTakenWithin);
  while (status.ok() && PollUntil(link->socket_.get(), POLLIN, Clock::now() + kFollowLook) == 0) {
    status = give_up();
  }
  if (status.ok()) {
    hello.local_size = me.local_size;
    hello.nodes = me.nodes;
    hello.world_size = me.size;
    status = link->TakeWelcome(hello);
  }
  if (!status.ok()) {
    return status;
  }
  return link;
}

Status AgentLink::Knock(int door, LinkHello hello, std::vector<uint32_t> members,
                        std::chrono::steady_clock::time_point until) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return {StatusCode::kInternal, "socketpair: " + WhyNoDescriptor(errno)};
  }
  socket_.Reset(ends[0]);
  {
    const UniqueFd theirs(ends[1]);
    std::array<iovec, 2> parts = {
        {{&hello, sizeof(hello)}, {members.data(), members.size() * sizeof(uint32_t)}}};
    // Other workers knock at the same door: it may be full for a moment.
    while (SendWithFd(door, parts.data(), parts.size(), theirs.get(), MSG_DONTWAIT) < 0) {
      if (errno != EAGAIN) {
        return NoAgent(std::string(std::strerror(errno)) + WhatToDo(door));
      }
      if (PollUntil(door, POLLOUT, until) == 0) {
        return {StatusCode::kDeadlineExceeded, "the agent of this node takes no message"};
      }
    }
  }
  return {};
}

Status AgentLink::TakeWelcome(const LinkHello& expected) {
  iovec part = {&welcome_, sizeof(welcome_)};
  const ssize_t got = ReceiveWithFd(socket_.get(), &part, 1, arena_, 0);
  if (got <= 0) {
    return NoAgent(got == 0 ? "it is gone" : std::strerror(errno));
  }
  if (got < static_cast<ssize_t>(sizeof(welcome_)) || welcome_.magic != kLinkMagic) {
    return {StatusCode::kInternal, "the agent's answer is none of ours"};
  }
  if (welcome_.answer != LinkAnswer::kWelcome) {
    const Status refused = Refused(welcome_.why);
    return welcome_.answer == LinkAnswer::kOver
               ? Status(StatusCode::kUnavailable, refused.message())
               : refused;
  }
  if (!arena_.valid()) {
    return NotCome("the node's shared memory");
  }
  if (welcome_.local_size != expected.local_size || welcome_.nodes != expected.nodes ||
      welcome_.world_size != expected.world_size) {
    return {StatusCode::kInternal, "the agent's welcome does not fit what this worker knows"};
  }
  const ArenaGeometry ours = ArenaFor(welcome_.local_size, welcome_.nodes, welcome_.world_size);
  if (welcome_.slot_bytes != ours.slot_bytes || welcome_.result_bytes != ours.result_bytes) {
    return {StatusCode::kInternal,
            "libmuster and the agent of this node are of different builds: take both from one "
            "installation"};
  }
  return {};
}

ArenaGeometry AgentLink::geometry() const {
  return {welcome_.local_size, welcome_.nodes, welcome_.world_size, welcome_.slot_bytes,
          welcome_.result_bytes};
}

StatusOr<Layout> AgentLink::ReadLayout() const {
  std::vector<uint32_t> map(size_t{welcome_.nodes} + welcome_.world_size);
  const size_t bytes = map.size() * sizeof(uint32_t);
  const ssize_t got =
      pread(arena_.get(), map.data(), bytes, static_cast<off_t>(geometry().MapAt()));
  const auto ranks_at = map.begin() + welcome_.nodes;
  std::vector<uint32_t> sizes(map.begin(), ranks_at);
  std::vector<uint32_t> ranks(ranks_at, map.end());
  if (got != static_cast<ssize_t>(bytes) || !Layout::IsWhole(sizes, ranks)) {
    return Status(StatusCode::kInternal, "the agent's map of the ranks makes no sense");
  }
  return Layout(sizes, std::move(ranks));
}

Status AgentLink::Connect(const std::vector<uint32_t>& ranks,
                          const std::function<Status(uint32_t, StatusOr<UniqueFd>)>& take,
                          const std::function<Status(uint32_t rank)>& give_up) const {
  return SeekAndTake(ranks, take, give_up, [this] {
    return PollUntil(socket_.get(), POLLIN, std::chrono::steady_clock::now() + kLookAround) != 0;
  });
}

Status AgentLink::Seek(uint32_t rank, LinkChannel channel) const {
  LinkWord word;
  word.verb = LinkVerb::kSeek;
  word.rank = rank;
  word.channel = channel;
  return Say(word);
}

void AgentLink::Blame(uint32_t rank) const {
  LinkWord word;
  word.verb = LinkVerb::kBlame;
  word.rank = rank;
  (void)Say(word);  // an agent that takes no word ends this worker
}

Status AgentLink::Say(const LinkWord& word) const {
  const auto until = std::chrono::steady_clock::now() + kTakenWithin;
  while (send(socket_.get(), &word, sizeof(word), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno != EAGAIN && errno != EINTR) {
      return NoAgent(std::strerror(errno));
    }
    if (PollUntil(socket_.get(), POLLOUT, until) == 0) {
      return {StatusCode::kDeadlineExceeded, "the agent of this node takes no message"};
    }
  }
  return {};
}

std::optional<StatusOr<UniqueFd>> AgentLink::Take(uint32_t rank, LinkChannel channel) const {
  const std::lock_guard lock(answers_.mutex);
  Hear();
  const auto at = answers_.of.find({rank, channel});
  if (at != answers_.of.end()) {
    StatusOr<UniqueFd> answer = std::move(at->second);
    answers_.of.erase(at);
    return answer;
  }
  if (!answers_.end.ok()) {
    return StatusOr<UniqueFd>(answers_.end);
  }
  return std::nullopt;
}

// All that is there.
void AgentLink::Hear() const {
  while (answers_.end.ok()) {
    LinkPeer peer;
    UniqueFd fd;
    iovec part = {&peer, sizeof(peer)};
    const ssize_t got = ReceiveWithFd(socket_.get(), &part, 1, fd, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    }
    answers_.end = Read(got, peer);
    if (!answers_.end.ok()) {
      return;
    }
    Status why;
    if (peer.answer == LinkAnswer::kOver) {
      why = {StatusCode::kUnavailable, Refused(peer.why).message()};
    } else if (peer.answer == LinkAnswer::kRefused) {
      const char* const whose = number() < kGroupMin ? "" : "counting ranks as the job does: ";
      why = {StatusCode::kUnavailable, whose + Refused(peer.why).message(),
             static_cast<int>(peer.rank)};
    } else if (!fd.valid()) {
      why = NotCome("the connection with rank " + std::to_string(peer.rank));
    }
    StatusOr<UniqueFd> answer =
        why.ok() ? StatusOr<UniqueFd>(std::move(fd)) : StatusOr<UniqueFd>(why);
    answers_.of.insert_or_assign({peer.rank, peer.channel}, std::move(answer));
  }
}

Status AgentLink::Read(ssize_t got, const LinkPeer& peer) {
  if (got <= 0) {
    return NoAgent(got == 0 ? "it is gone" : std::strerror(errno));
  }
  if (got != static_cast<ssize_t>(sizeof(peer)) || peer.magic != kLinkMagic) {
    return {StatusCode::kInternal, "the agent's answer is none of ours"};
  }
  return {};
}

AgentLink::~AgentLink() {
  if (socket_.valid()) {
    const LinkWord bye;
    [[maybe_unused]] const ssize_t sent =
        send(socket_.get(), &bye, sizeof(bye), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

}  // namespace muster
