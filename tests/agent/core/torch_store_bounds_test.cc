// What the torch store refuses, what bounds it, and agreement with a simple table over random
// requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "agent/core/torch_store.h"
#include "proto/base/rng.h"
#include "tests/agent/core/torch_store_testing.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing_store::Bench;
using testing_store::Byte;
using testing_store::Speak;
using testing_store::Str;
using testing_store::U32;
using testing_store::U64;

constexpr Speak kOld{.old = true};
constexpr Speak kNew{.old = false};

// --- what is refused (S1) ---

struct Refusal {
  const char* name;
  bool old;
  std::string bytes;
  const char* reason;
};

class Refused : public testing::TestWithParam<Refusal> {};

INSTANTIATE_TEST_SUITE_P(
    Store, Refused,
    testing::Values(
        Refusal{"old_code", true, Byte(9), "code 9 is unknown"},
        Refusal{"old_watch_key", true, Byte(7) + Str("/a"), "--store=worker"},
        Refusal{"new_code", false, Byte(19), "code 19 is unknown"},
        Refusal{"new_code_way_round", false, Byte(200), "--store=worker"},
        Refusal{"validate_twice", false, Byte(0) + U32(kStoreMagic), "code 0 is unknown"},
        Refusal{"old_far_code", true, "SSH-2.0", "code 83 is unknown"},
        Refusal{"http", true, "GET / HTTP/1.1\r\n\r\n", "an HTTP GET of '/', which is not"},
        Refusal{"magic_before_each_command", true, U32(kStoreMagic) + Byte(0), "unreleased torch"},
        Refusal{"first_byte_of_the_magic", true, Byte(0xCE) + Byte(1), "code 206 is unknown"},
        Refusal{"long_key", true, Byte(2) + U64(kStoreKeyBytesMax + 1), "8193 bytes"},
        Refusal{"long_value", false, Byte(1) + Str("/a") + U64(kStoreValueBytesMax + 1),
                "SET with a value of 8388609 bytes, the limit is 8388608"},
        Refusal{"negative_length", true, Byte(2) + U64(~uint64_t{0}), "GET with a key of"},
        Refusal{"many_keys", false, Byte(6) + U64(kStoreKeysPerRequestMax + 1),
                "WAIT of 131073 keys, the limit is 131072"},
        Refusal{"add_to_text", false, kNew.Set("/a", "7x") + kNew.Add("/a", 1),
                "ADD: the value of key '/a' is not a number"},
        Refusal{"barrier_on_text", false, kNew.Set("/a", "x") + kNew.Barrier("/a", 1),
                "BARRIER: the value of key '/a' is not a number"}),
    [](const auto& each) { return each.param.name; });

TEST_P(Refused, ClosesThatClientOnly) {
  Bench bench;
  bench.Open(1);
  bench.Open(2);
  const std::string hello = GetParam().old ? "" : kNew.Hello();
  bench.Feed(1, hello + GetParam().bytes);
  ASSERT_EQ(bench.closed.size(), 1u);
  EXPECT_THAT(bench.closed.at(1), HasSubstr(GetParam().reason));
  EXPECT_EQ(bench.store.clients(), 1u);
  EXPECT_EQ(bench.Ask(2, kOld.Add("/other", 1)), U64(1));
}

TEST(StoreBounds, ClientsKeysAndBytes) {
  StoreLimits limits;
  limits.clients_max = 2;
  limits.keys_max = 3;
  limits.bytes_max = 4096;
  Bench bench(TorchStoreConfig{.world_size = 0, .limits = limits});
  bench.Open(1);
  bench.Open(2);
  bench.Open(3);
  EXPECT_THAT(bench.closed.at(3), HasSubstr("more than 2 connections"));
  bench.Feed(1, kNew.Hello() + kNew.MultiSet({{"/a", ""}, {"/b", ""}, {"/c", ""}}));
  bench.Feed(1, kNew.Set("/c", "changed"));
  EXPECT_FALSE(bench.closed.contains(1));
  bench.Feed(1, kNew.MultiSet({{"/a", "1"}, {"/d", "1"}}));
  EXPECT_THAT(bench.closed.at(1), HasSubstr("3 keys"));
  EXPECT_EQ(bench.Ask(2, kOld.Get("/a")), Str(""));  // all or nothing
  bench.Feed(2, kOld.Set("/a", std::string(5000, 'x')));
  EXPECT_THAT(bench.closed.at(2), HasSubstr("bytes of at most 4096"));
  EXPECT_LE(bench.store.bytes(), 4096u);
}

