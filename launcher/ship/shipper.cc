#include "launcher/ship/shipper.h"

#include <sys/sendfile.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/text.h"

namespace muster {
namespace {

constexpr size_t kBytesATurn = 1u << 20;  // of one agent, before others have theirs

}  // namespace

Shipper::Shipper(uv_loop_t* loop, ShipArchive archive, size_t expected, Callbacks callbacks,
                 absl::Duration silence_max)
    : loop_(loop),
      archive_(std::move(archive)),
      callbacks_(std::move(callbacks)),
      silence_max_(silence_max),
      expected_(expected),
      every_while_(loop, [this] { EveryWhile(); }) {
  every_while_.Unref();
}

void Shipper::Add(size_t index, UniqueFd socket) {
  if (stopped_) {
    return;
  }
  Agent& agent = agents_[index];
  agent.socket = std::move(socket);
  agent.heard = BootNow();
  agent.poll = std::make_unique<UvPoll>(loop_, agent.socket.get(),
                                        [this, index](int events) { OnEvents(index, events); });
  if (!every_while_.active()) {
    every_while_.StartEvery(kShipSayEvery);
  }
  called_.insert(index);
  routes_.Wants(index);
  Watch(agent);
  Route();
}

void Shipper::NotComing(size_t index) {
  called_.insert(index);
  Route();
}

void Shipper::Stop() {
  stopped_ = true;
  every_while_.Stop();
  for (const auto& [index, agent] : agents_) {
    routes_.Gone(index);
  }
  agents_.clear();
}

size_t Shipper::holders() const {
  return static_cast<size_t>(std::count_if(
      agents_.begin(), agents_.end(), [](const auto& one) { return !one.second.address.empty(); }));
}

void Shipper::Watch(Agent& agent) {
  const bool writes = !agent.out.empty() || agent.taking;
  agent.poll->Start(UV_READABLE | (writes ? UV_WRITABLE : 0));
}

void Shipper::OnEvents(size_t index, int events) {
  if ((events & UV_READABLE) != 0 && !Read(index)) {
    return;
  }
  if ((events & UV_WRITABLE) != 0) {
    Write(index);
  }
}

bool Shipper::Read(size_t index) {
  Agent& agent = agents_.at(index);
  char bytes[4096];
  const size_t room = agent.goes_on ? 1 : sizeof(bytes);  // what follows is not ours
  const ssize_t n = recv(agent.socket.get(), bytes, room, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return true;
  }
  if (n <= 0) {
    Forget(index);
    return false;
  }
  agent.heard = BootNow();
  for (ssize_t i = 0; i < n; ++i) {
    if (bytes[i] != '\n') {
      agent.in.push_back(bytes[i]);
    } else if (!OnLine(index, std::exchange(agent.in, ""))) {
      return false;
    }
  }
  if (agent.in.size() > kShipLineBytesMax) {
    Fail(index, "what it says of the shipped files is no line");
    return false;
  }
  return true;
}

bool Shipper::OnLine(size_t index, const std::string& line) {
  Agent& agent = agents_.at(index);
  absl::StatusOr<ShipNews> news = ParseShipNews(line);
  if (!news.ok()) {
    Fail(index, std::string(news.status().message()));
    return false;
  }
  const bool has = !agent.address.empty();
  switch (news->kind) {
    case ShipNews::Kind::kWorking:
      return true;
    case ShipNews::Kind::kFailed:
      Fail(index, news->reason);
      return false;
    case ShipNews::Kind::kMissed:
      if (has || !routes_.Gets(index)) {
        break;
      }
      LogDebug(absl::StrCat(callbacks_.name(index), ": ", news->reason));
      routes_.Missed(index);
      Route();
      return agents_.count(index) != 0;
    case ShipNews::Kind::kHave:
      if (has || !routes_.Gets(index)) {
        break;
      }
      agent.address = std::move(news->address);
      agent.port = news->port;
      routes_.Has(index);
      Route();
      return agents_.count(index) != 0;
    case ShipNews::Kind::kGoesOn:
      if (!agent.goes_on) {
        break;
      }
      HandBack(index);
      return false;
  }
  Fail(index, "it speaks of shipped files that it was not told to get");
  return false;
}

void Shipper::HandBack(size_t index) {
  Agent& agent = agents_.at(index);
  agent.poll.reset();
  UniqueFd socket = std::move(agent.socket);
  agents_.erase(index);
  routes_.Gone(index);
  callbacks_.on_done(index, std::move(socket));
}

void Shipper::Say(size_t index, const ShipOrder& order) {
  Agent& agent = agents_.at(index);
  agent.out += ShipLine(order);
  agent.taking = order.kind == ShipOrder::Kind::kTake;
  agent.goes_on = order.kind == ShipOrder::Kind::kGoOn;
  agent.sent = 0;
  Watch(agent);
}

void Shipper::Write(size_t index) {
  Agent& agent = agents_.at(index);
  while (!agent.out.empty()) {
    const ssize_t n =
        send(agent.socket.get(), agent.out.data(), agent.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return errno == EAGAIN ? Watch(agent) : Forget(index);
    }
    agent.out.erase(0, static_cast<size_t>(n));
  }
  return agent.taking ? SendBytes(agent, index) : Watch(agent);
}

void Shipper::SendBytes(Agent& agent, size_t index) {
  const uint64_t left = archive_.terms.bytes - agent.sent;
  auto at = static_cast<off_t>(agent.sent);
  const ssize_t n =
      sendfile(agent.socket.get(), archive_.file.get(), &at, std::min<uint64_t>(left, kBytesATurn));
  if (n < 0 && errno != EAGAIN && errno != EINTR) {
    return Forget(index);
  }
  agent.sent += n > 0 ? static_cast<uint64_t>(n) : 0;
  agent.taking = agent.sent < archive_.terms.bytes;
  Watch(agent);
}

void Shipper::Route() {
  for (const CopyRoutes::Route& route : routes_.Begin()) {
    ShipOrder order;
    order.kind = ShipOrder::Kind::kTake;
    if (route.from.has_value()) {
      const Agent& giver = agents_.at(*route.from);
      order = {ShipOrder::Kind::kFetch, giver.address, giver.port};
    }
    LogDebug(absl::StrCat(callbacks_.name(route.to), " gets the shipped files from ",
                          route.from.has_value() ? callbacks_.name(*route.from) : "here"));
    Say(route.to, order);
  }
  if (!routes_.Settled() || called_.size() < expected_) {
    return;
  }
  for (auto& [index, agent] : agents_) {
    if (!agent.goes_on) {
      Say(index, {ShipOrder::Kind::kGoOn, "", 0});
    }
  }
}

void Shipper::EveryWhile() {
  std::vector<size_t> silent;
  const absl::Time now = BootNow();
  for (auto& [index, agent] : agents_) {
    if (now - agent.heard > silence_max_) {
      silent.push_back(index);
    } else if (agent.out.empty() && !agent.taking && !agent.goes_on) {
      agent.out = ShipLine(ShipOrder{});
      Watch(agent);
    }
  }
  for (const size_t index : silent) {
    Fail(index, absl::StrCat("its agent has said nothing for ", ShortDuration(silence_max_),
                             " while it was to get the shipped files"));
  }
  if (agents_.empty()) {
    every_while_.Stop();
  }
}

void Shipper::Forget(size_t index) {
  agents_.erase(index);
  routes_.Gone(index);
  Route();
}

void Shipper::Fail(size_t index, const std::string& why) {
  Forget(index);
  callbacks_.on_failed(index, why);
}

}  // namespace muster
