#include "worker_sdk/bootstrap/rank_door.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "proto/base/peer_socket.h"
#include "proto/base/why_no_memory.h"
#include "worker_sdk/base/momentary.h"
#include "worker_sdk/base/quiet_thread.h"

namespace muster {
namespace {

static_assert(std::is_trivially_copyable_v<Knock> && sizeof(Knock) == 40);

using std::chrono::milliseconds;

constexpr std::chrono::seconds kCallWithin{120};
constexpr milliseconds kNextAddressAfter{250};  // if the one before has not answered
constexpr int kTries = 3;
constexpr milliseconds kFirstRetry{300};  // doubled each time
// What the other side had begun before its end may still be on its way.
constexpr milliseconds kEndedAfter{100};
constexpr milliseconds kAcceptAgain{100};
constexpr std::chrono::hours kLongest{1};

Status Failed(const std::string& what) {
  return {StatusCode::kInternal, what + ": " + WhyNoDescriptor(errno)};
}

// Of both families where the machine has both.
UniqueFd Listen(uint32_t& port) {
  for (const int family : {AF_INET6, AF_INET}) {
    UniqueFd out(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_storage any{};
    any.ss_family = static_cast<sa_family_t>(family);
    socklen_t bytes = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    const int both = 0;
    auto* const address = reinterpret_cast<sockaddr*>(&any);
    if (!out.valid() ||
        (family == AF_INET6 &&
         setsockopt(out.get(), IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof(both)) != 0) ||
        bind(out.get(), address, bytes) != 0 || listen(out.get(), SOMAXCONN) != 0 ||
        getsockname(out.get(), address, &bytes) != 0) {
      continue;
    }
    port = ntohs(family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&any)->sin6_port
                                    : reinterpret_cast<sockaddr_in*>(&any)->sin_port);
    return out;
  }
  return {};
}

bool SayAll(int fd, const void* bytes, size_t count) {
  return send(fd, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(count);
}

bool HasEnded(int fd) {
  uint8_t byte = 0;
  return recv(fd, &byte, 1, MSG_DONTWAIT) >= 0 || !IsMomentary(errno);
}

// What a rank says of itself is bounded, and need not end.
std::vector<std::string> AddressesOf(const RankCard& card) {
  std::vector<std::string> out;
  for (const auto& address : card.addresses) {
    if (address[0] != '\0') {
      out.emplace_back(address, strnlen(address, sizeof(address)));
    }
  }
  return out;
}

}  // namespace

StatusOr<std::unique_ptr<RankDoor>> RankDoor::Open() {
  uint32_t port = 0;
  UniqueFd listener = Listen(port);
  if (!listener.valid()) {
    return Failed("no port for connections with other hosts");
  }
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  uint64_t token[2];
  if (!wake.valid() || getrandom(token, sizeof(token), 0) != sizeof(token)) {
    return Failed("eventfd, getrandom");
  }
  return std::unique_ptr<RankDoor>(new RankDoor(std::move(listener), std::move(wake), port, token));
}

RankDoor::RankDoor(UniqueFd listener, UniqueFd wake, uint32_t port, const uint64_t (&token)[2])
    : listener_(std::move(listener)),
      wake_(std::move(wake)),
      port_(port),
      token_{token[0], token[1]},
      jitter_(token[0]) {}

RankDoor::~RankDoor() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    (void)eventfd_write(wake_.get(), 1);
    thread_.join();
  }
}

void RankDoor::Describe(const std::vector<std::string>& addresses, RankCard& card) const {
  card.port = port_;
  std::copy(std::begin(token_), std::end(token_), card.token);
  const size_t count = std::min(addresses.size(), std::size(card.addresses));
  for (size_t i = 0; i < count; ++i) {
    std::snprintf(card.addresses[i], sizeof(card.addresses[i]), "%s", addresses[i].c_str());
  }
}