TEST(StoreBounds, UnfinishedRequestsAndWaitsCount) {  // S5
  StoreLimits limits;
  limits.bytes_max = 64 << 10;
  Bench bench(TorchStoreConfig{.world_size = 0, .limits = limits});
  bench.Open(1);
  bench.Feed(1, Byte(0) + Str("/a") + U64(1 << 20) + std::string(40 << 10, 'x'));
  EXPECT_GE(bench.store.bytes(), 40u << 10);
  bench.Open(2);
  bench.Feed(2, kOld.Wait({std::string(8000, 'w')}));
  EXPECT_GE(bench.store.bytes(), 48u << 10);
  bench.Open(3);
  bench.Feed(3, Byte(0) + Str("/a") + U64(1 << 20) + std::string(20 << 10, 'x'));
  EXPECT_THAT(bench.closed.at(3), HasSubstr("the store is full"));
  bench.Close(1);
  bench.Close(2);
  EXPECT_EQ(bench.store.bytes(), 0u);
}

TEST(StoreBounds, ALengthIsNotAllocatedBeforeItsBytesCome) {  // W3
  Bench bench;
  for (uint64_t id = 1; id <= 1000; ++id) {
    bench.Open(id);
    bench.Feed(id, Byte(0) + Str("/a") + U64(kStoreValueBytesMax) + "x");
  }
  EXPECT_LT(bench.store.bytes(), 1u << 20);
}

TEST(StoreBounds, WhoAsksOnWithoutReadingIsClosed) {
  Bench bench;
  bench.Open(1);
  bench.Feed(1, kNew.Hello());
  for (int i = 0; i < 200; ++i) {
    bench.Feed(1, kNew.Set(std::string(8000, 'k') + std::to_string(i), ""));
  }
  EXPECT_GT(bench.Ask(1, kNew.ListKeys()).size(), 1600000u);
  bench.Feed(1, kNew.ListKeys() + kNew.ListKeys());
  EXPECT_THAT(bench.closed.at(1), HasSubstr("without reading"));
}

// --- properties ---

// A second version of the store, as simple as can be: no waiting.
std::string Model(std::map<std::string, std::string>& table, SplitMix64& rng, const Speak& say,
                  std::string& reply) {
  const std::string key = "/" + std::to_string(rng.Below(6));
  const std::string value = std::to_string(rng.Below(100));
  const auto find = [&](const std::string& k) { return table.contains(k) ? table[k] : ""; };
  switch (rng.Below(say.old ? 7 : 10)) {
    case 0:
      table[key] = value;
      return say.Set(key, value);
    case 1: {
      const std::string expected = rng.Below(2) == 0 ? find(key) : value;
      if (!table.contains(key) && !expected.empty()) {
        reply = Str(expected);
      } else {
        if (find(key) == expected) {
          table[key] = value;
        }
        reply = Str(table[key]);
      }
      return say.CompareSet(key, expected, value);
    }
    case 2:
      reply = Str(find(key));
      return say.Get(key);
    case 3: {
      const int64_t sum = (table.contains(key) ? std::stoll(table[key]) : 0) - 3;
      table[key] = std::to_string(sum);
      reply = U64(static_cast<uint64_t>(sum));
      return say.Add(key, -3);
    }
    case 4:
      reply = Byte(table.contains(key) && table.contains("/1") ? 0 : 1);
      return say.Check({key, "/1"});
    case 5:
      reply = U64(table.size());
      return say.NumKeys();
    case 6:
      reply = U64(table.erase(key));
      return say.Delete(key);
    case 7:
      table[key] += value;
      return say.Append(key, value);
    case 8:
      reply = Str(find(key)) + Str(find("/0"));
      return say.MultiGet({key, "/0"});
    default:
      table[key] = value;
      table["/5"] = "1";
      return say.MultiSet({{key, value}, {"/5", "1"}});
  }
}

class Agreement : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Store, Agreement, testing::Bool(),
                         [](const auto& each) { return each.param ? "old" : "new"; });

TEST_P(Agreement, WithASimpleTableHoweverTheBytesAreCut) {  // W1
  const Speak say{.old = GetParam()};
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SplitMix64 rng(seed);
    std::map<std::string, std::string> table;
    Bench two;
    two.Open(1);
    std::string bytes = say.Hello();
    std::string want;
    for (int i = 0; i < 60; ++i) {
      // APPEND may make a number too long for ADD.
      for (auto& [key, value] : table) {
        if (value.size() > 15) {
          bytes += say.Set(key, "0");
          value = "0";
        }
      }
      std::string reply;
      bytes += Model(table, rng, say, reply);
      want += reply;
    }
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = 1 + rng.Below(rng.Below(2) == 0 ? 3 : 40);
      two.Feed(1, bytes.substr(at, n));
      at += n;
    }
    ASSERT_EQ(two.Got(1), want) << "seed " << seed;
    ASSERT_TRUE(two.closed.empty()) << "seed " << seed << ": " << two.closed[1];
    ASSERT_EQ(two.store.keys(), table.size()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace muster
