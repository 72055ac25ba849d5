// Bytes of torch's TCPStore protocol, and a store with its clients, for tests.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agent/core/torch_store.h"

namespace muster::testing_store {

inline std::string U64(uint64_t value) {
  std::string out;
  AppendU64(out, value);
  return out;
}
inline std::string U32(uint32_t value) {
  std::string out;
  AppendU32(out, value);
  return out;
}
inline std::string Str(const std::string& text) { return U64(text.size()) + text; }
inline std::string List(const std::vector<std::string>& texts) {
  std::string out = U64(texts.size());
  for (const std::string& text : texts) {
    out += Str(text);
  }
  return out;
}
inline std::string Byte(int code) { return std::string(1, static_cast<char>(code)); }

// Codes are those of the new dialect; `shift` = 1 makes them old (DELETE_KEY has its own rule).
struct Speak {
  bool old = false;
  std::string Code(int code) const { return Byte(!old ? code : code == 8 ? 8 : code - 1); }
  std::string Hello() const { return old ? "" : Byte(0) + U32(kStoreMagic); }
  std::string Set(const std::string& k, const std::string& v) const {
    return Code(1) + Str(k) + Str(v);
  }
  std::string CompareSet(const std::string& k, const std::string& e, const std::string& d) const {
    return Code(2) + Str(k) + Str(e) + Str(d);
  }
  std::string Get(const std::string& k) const { return Code(3) + Str(k); }
  std::string Add(const std::string& k, int64_t n) const {
    return Code(4) + Str(k) + U64(static_cast<uint64_t>(n));
  }
  std::string Check(const std::vector<std::string>& ks) const { return Code(5) + List(ks); }
  std::string Wait(const std::vector<std::string>& ks) const { return Code(6) + List(ks); }
  std::string NumKeys() const { return Code(7); }
  std::string Delete(const std::string& k) const { return Code(8) + Str(k); }
  std::string Append(const std::string& k, const std::string& v) const {
    return Code(9) + Str(k) + Str(v);
  }
  std::string MultiGet(const std::vector<std::string>& ks) const { return Code(10) + List(ks); }
  std::string MultiSet(const std::vector<std::pair<std::string, std::string>>& kvs) const {
    std::string out = Code(11) + U64(kvs.size());
    for (const auto& [k, v] : kvs) {
      out += Str(k) + Str(v);
    }
    return out;
  }
  std::string CancelWait() const { return Code(12); }
  std::string Ping(uint32_t nonce) const { return Code(13) + U32(nonce); }
  std::string QueuePush(const std::string& k, const std::string& v) const {
    return Code(14) + Str(k) + Str(v);
  }
  std::string QueuePop(const std::string& k) const { return Code(15) + Str(k); }
  std::string QueueLen(const std::string& k) const { return Code(16) + Str(k); }
  std::string ListKeys() const { return Code(17); }
  std::string Barrier(const std::string& k, int64_t world) const {
    return Code(18) + Str(k) + U64(static_cast<uint64_t>(world));
  }
};

// A store and what its clients have received.
class Bench {
 public:
  explicit Bench(const TorchStoreConfig& config = {}) : store(config) {}

  void Open(uint64_t id) { Take(store.Step(StoreClientOpened{StoreClientId{id}})); }
  void Feed(uint64_t id, const std::string& bytes) {
    Take(store.Step(StoreClientBytes{StoreClientId{id}, bytes}));
  }
  void Close(uint64_t id) { Take(store.Step(StoreClientClosed{StoreClientId{id}})); }
  // Sends and takes what came back to this client.
  std::string Ask(uint64_t id, const std::string& bytes) {
    Feed(id, bytes);
    return Got(id);
  }
  std::string Got(uint64_t id) { return std::exchange(received[id], ""); }

  TorchStore store;
  std::map<uint64_t, std::string> received;
  std::map<uint64_t, std::string> closed;  // reasons

 private:
  void Take(const std::vector<StoreEffect>& effects) {
    for (const StoreEffect& effect : effects) {
      if (const auto* send = std::get_if<StoreSend>(&effect)) {
        received[send->client.value] += send->head;
        if (send->body != nullptr) {
          received[send->client.value] += *send->body;
        }
      } else {
        const auto& close = std::get<StoreClose>(effect);
        closed[close.client.value] = close.reason;
      }
    }
  }
};

}  // namespace muster::testing_store