Status RankDoor::Start(const Roster& roster, uint32_t rank) {
  roster_ = roster;
  rank_ = rank;
  return StartQuietThread(
      "for connections with other hosts", [this] { Loop(); }, thread_);
}

void RankDoor::Seek(uint32_t rank, LinkChannel channel) {
  {
    const std::lock_guard lock(mutex_);
    wanted_.emplace_back(rank, channel);
  }
  (void)eventfd_write(wake_.get(), 1);
}

std::optional<StatusOr<UniqueFd>> RankDoor::Take(uint32_t rank, LinkChannel channel) {
  const std::lock_guard lock(mutex_);
  const auto found = results_.find({rank, channel});
  return found == results_.end() ? std::nullopt : std::exchange(found->second, std::nullopt);
}

bool RankDoor::Await(milliseconds nap) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, nap) == std::cv_status::no_timeout;
}

void RankDoor::Finish(const Sought& sought, StatusOr<UniqueFd> result) {
  const std::lock_guard lock(mutex_);
  results_.try_emplace(sought, std::move(result));
  changed_.notify_all();
}

bool RankDoor::IsFinished(const Sought& sought) {
  const std::lock_guard lock(mutex_);
  return results_.count(sought) != 0;
}

void RankDoor::Loop() {
  while (TakeWanted()) {
    std::vector<pollfd> polls = Polls();
    const auto nap = std::chrono::ceil<milliseconds>(NextLook() - Clock::now());
    (void)poll(polls.data(), polls.size(),
               static_cast<int>(std::max(nap, milliseconds(0)).count()));
    Accept();
    std::erase_if(guests_, [this](Guest& guest) { return !Stays(guest); });
    std::erase_if(calls_, [this](Call& call) { return !GoesOn(call); });
  }
}

bool RankDoor::TakeWanted() {
  eventfd_t count = 0;
  (void)eventfd_read(wake_.get(), &count);
  const std::lock_guard lock(mutex_);
  for (const Sought& sought : wanted_) {
    Call& call = calls_.emplace_back();
    call.sought = sought;
    call.channel = sought.first < rank_ ? static_cast<uint32_t>(sought.second) : Knock::kLookout;
    call.next_at = Clock::now();
    call.until = call.next_at + kCallWithin;
  }
  wanted_.clear();
  return !closing_;
}

std::vector<pollfd> RankDoor::Polls() const {
  std::vector<pollfd> out = {{wake_.get(), POLLIN, 0}};
  out.push_back({Clock::now() < accept_at_ ? -1 : listener_.get(), POLLIN, 0});
  for (const Guest& guest : guests_) {
    out.push_back({guest.line.fd.get(), POLLIN, 0});
  }
  for (const Call& call : calls_) {
    out.push_back({call.ended_at.has_value() ? -1 : call.lookout.get(), POLLIN, 0});
    for (const Attempt& attempt : call.attempts) {
      const auto events = static_cast<int16_t>(attempt.connected ? POLLIN : POLLOUT);
      out.push_back({attempt.line.fd.get(), events, 0});
    }
  }
  return out;
}

RankDoor::Clock::time_point RankDoor::NextLook() const {
  Clock::time_point out = Clock::now() + kLongest;
  if (accept_at_ > Clock::now()) {
    out = accept_at_;
  }
  for (const Guest& guest : guests_) {
    out = guest.proven ? out : std::min(out, guest.until);
  }
  for (const Call& call : calls_) {
    if (call.lookout.valid()) {
      out = std::min(out, call.ended_at.value_or(out));
    } else {
      out = std::min({out, call.until, call.next_at});
    }
  }
  return out;
}

