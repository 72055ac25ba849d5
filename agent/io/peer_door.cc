// The connector's side, and what both have in common; the acceptor's is in peer_door_accept.cc.
#include "agent/io/peer_door.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

constexpr char kHint[] = "; is a firewall in between? See --port-range and --iface";

}  // namespace

PeerDoor::PeerDoor(uv_loop_t* loop, PeerOptions options, Callbacks callbacks)
    : loop_(loop),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)),
      jitter_(static_cast<uint64_t>(absl::ToUnixNanos(BootNow()))),
      again_(loop, [this] {
        if (poll_.has_value()) {
          poll_->Start(UV_READABLE);
        }
      }) {
  again_.Unref();
}

void PeerDoor::EndRound() {
  ranks_ = nullptr;
  Unlisten();
  seeks_.clear();
  targets_.clear();
  held_.clear();
}

void PeerDoor::BeginRound(const Assignment& assignment, const RankMap* ranks, UniqueFd listening) {
  EndRound();
  round_ = assignment.round.Token();
  me_ = assignment.node_rank;
  ranks_ = ranks;
  if (listening.valid() && me_.value > 0) {
    Listen(std::move(listening));
  }
}

void PeerDoor::Seek(const PeerPair& pair, Done done) {
  CHECK(ranks_ != nullptr && seeks_.count(pair) == 0);
  const std::optional<NodeRank> node = ranks_->NodeOf(Rank{pair.theirs});
  CHECK(node.has_value() && *node != me_);
  if (*node < me_) {  // it connects to us
    if (auto held = held_.extract(pair); !held.empty()) {
      return done(std::move(held.mapped()));
    }
    seeks_[pair].done = std::move(done);
    return;
  }
  Seeking& seek = seeks_[pair];
  seek.done = std::move(done);
  seek.to = node;
  const auto [target, is_new] = targets_.try_emplace(*node);
  target->second.waiting.push_back(pair);
  if (is_new) {
    return callbacks_.ask(*node);
  }
  if (target->second.at.has_value()) {
    seek.give_up = BootNow() + options_.times.retry_for;
    StartWaiting(*node);
  }
}

void PeerDoor::Found(const PeerNode& peer) {
  const auto target = targets_.find(peer.node_rank);
  if (target == targets_.end() || target->second.at.has_value()) {
    return;
  }
  target->second.at = peer;
  for (const PeerPair& pair : target->second.waiting) {
    if (const auto seek = seeks_.find(pair); seek != seeks_.end()) {
      seek->second.give_up = BootNow() + options_.times.retry_for;
    }
  }
  StartWaiting(peer.node_rank);
}

void PeerDoor::StartWaiting(NodeRank node) {
  const auto found = targets_.find(node);
  if (found == targets_.end() || !found->second.at.has_value()) {
    return;
  }
  Target& target = found->second;
  const bool rests = target.retry != nullptr && target.retry->active();
  while (!rests && target.under_way < kConnectsPerNode && !target.waiting.empty()) {
    const PeerPair pair = target.waiting.front();
    target.waiting.pop_front();
    const auto seek = seeks_.find(pair);
    if (seek == seeks_.end()) {
      continue;  // forgotten
    }
    ++target.under_way;
    seek->second.under_way = true;
    seek->second.connector = std::make_unique<TcpConnector>(
        loop_, HostPort(target.at->address, target.at->port), options_.times.connect_within,
        [this, pair](absl::StatusOr<UniqueFd> socket) { Connected(pair, std::move(socket)); });
  }
}

absl::StatusOr<PeerHandshake::Secrets> PeerDoor::Secrets() const {
  PeerHandshake::Secrets out;
  ASSIGN_OR_RETURN(out.nonce, MakeNonce());
  out.job_id = options_.job_id;
  out.mac = [this](absl::string_view text) { return HmacSha256(options_.secret, text); };
  return out;
}

void PeerDoor::Connected(const PeerPair& pair, absl::StatusOr<UniqueFd> socket) {
  if (!socket.ok()) {
    return TryFailed(pair, absl::StrCat(socket.status().message(), kHint), /*for_good=*/false);
  }
  Seeking& seek = seeks_.at(pair);
  seek.connector.reset();
  absl::StatusOr<PeerHandshake::Secrets> secrets = Secrets();
  if (!secrets.ok()) {
    return TryFailed(pair, std::string(secrets.status().message()), /*for_good=*/true);
  }
  const PeerHello hello = {round_, pair.communicator, pair.mine, pair.theirs, pair.channel};
  seek.connection = std::make_unique<PeerConnection>(
      loop_, *std::move(socket), PeerHandshake::Connector(*std::move(secrets), hello),
      options_.times.prove_within, [this, pair](const absl::Status& status) {
        if (status.ok()) {
          return Answer(pair, seeks_.at(pair).connection->TakeSocket());
        }
        const PeerNode& at = *targets_.at(*seeks_.at(pair).to).at;
        TryFailed(pair, absl::StrCat(HostPort(at.address, at.port), ": ", status.message()),
                  absl::IsPermissionDenied(status));
      });
}

