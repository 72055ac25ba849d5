// What each request does to the table. torch_store.cc has the rest.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/core/torch_store.h"
#include "agent/core/torch_store_cost.h"
#include "proto/base/check.h"

namespace muster {
namespace {

constexpr char kWaitCanceled = 1;  // reply to CANCEL_WAIT; wire

void SendByte(StoreClientId id, char byte, std::vector<StoreEffect>& out) {
  out.emplace_back(StoreSend{id, std::string(1, byte), nullptr});
}

void SendNumber(StoreClientId id, int64_t number, std::vector<StoreEffect>& out) {
  std::string head;
  AppendU64(head, static_cast<uint64_t>(number));
  out.emplace_back(StoreSend{id, std::move(head), nullptr});
}

void SendValue(StoreClientId id, std::string head, StoreValue value,
               std::vector<StoreEffect>& out) {
  AppendU64(head, value == nullptr ? 0 : value->size());
  out.emplace_back(StoreSend{id, std::move(head), std::move(value)});
}

template <typename Space>
bool Exists(const Space& space, const std::string& key) {
  return space.values.contains(key) || space.queues.contains(key);
}

template <typename Space>
void SendKeys(StoreClientId id, const Space& space, std::vector<StoreEffect>& out) {
  std::string reply;
  AppendU64(reply, space.values.size());
  for (const auto& [key, value] : space.values) {
    AppendU64(reply, key.size());
    reply.append(key);
  }
  out.emplace_back(StoreSend{id, std::move(reply), nullptr});
}

}  // namespace

StoreValue TorchStore::Find(const Space& space, const std::string& key) {
  const auto it = space.values.find(key);
  return it == space.values.end() ? nullptr : StoreValue(it->second);
}

std::string TorchStore::Run(Call call) {
  if (call.client.parser.dialect() == StoreDialect::kHttp) {
    return RunHttp(call);
  }
  if (call.client.wait_seq != 0 && call.client.parser.dialect() == StoreDialect::kOld) {
    // An old client whose wait timed out says nothing; a new request tells. Its answer must not be
    // mixed up with that of the forgotten WAIT.
    DropWait(call.client);
  }
  const std::vector<std::string>& keys = call.request.keys;
  switch (call.request.op) {
    case StoreOp::kCheck: {
      const bool all = std::all_of(keys.begin(), keys.end(),
                                   [&](const std::string& key) { return Exists(call.space, key); });
      SendByte(call.id, all ? 0 : 1, call.out);
      return "";
    }
    case StoreOp::kWait:
      return Wait(call);
    case StoreOp::kGetNumKeys:
      SendNumber(call.id, static_cast<int64_t>(call.space.values.size()), call.out);
      return "";
    case StoreOp::kMultiGet:
      for (const std::string& key : keys) {
        SendValue(call.id, "", Find(call.space, key), call.out);
      }
      return "";
    case StoreOp::kMultiSet:
      return MultiSet(call);
    case StoreOp::kCancelWait:
      DropWait(call.client);
      SendByte(call.id, kWaitCanceled, call.out);
      return "";
    case StoreOp::kPing: {
      std::string nonce;
      AppendU32(nonce, static_cast<uint32_t>(call.request.number));
      call.out.emplace_back(StoreSend{call.id, std::move(nonce), nullptr});
      return "";
    }
    case StoreOp::kListKeys:
      SendKeys(call.id, call.space, call.out);
      return "";
    default:
      return RunKeyed(call);
  }
}

std::string TorchStore::RunKeyed(Call call) {
  const std::string& key = call.request.keys[0];
  switch (call.request.op) {
    case StoreOp::kSet:
      NoteRank(call.client, key);
      return Set(call.space, key, std::move(call.request.values[0]), call.out);
    case StoreOp::kCompareSet:
      return CompareSet(call);
    case StoreOp::kGet:
      SendValue(call.id, "", Find(call.space, key), call.out);
      return "";
    case StoreOp::kAdd:
      return Add(call);
    case StoreOp::kDeleteKey:
      SendNumber(call.id, Delete(call.space, key) ? 1 : 0, call.out);
      return "";
    case StoreOp::kAppend:
      return Append(call);
    case StoreOp::kBarrier:
      return Barrier(call);
    default:
      return RunQueue(call);
  }
}

std::string TorchStore::RunQueue(Call call) {
  const std::string& key = call.request.keys[0];
  auto& queues = call.space.queues;
  const auto it = queues.find(key);
  const size_t length = it == queues.end() ? 0 : it->second.size();
  if (call.request.op == StoreOp::kQueueLen) {
    SendNumber(call.id, static_cast<int64_t>(length), call.out);
    return "";
  }
  if (call.request.op == StoreOp::kQueuePop) {
    if (length == 0) {
      SendNumber(call.id, 0, call.out);
      return "";
    }
    StoreValue value = std::move(it->second.front());
    it->second.pop_front();
    bytes_ -= value->size() + kStoreEntryBytes;
    if (length == 1) {
      bytes_ -= key.size() + kStoreEntryBytes;
      queues.erase(it);
    }
    std::string head;
    AppendU64(head, length);
    SendValue(call.id, std::move(head), std::move(value), call.out);
    return "";
  }
  CHECK(call.request.op == StoreOp::kQueuePush);
  std::string& value = call.request.values[0];
  const size_t more =
      value.size() + kStoreEntryBytes + (length == 0 ? key.size() + kStoreEntryBytes : 0);
  if (std::string full = Room(more, 0); !full.empty()) {
    return full;
  }
  bytes_ += more;
  queues[key].push_back(std::make_shared<const std::string>(std::move(value)));
  Wake(call.space, key, /*one=*/true, call.out);
  return "";
}

std::string TorchStore::Add(Call call) {
  const std::string& key = call.request.keys[0];
  int64_t sum = 0;
  bool created = false;
  if (std::string bad = Count(call.space, key, call.request.number, sum, created); !bad.empty()) {
    return bad;
  }
  SendNumber(call.id, sum, call.out);
  if (created) {
    Wake(call.space, key, /*one=*/false, call.out);
  }
  return "";
}

std::string TorchStore::CompareSet(Call call) {
  const std::string& key = call.request.keys[0];
  std::string& expected = call.request.values[0];
  const StoreValue now = Find(call.space, key);
  if (now == nullptr && !expected.empty()) {  // torch's rule: the reply is what was expected
    SendValue(call.id, "", std::make_shared<const std::string>(std::move(expected)), call.out);
    return "";
  }
  if (now != nullptr && *now != expected) {
    SendValue(call.id, "", now, call.out);
    return "";
  }
  bool created = false;
  if (std::string full = Put(call.space, key, std::move(call.request.values[1]), created);
      !full.empty()) {
    return full;
  }
  SendValue(call.id, "", Find(call.space, key), call.out);
  if (created) {
    Wake(call.space, key, /*one=*/false, call.out);
  }
  return "";
}

std::string TorchStore::Append(Call call) {
  const std::string& key = call.request.keys[0];
  const std::string& value = call.request.values[0];
  const auto it = call.space.values.find(key);
  if (it == call.space.values.end()) {
    return Set(call.space, key, value, call.out);
  }
  if (std::string full = Room(value.size(), 0); !full.empty()) {
    return full;
  }
  bytes_ += value.size();
  if (it->second.use_count() > 1) {  // a reply under way has it
    it->second = std::make_shared<std::string>(*it->second);
  }
  it->second->append(value);
  return "";
}

std::string TorchStore::MultiSet(Call call) {
  StoreRequest& request = call.request;
  size_t more = 0;  // as if all were new: all or nothing (S1)
  for (size_t i = 0; i < request.keys.size(); ++i) {
    more += request.keys[i].size() + request.values[i].size() + kStoreEntryBytes;
  }
  if (std::string full = Room(more, request.keys.size()); !full.empty()) {
    return full;
  }
  for (size_t i = 0; i < request.keys.size(); ++i) {
    NoteRank(call.client, request.keys[i]);
    const std::string full =
        Set(call.space, request.keys[i], std::move(request.values[i]), call.out);
    CHECK(full.empty());
  }
  return "";
}

std::string TorchStore::Wait(Call call) {
  DropWait(call.client);
  std::vector<std::string> keys = std::move(call.request.keys);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  keys.erase(std::remove_if(keys.begin(), keys.end(),
                            [&](const std::string& key) { return Exists(call.space, key); }),
             keys.end());
  if (keys.empty()) {
    SendByte(call.id, kStoreStopWaiting, call.out);
    return "";
  }
  size_t more = 0;
  for (const std::string& key : keys) {
    more += StoreWaitCost(key);
  }
  if (std::string full = Room(more, 0); !full.empty()) {
    return full;
  }
  StartWait(call, std::move(keys), more);
  return "";
}

// A counter at the key; whoever comes before it is full waits for the one that fills it.
std::string TorchStore::Barrier(Call call) {
  const std::string& key = call.request.keys[0];
  DropWait(call.client);
  // For the key and for the wait.
  if (std::string full = Room(2 * StoreWaitCost(key), 1); !full.empty()) {
    return full;
  }
  int64_t arrived = 0;
  bool created = false;
  if (std::string bad = Count(call.space, key, 1, arrived, created); !bad.empty()) {
    return bad;
  }
  if (arrived >= call.request.number) {
    Wake(call.space, key, /*one=*/false, call.out);
    SendByte(call.id, kStoreStopWaiting, call.out);
    return "";
  }
  StartWait(call, {key}, StoreWaitCost(key));
  return "";
}

bool TorchStore::Delete(Space& space, const std::string& key) {
  const auto it = space.values.find(key);
  if (it == space.values.end()) {
    return false;
  }
  bytes_ -= it->second->size() + key.size() + kStoreEntryBytes;
  --keys_;
  space.values.erase(it);
  return true;
}

}  // namespace muster