void RankDoor::Accept() {
  if (Clock::now() < accept_at_) {
    return;
  }
  for (;;) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (!IsMomentary(errno) && errno != ECONNABORTED) {
        accept_at_ = Clock::now() + kAcceptAgain;
      }
      return;
    }
    const auto is_stranger = [](const Guest& guest) { return !guest.proven; };
    if (std::count_if(guests_.begin(), guests_.end(), is_stranger) >=
        static_cast<ptrdiff_t>(kStrangersMax)) {
      guests_.erase(std::find_if(guests_.begin(), guests_.end(), is_stranger));  // the oldest
    }
    SetPeerOptions(fd.get());
    Guest& guest = guests_.emplace_back();
    guest.line.fd = std::move(fd);
    guest.until = Clock::now() + kProofWithin;
    if (!Stays(guest)) {  // who says his word at once is known before the next one comes
      guests_.pop_back();
    }
  }
}

bool RankDoor::Line::IsWhole(bool& ended) {
  if (have == sizeof(knock)) {
    return true;
  }
  const ssize_t got =
      recv(fd.get(), reinterpret_cast<uint8_t*>(&knock) + have, sizeof(knock) - have, MSG_DONTWAIT);
  ended = got == 0 || (got < 0 && !IsMomentary(errno));
  have += static_cast<size_t>(std::max<ssize_t>(got, 0));
  return have == sizeof(knock);
}

Knock RankDoor::KnockFor(uint32_t rank, uint32_t channel) const {
  Knock out;
  out.number = roster_.number;
  std::copy(std::begin(roster_.cards[rank].token), std::end(roster_.cards[rank].token), out.token);
  out.from = rank_;
  out.channel = channel;
  return out;
}

bool RankDoor::IsProof(const Knock& knock) const {
  Knock ours = KnockFor(rank_, knock.channel);
  ours.from = knock.from;
  const bool may_call = knock.channel == Knock::kLookout
                            ? knock.from < rank_
                            : knock.from > rank_ && IsChannel(LinkChannel{knock.channel});
  return knock == ours && knock.from < roster_.cards.size() && may_call;
}

bool RankDoor::Stays(Guest& guest) {
  bool ended = false;
  if (!guest.line.IsWhole(ended)) {
    return !ended && Clock::now() < guest.until;
  }
  const Knock& knock = guest.line.knock;
  const int fd = guest.line.fd.get();
  if (!guest.proven) {
    guest.proven = IsProof(knock);
    const Knock answer = guest.proven ? KnockFor(knock.from, knock.channel) : Knock();
    return guest.proven && SayAll(fd, &answer, sizeof(answer));
  }
  if (knock.channel == Knock::kLookout) {
    return !HasEnded(fd);
  }
  uint8_t byte = 0;
  const ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
  if (got == 1 && byte == Knock::kTaken) {
    Finish({knock.from, LinkChannel{knock.channel}}, std::move(guest.line.fd));
    return false;
  }
  return got < 0 && IsMomentary(errno);
}

bool RankDoor::GoesOn(Call& call) {
  if (IsFinished(call.sought)) {
    return false;
  }
  if (call.lookout.valid()) {
    return GoesOnAsLookout(call);
  }
  for (size_t i = 0; i < call.attempts.size();) {
    Attempt& attempt = call.attempts[i];
    std::string why;
    const Came came = Hear(call, attempt, why);
    if (came == Came::kNothing) {
      ++i;
      continue;
    }
    if (came == Came::kAnswer) {
      if (call.channel == Knock::kLookout) {
        call.lookout = std::move(attempt.line.fd);
        call.attempts.clear();
        return true;
      }
      Finish(call.sought, std::move(attempt.line.fd));
      return false;
    }
    call.errors += (call.errors.empty() ? "" : ", ") + attempt.where + ": " + why;
    call.attempts.erase(call.attempts.begin() + static_cast<ptrdiff_t>(i));
    call.next_at = std::min(call.next_at, Clock::now());
  }
  if (Clock::now() >= call.until) {
    GiveUp(call, "it did not answer in time");
    return false;
  }
  if (Clock::now() >= call.next_at) {
    TryNext(call);
  }
  return !IsFinished(call.sought);
}

