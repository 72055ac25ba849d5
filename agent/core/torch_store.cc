#include "agent/core/torch_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "agent/core/torch_store_cost.h"
#include "proto/base/check.h"
#include "proto/base/text.h"

namespace muster {
namespace {

// Torch's clients read an answer before they ask again; so one Step needs no more than one answer.
constexpr size_t kUnreadBytesMax = 1u << 20;
constexpr absl::string_view kHelloKey = "init/";  // torch's own, without the "/" of user keys; wire
constexpr absl::string_view kDefaultGroup = "default_pg/";  // in keys of that process group; wire

}  // namespace

std::vector<StoreEffect> TorchStore::Step(const StoreEvent& event) {
  Effects out;
  if (const auto* opened = std::get_if<StoreClientOpened>(&event)) {
    any_client_ = true;
    if (clients_.size() >= config_.limits.clients_max) {
      out.emplace_back(StoreClose{
          opened->client, absl::StrCat("more than ", config_.limits.clients_max, " connections")});
    } else {
      CHECK(clients_.try_emplace(opened->client, config_.limits).second);
    }
  } else if (const auto* bytes = std::get_if<StoreClientBytes>(&event)) {
    OnBytes(bytes->client, bytes->bytes, out);
  } else if (const auto* closed = std::get_if<StoreClientClosed>(&event)) {
    Forget(closed->client);
  }
  return out;
}

StoreProgress TorchStore::progress() const {
  StoreProgress out{.world_size = config_.world_size,
                    .connected = connected(),
                    .any_client = any_client_,
                    .missing = std::nullopt};
  if (ranks_.size() == out.connected) {  // each worker that is here has told its rank
    out.missing.emplace();
    for (uint32_t rank = 0; rank < config_.world_size; ++rank) {
      if (!ranks_.contains(rank)) {
        out.missing->push_back(rank);
      }
    }
  }
  return out;
}

uint32_t TorchStore::connected() const {
  return static_cast<uint32_t>(std::min<uint64_t>(hellos_, config_.world_size));
}

bool TorchStore::said_hello(StoreClientId client) const {
  const auto it = clients_.find(client);
  return it != clients_.end() && it->second.space.has_value();
}

void TorchStore::OnBytes(StoreClientId id, absl::string_view bytes, Effects& out) {
  const auto it = clients_.find(id);
  CHECK(it != clients_.end());
  Client& client = it->second;
  size_t answered = 0;  // effects of this Step whose bytes are in `own_bytes`
  size_t own_bytes = 0;
  while (!bytes.empty()) {
    const StoreParser::Outcome outcome = client.parser.Feed(bytes);
    bytes_ -= client.parser_bytes;
    client.parser_bytes = 0;
    if (outcome == StoreParser::Outcome::kError) {
      Close(id, client.parser.error(), out);
      return;
    }
    if (outcome == StoreParser::Outcome::kMore) {
      const size_t held = client.parser.held_bytes();
      if (std::string full = Room(held, 0); !full.empty()) {
        Close(id, std::move(full), out);
        return;
      }
      client.parser_bytes = held;
      bytes_ += held;
      return;
    }
    StoreRequest& request = client.parser.request();
    if (request.op == StoreOp::kAdd && request.keys[0] == kHelloKey && request.number == 1) {
      Hello(client);
    }
    NoteGroup(client, request.keys);
    Space* const space = FindSpace(client.space.value_or(CurrentSpace()));
    CHECK(space != nullptr);  // a space lives as long as its members
    if (std::string bad = Run(Call{id, client, *space, request, out}); !bad.empty()) {
      Close(id, absl::StrCat(StoreOpName(request.op), ": ", bad), out);
      return;
    }
    request = StoreRequest{};  // its texts are counted no more
    for (; answered < out.size(); ++answered) {
      own_bytes += std::get<StoreSend>(out[answered]).head.size();
    }
    if (own_bytes > kUnreadBytesMax && !bytes.empty()) {
      Close(id, "asks on without reading the answers", out);
      return;
    }
  }
}

std::string TorchStore::Set(Space& space, const std::string& key, std::string value, Effects& out) {
  bool created = false;
  std::string full = Put(space, key, std::move(value), created);
  if (created) {
    Wake(space, key, /*one=*/false, out);
  }
  return full;
}

std::string TorchStore::Put(Space& space, const std::string& key, std::string value,
                            bool& created) {
  const auto it = space.values.find(key);
  created = it == space.values.end();
  const size_t old_size = created ? 0 : it->second->size();
  const size_t fixed = created ? key.size() + kStoreEntryBytes : 0;
  if (value.size() + fixed > old_size) {
    if (std::string full = Room(value.size() + fixed - old_size, created ? 1 : 0); !full.empty()) {
      created = false;
      return full;
    }
  }
  bytes_ = bytes_ - old_size + value.size() + fixed;
  auto stored = std::make_shared<std::string>(std::move(value));
  if (created) {
    ++keys_;
    space.values.emplace(key, std::move(stored));
  } else {
    it->second = std::move(stored);
  }
  return "";
}

std::string TorchStore::Count(Space& space, const std::string& key, int64_t delta, int64_t& sum,
                              bool& created) {
  int64_t before = 0;
  if (const auto it = space.values.find(key);
      it != space.values.end() && !absl::SimpleAtoi(*it->second, &before)) {
    return absl::StrCat("the value of key ", ShowSent(key), " is not a number");
  }
  // Unsigned: an overflow wraps round, it is not undefined.
  sum = static_cast<int64_t>(static_cast<uint64_t>(before) + static_cast<uint64_t>(delta));
  return Put(space, key, absl::StrCat(sum), created);
}

std::string TorchStore::Room(size_t more, size_t new_keys) const {
  if (new_keys > 0 && keys_ + new_keys > config_.limits.keys_max) {
    return absl::StrCat("the store is full: ", config_.limits.keys_max,
                        " keys; a program that keeps more than that must bring its own store: "
                        "--store=worker");
  }
  if (more > config_.limits.bytes_max || bytes_ > config_.limits.bytes_max - more) {
    return absl::StrCat("the store is full: ", bytes_, " bytes of at most ",
                        config_.limits.bytes_max, ", ", more,
                        " more are asked for; a program that keeps more than that must bring its "
                        "own store: --store=worker");
  }
  return "";
}

void TorchStore::Hello(Client& client) {
  if (client.space.has_value()) {
    return;
  }
  if (const Space& now = spaces_.back();
      config_.world_size > 0 && now.hellos >= config_.world_size && now.left) {
    spaces_.emplace_back();
    DropOldSpaces();
  }
  client.space = CurrentSpace();
  only_http_ = false;
  ++hellos_;
  ++spaces_.back().hellos;
  ++spaces_.back().members;
}

void TorchStore::NoteGroup(Client& client, const std::vector<std::string>& keys) {
  client.in_group =
      client.in_group || std::any_of(keys.begin(), keys.end(), [](const std::string& key) {
        return absl::StrContains(key, kDefaultGroup);
      });
}

// gloo names a worker's first key by its rank in the group; only that of the default group tells
// the global rank: "...default_pg/0/0/rank_N" in torch 1.13, "...default_pg/0//cpu//0/N" in 2.6.
void TorchStore::NoteRank(Client& client, absl::string_view key) {
  const size_t at = key.find(kDefaultGroup);
  if (at == absl::string_view::npos) {
    return;
  }
  key.remove_prefix(at + kDefaultGroup.size());
  if (!absl::ConsumePrefix(&key, "0/")) {
    return;
  }
  if (absl::ConsumePrefix(&key, "/")) {  // the device
    const size_t end = key.find("//");
    if (end == absl::string_view::npos) {
      return;
    }
    key.remove_prefix(end + 2);
  }
  uint32_t rank = 0;
  if (absl::ConsumePrefix(&key, "0/") && absl::SimpleAtoi(absl::StripPrefix(key, "rank_"), &rank) &&
      rank < config_.world_size) {
    client.rank = rank;
    ranks_.insert(rank);
  }
}

TorchStore::Space* TorchStore::FindSpace(uint32_t number) {
  return number < spaces_first_ ? nullptr : &spaces_.at(number - spaces_first_);
}

// Those before the current one that nobody is in any more.
void TorchStore::DropOldSpaces() {
  while (spaces_.size() > 1 && spaces_.front().members == 0) {
    for (const auto& [key, value] : spaces_.front().values) {
      bytes_ -= key.size() + value->size() + kStoreEntryBytes;
      --keys_;
    }
    for (const auto& [key, queue] : spaces_.front().queues) {
      bytes_ -= key.size() + kStoreEntryBytes;
      for (const StoreValue& value : queue) {
        bytes_ -= value->size() + kStoreEntryBytes;
      }
    }
    spaces_.pop_front();
    ++spaces_first_;
  }
}

void TorchStore::StartWait(Call call, std::vector<std::string> keys, size_t more) {
  bytes_ += more;
  call.client.wait_seq = ++wait_seq_last_;
  call.client.wait_space = call.client.space.value_or(CurrentSpace());
  call.client.wait_missing = keys.size();
  for (const std::string& key : keys) {
    call.space.waiters[key].emplace(call.client.wait_seq, call.id);
  }
  call.client.wait_keys = std::move(keys);
}

void TorchStore::DropWait(Client& client) {
  if (client.wait_seq == 0) {
    return;
  }
  Space* const space = FindSpace(client.wait_space);
  for (const std::string& key : client.wait_keys) {
    bytes_ -= StoreWaitCost(key);
    if (space == nullptr) {
      continue;
    }
    const auto it = space->waiters.find(key);
    if (it == space->waiters.end()) {
      continue;  // this key has appeared
    }
    it->second.erase(client.wait_seq);
    if (it->second.empty()) {
      space->waiters.erase(it);
    }
  }
  client.wait_seq = 0;
  client.wait_missing = 0;
  client.wait_keys.clear();
}

void TorchStore::Wake(Space& space, const std::string& key, bool one, Effects& out) {
  const auto it = space.waiters.find(key);
  if (it == space.waiters.end()) {
    return;
  }
  Waiters& waiters = it->second;
  while (!waiters.empty()) {
    const StoreClientId id = waiters.begin()->second;
    waiters.erase(waiters.begin());
    Client& client = clients_.at(id);
    if (--client.wait_missing > 0) {
      continue;
    }
    for (const std::string& awaited : client.wait_keys) {
      bytes_ -= StoreWaitCost(awaited);
    }
    client.wait_seq = 0;
    client.wait_keys.clear();
    out.emplace_back(StoreSend{id, std::string(1, kStoreStopWaiting), nullptr});
    if (one) {
      break;
    }
  }
  if (waiters.empty()) {
    space.waiters.erase(it);
  }
}

void TorchStore::Close(StoreClientId id, std::string reason, Effects& out) {
  Forget(id);
  out.emplace_back(StoreClose{id, std::move(reason)});
}

void TorchStore::Forget(StoreClientId id) {
  const auto it = clients_.find(id);
  CHECK(it != clients_.end());
  Client& client = it->second;
  DropWait(client);
  bytes_ -= client.parser_bytes;
  if (client.space.has_value()) {
    Space* const space = FindSpace(*client.space);
    CHECK(space != nullptr);
    --space->members;
    if (space->hellos >= config_.world_size) {
      space->left = space->left || client.in_group;
    } else {
      // It will come again; so far not all have been here.
      --space->hellos;
      --hellos_;
      if (client.rank.has_value()) {
        ranks_.erase(*client.rank);
      }
    }
  }
  clients_.erase(it);
  DropOldSpaces();
}

}  // namespace muster
