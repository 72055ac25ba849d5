// torch's store: two clients, one of which sends what comes, whole and in pieces.
#include <utility>

#include "proto/base/check.h"
#include "tests/agent/core/torch_store_testing.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

using testing_store::Bench;
using testing_store::Byte;
using testing_store::Speak;
using testing_store::U64;

constexpr uint64_t kKeeper = 1;  // says right things only
constexpr uint64_t kStranger = 2;
constexpr uint64_t kOther = 3;  // sends the second half of what comes

// Small, so that inputs of some hundred bytes reach them.
TorchStoreConfig SmallStore() {
  TorchStoreConfig config;
  config.world_size = 2;
  config.limits.key_bytes_max = 64;
  config.limits.value_bytes_max = 256;
  config.limits.keys_per_request_max = 8;
  config.limits.keys_max = 12;
  config.limits.bytes_max = 16 << 10;
  return config;
}

struct Outcome {
  std::string received;
  bool closed = false;
  size_t keys = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome Feed(absl::string_view bytes, size_t piece) {
  const Speak say{.old = false};
  Bench bench(SmallStore());
  bench.Open(kKeeper);
  bench.Feed(kKeeper, say.Hello() + say.Set("kept", "value"));
  bench.Open(kStranger);
  const size_t kept = bench.store.bytes();
  for (size_t at = 0; at < bytes.size() && !bench.closed.contains(kStranger); at += piece) {
    bench.Feed(kStranger, std::string(bytes.substr(at, piece)));
    CHECK(bench.store.bytes() <= SmallStore().limits.bytes_max);
    CHECK(bench.store.keys() <= SmallStore().limits.keys_max);
  }
  const Outcome outcome{bench.Got(kStranger), bench.closed.contains(kStranger), bench.store.keys()};
  if (!outcome.closed) {
    bench.Close(kStranger);
  }
  CHECK(!bench.closed.contains(kKeeper) && bench.store.clients() == 1);
  CHECK(!bench.Ask(kKeeper, say.NumKeys()).empty());
  const bool may_queue = bytes.find('\x0e') != absl::string_view::npos;  // values without a key
  if (!may_queue && bench.store.keys() == 1 &&
      bench.Ask(kKeeper, say.Get("kept")) == testing_store::Str("value")) {
    CHECK(bench.store.bytes() == kept);  // what has gone costs nothing
  }
  return outcome;
}

// Two clients in turn, so that one waits and the other wakes it.
void InTurn(absl::string_view bytes) {
  Bench bench(SmallStore());
  bench.Open(kStranger);
  bench.Open(kOther);
  const absl::string_view halves[] = {bytes.substr(0, bytes.size() / 2),
                                      bytes.substr(bytes.size() / 2)};
  bench.Feed(kStranger, std::string(halves[0]));
  if (!bench.closed.contains(kOther)) {
    bench.Feed(kOther, std::string(halves[1]));
  }
  (void)bench.store.progress();
}

}  // namespace

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const bool old : {true, false}) {
    const Speak say{.old = old};
    const std::string hello = say.Hello() + say.Add("init/", 1);
    seeds.push_back(hello + say.Set("a", "1") + say.Get("a") + say.Check({"a", "b"}) +
                    say.CompareSet("a", "1", "2") + say.NumKeys() + say.Delete("a"));
    seeds.push_back(hello + say.Wait({"a", "kept"}));
    // One half waits, the other sets what it waits for.
    const std::string waits = hello + say.Wait({"a"});
    const std::string sets = hello + say.Set("a", "");
    seeds.push_back(waits + std::string(waits.size() - sets.size(), '\0') + sets);
    seeds.push_back(say.Hello() + say.Set("rank_0/x", "v") + say.Add("a", -7) + say.Get("a"));
  }
  const Speak say{.old = false};
  seeds.push_back(say.Hello() + say.Append("a", "1") + say.MultiSet({{"a", "2"}, {"b", "3"}}) +
                  say.MultiGet({"a", "b"}) + say.ListKeys() + say.Ping(7));
  seeds.push_back(say.Hello() + say.Wait({"never"}) + say.CancelWait());
  seeds.push_back(say.Hello() + say.QueuePush("q", "1") + say.QueueLen("q") + say.QueuePop("q") +
                  say.QueuePop("q"));
  seeds.push_back(say.Hello() + say.Barrier("b", 1));
  const std::string barrier = say.Hello() + say.Barrier("b", 2);
  seeds.push_back(barrier + barrier);
  // One half puts, the other asks for that, or deletes it.
  const std::string put = "PUT /s/k HTTP/1.1\r\nContent-Length: 1\r\n\r\nv";
  for (const std::string word : {"GET", "DELETE"}) {
    const std::string line = word + " /s/k HTTP/1.1\r\n";
    const std::string end = "\r\n\r\n";
    seeds.push_back(put + line + "X:" + std::string(put.size() - line.size() - 6, 'y') + end);
    seeds.push_back(line + "\r\n");
  }
  seeds.push_back("PUT /s/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
  seeds.push_back("PUT /s/k HTTP/1.1\r\nContent-Length: 999\r\n\r\n");
  seeds.push_back("PUT /s/k HTTP/1.1\r\n\r\n");
  seeds.push_back(put + put);
  seeds.push_back("GET / HTTP/1.1\r\n\r\n");
  seeds.push_back(say.Hello().substr(1) + Byte(0));
  seeds.push_back(Byte(2) + U64(1 << 20));
  return seeds;
}

void Run(absl::string_view bytes) {
  const Outcome whole = Feed(bytes, bytes.size() + 1);
  CHECK(Feed(bytes, 1) == whole);  // W1
  InTurn(bytes);
}

}  // namespace muster::fuzz