void PeerDoor::TryFailed(const PeerPair& pair, const std::string& why, bool for_good) {
  Seeking& seek = seeks_.at(pair);
  const NodeRank node = *seek.to;
  Target& target = targets_.at(node);
  const absl::Time now = BootNow();
  if (for_good) {
    return Refuse({pair}, why);
  }
  if (now >= seek.give_up) {
    // All that have waited for as long behind it.
    std::vector<PeerPair> over = {pair};
    for (const PeerPair& other : target.waiting) {
      const auto waits = seeks_.find(other);
      if (waits != seeks_.end() && now >= waits->second.give_up) {
        over.push_back(other);
      }
    }
    return Refuse(over, why);
  }
  seek.connector.reset();
  seek.connection.reset();
  seek.under_way = false;
  --target.under_way;
  target.waiting.push_front(pair);
  if (target.retry == nullptr) {
    target.retry = std::make_unique<UvTimer>(loop_, [this, node] { StartWaiting(node); });
    target.retry->Unref();
  }
  if (!target.retry->active()) {
    const PeerTimes& times = options_.times;
    target.backoff = std::clamp(2 * target.backoff, times.retry_min, times.retry_max);
    target.retry->StartAfter(target.backoff * (0.5 + jitter_.Unit()));
  }
}

void PeerDoor::Refuse(const std::vector<PeerPair>& pairs, const std::string& why) {
  for (const PeerPair& pair : pairs) {
    if (const auto seek = seeks_.find(pair); seek != seeks_.end()) {  // not forgotten meanwhile
      Answer(pair,
             absl::UnavailableError(absl::StrCat("no connection to rank ", pair.theirs, " of node ",
                                                 seek->second.to->value, " at ", why)));
    }
  }
}

void PeerDoor::Answer(const PeerPair& pair, absl::StatusOr<UniqueFd> result) {
  // Gone before `done` may forget others.
  auto seek = seeks_.extract(pair);
  Leave(seek.mapped());
  if (seek.mapped().to.has_value() && result.ok()) {
    targets_.at(*seek.mapped().to).backoff = absl::ZeroDuration();
  }
  seek.mapped().done(std::move(result));
  if (seek.mapped().to.has_value()) {
    StartWaiting(*seek.mapped().to);
  }
}

void PeerDoor::Leave(const Seeking& seek) {
  if (seek.under_way) {
    --targets_.at(*seek.to).under_way;
  }
}

std::vector<Rank> PeerDoor::Awaited(size_t max) {
  std::set<uint32_t> ranks;
  for (const auto& [pair, seek] : seeks_) {
    ranks.insert(pair.theirs);
  }
  std::vector<Rank> out;
  auto next = ranks.size() > max ? ranks.upper_bound(awaited_after_) : ranks.begin();
  for (; out.size() < std::min(max, ranks.size()); ++next) {
    next = next == ranks.end() ? ranks.begin() : next;
    out.push_back(Rank{*next});
  }
  awaited_after_ = out.empty() ? 0 : out.back().value;
  return out;
}

void PeerDoor::Gone(Rank theirs) {
  std::vector<PeerPair> pairs;
  for (const auto& [pair, seek] : seeks_) {
    if (pair.theirs == theirs.value) {
      pairs.push_back(pair);
    }
  }
  for (const PeerPair& pair : pairs) {
    if (seeks_.count(pair) != 0) {  // not forgotten meanwhile
      Answer(pair, absl::UnavailableError(absl::StrCat("rank ", theirs.value, " has ended")));
    }
  }
}

void PeerDoor::Forget(uint64_t communicator, Rank mine) {
  const PeerPair first = {communicator, mine.value, 0};
  const auto same = [&](const PeerPair& pair) {
    return pair.communicator == communicator && pair.mine == mine.value;
  };
  std::vector<NodeRank> nodes;
  for (auto seek = seeks_.lower_bound(first); seek != seeks_.end() && same(seek->first);) {
    Leave(seek->second);
    if (seek->second.under_way) {
      nodes.push_back(*seek->second.to);
    }
    seek = seeks_.erase(seek);
  }
  for (auto held = held_.lower_bound(first); held != held_.end() && same(held->first);) {
    held = held_.erase(held);
  }
  for (const NodeRank node : nodes) {
    StartWaiting(node);
  }
}

void PeerDoor::ForgetAll(Rank mine) {
  std::erase_if(held_, [&](const auto& one) { return one.first.mine == mine.value; });
}

}  // namespace muster
