// torch's TCPStore as a pure machine: connections' bytes in, replies and closings out. No clock.
//
// Invariants (cited by tests):
//  S1 a bad or oversized request closes the connection it came from and changes nothing else;
//  S2 a request is answered in the Step that completed it, and replies of one connection go in the
//     order of its requests; a WAIT is answered in the Step in which its last key appeared;
//  S3 a connection that ends loses its waits, its keys stay;
//  S6 a job that destroys its process group and makes a new one finds an empty store. torch's own
//     store keeps the old keys, and as the names repeat, ranks then connect to sockets that are
//     gone. Here a worker's hello (it adds 1 to `init/`) puts its connection into the current key
//     space for good; once all workers have been in it and the default process group of one has
//     ended (a connection that has named a key under `default_pg/`, where torch puts them in a
//     store that it makes itself), the next hello opens a new space. Without a hello a connection
//     sees the current space. Connections that a program makes for itself, to keep keys of its own,
//     come and go without that.
//  S4 the work of a request is O(its size + waiters of the keys it creates), times O(log) of a map;
//     that of an HTTP DELETE O(keys of its scope);
//  S5 memory is bounded: `bytes` counts keys, values, unfinished requests and waits, each with what
//     its entry costs, and stays at or below bytes_max. Replies share the values they carry; what
//     one Step sends beside them is bounded too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "agent/core/torch_store_wire.h"
#include "proto/base/limits.h"

namespace muster {

struct StoreClientId {  // one connection; never used again
  uint64_t value = 0;
  auto operator<=>(const StoreClientId&) const = default;
};

struct TorchStoreConfig {
  uint32_t world_size = 0;  // 0 = unknown: nothing is said about progress
  StoreLimits limits;
};

struct StoreClientOpened {
  StoreClientId client;
};
struct StoreClientBytes {
  StoreClientId client;
  absl::string_view bytes;  // borrowed during Step
};
struct StoreClientClosed {
  StoreClientId client;
};
using StoreEvent = std::variant<StoreClientOpened, StoreClientBytes, StoreClientClosed>;

// Owners: the store's table and replies under way, so that 8,192 readers of one value cost one
// copy. A value that replies share is never changed.
using StoreValue = std::shared_ptr<const std::string>;

struct StoreSend {
  StoreClientId client;
  std::string head;   // goes first
  StoreValue body;    // then this, if any
  bool last = false;  // nothing follows: the client is told so
};
struct StoreClose {  // the client is forgotten already; no event for it may follow
  StoreClientId client;
  std::string reason;
};
using StoreEffect = std::variant<StoreSend, StoreClose>;

struct StoreProgress {
  uint32_t world_size = 0;
  uint32_t connected = 0;  // workers that have said hello (the counter `init/`), at most world_size
  bool any_client = false;
  // Ranks that have not connected; nothing where it cannot be known. Workers that use gloo tell
  // their rank by the name of their first key.
  std::optional<std::vector<uint32_t>> missing;
};

class TorchStore {
 public:
  explicit TorchStore(const TorchStoreConfig& config) : config_(config), spaces_(1) {}

  // Effects in the order of their execution.
  std::vector<StoreEffect> Step(const StoreEvent& event);

  StoreProgress progress() const;  // O(world size)
  uint32_t connected() const;      // progress().connected
  size_t clients() const { return clients_.size(); }
  size_t keys() const { return keys_; }
  size_t bytes() const { return bytes_; }
  bool said_hello(StoreClientId client) const;
  // Horovod's ranks do not say who they are.
  bool awaits_hellos() const { return !only_http_; }

 private:
  using Waiters = std::map<uint64_t, StoreClientId>;  // by wait_seq: first come, first served
  using Queue = std::deque<StoreValue>;
  using Effects = std::vector<StoreEffect>;
  struct Space {
    std::map<std::string, std::shared_ptr<std::string>> values;
    std::map<std::string, Queue> queues;  // never empty ones
    std::map<std::string, Waiters> waiters;
    uint64_t hellos = 0;
    uint64_t members = 0;  // connections that said hello and are open
    bool left = false;     // one of a process group has ended
  };
  struct Client {
    explicit Client(const StoreLimits& limits) : parser(limits) {}
    StoreParser parser;
    size_t parser_bytes = 0;        // of bytes_
    std::optional<uint32_t> space;  // after its hello
    std::optional<uint32_t> rank;   // that it has told
    bool in_group = false;          // it has named a key of the default process group
    // The one WAIT or BARRIER that is not answered yet.
    uint64_t wait_seq = 0;  // 0 = none
    uint32_t wait_space = 0;
    std::vector<std::string> wait_keys;
    size_t wait_missing = 0;
  };
  // What a request is about, while it runs.
  struct Call {
    StoreClientId id;
    Client& client;
    Space& space;
    StoreRequest& request;
    Effects& out;
  };

  void OnBytes(StoreClientId id, absl::string_view bytes, Effects& out);
  // These return "" or why the connection must be closed.
  std::string Run(Call call);
  std::string RunHttp(Call call);
  std::string RunKeyed(Call call);
  std::string RunQueue(Call call);
  std::string Add(Call call);
  std::string CompareSet(Call call);
  std::string Append(Call call);
  std::string MultiSet(Call call);
  std::string Wait(Call call);
  std::string Barrier(Call call);
  std::string Set(Space& space, const std::string& key, std::string value, Effects& out);
  // Set without waking; `created` says whether there is anybody to wake.
  std::string Put(Space& space, const std::string& key, std::string value, bool& created);
  // Adds to the number stored at `key`, without waking.
  std::string Count(Space& space, const std::string& key, int64_t delta, int64_t& sum,
                    bool& created);
  // "" or the bound that `more` bytes and `new_keys` keys would break.
  std::string Room(size_t more, size_t new_keys) const;

  static StoreValue Find(const Space& space, const std::string& key);
  bool Delete(Space& space, const std::string& key);
  void DropScope(Space& space, const std::string& scope);
  void Hello(Client& client);
  void NoteGroup(Client& client, const std::vector<std::string>& keys);
  void NoteRank(Client& client, absl::string_view key);
  uint32_t CurrentSpace() const {
    return static_cast<uint32_t>(spaces_first_ + spaces_.size() - 1);
  }
  Space* FindSpace(uint32_t number);
  void DropOldSpaces();
  void StartWait(Call call, std::vector<std::string> keys, size_t more);
  void DropWait(Client& client);
  void Wake(Space& space, const std::string& key, bool one, Effects& out);
  void Close(StoreClientId id, std::string reason, Effects& out);
  void Forget(StoreClientId id);

  const TorchStoreConfig config_;
  std::map<StoreClientId, Client> clients_;
  uint32_t spaces_first_ = 0;  // number of spaces_.front()
  std::deque<Space> spaces_;   // never empty; the last is the current one
  uint64_t wait_seq_last_ = 0;
  size_t bytes_ = 0;
  size_t keys_ = 0;           // of all spaces
  uint64_t hellos_ = 0;       // of all spaces that there were
  std::set<uint32_t> ranks_;  // that told their rank
  bool any_client_ = false;
  bool only_http_ = false;
};

}  // namespace muster