bool RankDoor::GoesOnAsLookout(Call& call) {
  if (!call.ended_at.has_value() && HasEnded(call.lookout.get())) {
    call.ended_at = Clock::now() + kEndedAfter;
  }
  if (call.ended_at.has_value() && Clock::now() >= *call.ended_at) {
    GiveUp(call, "");
    return false;
  }
  return true;
}

// At the next address; where none is left and none is being tried, at all of them once more.
void RankDoor::TryNext(Call& call) {
  const std::vector<std::string> addresses = AddressesOf(roster_.cards[call.sought.first]);
  if (call.next < addresses.size()) {
    StartAttempt(call, addresses[call.next++]);
    call.next_at = Clock::now() + kNextAddressAfter;
  } else if (!call.attempts.empty()) {
    call.next_at = call.until;  // or one of them fails
  } else if (++call.tries == kTries) {
    GiveUp(call, call.errors.empty() ? "it says no address" : call.errors);
  } else {
    call.next = 0;
    call.errors.clear();
    const milliseconds wait = kFirstRetry * (1 << (call.tries - 1));
    const uint64_t jitter = jitter_.Below(static_cast<uint64_t>(wait.count()));
    call.next_at = Clock::now() + wait + milliseconds(jitter);
  }
}

void RankDoor::StartAttempt(Call& call, const std::string& address) {
  const std::string port = std::to_string(roster_.cards[call.sought.first].port);
  Attempt& attempt = call.attempts.emplace_back();
  attempt.where = address + " port " + port;
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), port.c_str(), &hints, &found) != 0) {
    return;  // without a descriptor: Hear() says so
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  attempt.line.fd.Reset(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  SetPeerOptions(attempt.line.fd.get());
  if (connect(attempt.line.fd.get(), found->ai_addr, found->ai_addrlen) != 0 &&
      errno != EINPROGRESS) {
    attempt.where += std::string(" (") + std::strerror(errno) + ")";
    attempt.line.fd.Reset();
  }
}

// What has come of it, and why it has ended.
RankDoor::Came RankDoor::Hear(Call& call, Attempt& attempt, std::string& why) const {
  const int fd = attempt.line.fd.get();
  if (fd < 0) {
    why = "cannot be called";
    return Came::kEnd;
  }
  if (!attempt.connected) {
    pollfd one = {fd, POLLOUT, 0};
    if (poll(&one, 1, 0) != 1) {
      return Came::kNothing;
    }
    int error = 0;
    socklen_t bytes = sizeof(error);
    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    const Knock knock = KnockFor(call.sought.first, call.channel);
    if (error != 0 || !SayAll(fd, &knock, sizeof(knock))) {
      why = std::strerror(error != 0 ? error : errno);
      return Came::kEnd;
    }
    attempt.connected = true;
  }
  bool ended = false;
  if (!attempt.line.IsWhole(ended)) {
    why = "it has closed the connection";
    return ended ? Came::kEnd : Came::kNothing;
  }
  Knock expected = KnockFor(rank_, call.channel);
  expected.from = call.sought.first;
  if (attempt.line.knock != expected ||
      (call.channel != Knock::kLookout && !SayAll(fd, &Knock::kTaken, 1))) {
    why = "somebody else answers there";
    return Came::kEnd;
  }
  return Came::kAnswer;
}

// `why`: we could not come to it; "": it has ended.
void RankDoor::GiveUp(const Call& call, const std::string& why) {
  const std::string name = "rank " + std::to_string(call.sought.first);
  Finish(call.sought, Status(StatusCode::kUnavailable,
                             why.empty() ? name + " has ended"
                                         : name + " cannot be reached from this host (" + why +
                                               "); GLOO_SOCKET_IFNAME names the interface to use",
                             static_cast<int>(call.sought.first)));
}

}  // namespace muster
