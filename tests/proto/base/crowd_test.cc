#include "proto/base/crowd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <string>
#include <utility>

#include "proto/base/rng.h"

namespace muster {
namespace {

TEST(Crowd, OneSourceHasTheWholeDoor) {  // D1
  Crowd crowd(3);
  for (uint64_t id = 1; id <= 3; ++id) {
    EXPECT_EQ(crowd.Enter(id, "a"), std::nullopt);
  }
  EXPECT_EQ(crowd.Enter(4, "a"), 1u);
  EXPECT_EQ(crowd.Enter(5, "a"), 2u);
  EXPECT_EQ(crowd.size(), 3u);
}

TEST(Crowd, AFloodCostsItsOwnSource) {  // D2
  Crowd crowd(100);
  EXPECT_EQ(crowd.Enter(1, "honest"), std::nullopt);
  for (uint64_t id = 2; id <= 100; ++id) {
    EXPECT_EQ(crowd.Enter(id, "flood"), std::nullopt);
  }
  for (uint64_t id = 101; id < 1000; ++id) {
    EXPECT_EQ(crowd.Enter(id, "flood"), id - 99);
  }
  EXPECT_EQ(crowd.Enter(1000, "another"), 901u);
}

TEST(Crowd, AmongEqualsTheOldestGoes) {  // D2
  Crowd crowd(2);
  crowd.Enter(1, "z");
  crowd.Enter(2, "a");
  EXPECT_EQ(crowd.Enter(3, "m"), 1u);
  EXPECT_EQ(crowd.Enter(4, "m"), 3u);  // whose source has most by then
}

TEST(Crowd, WhoHasLeftCountsNoMore) {
  Crowd crowd(2);
  crowd.Enter(1, "a");
  crowd.Enter(2, "a");
  crowd.Leave(2);
  crowd.Leave(2);
  crowd.Leave(7);
  EXPECT_EQ(crowd.size(), 1u);
  EXPECT_EQ(crowd.Enter(3, "b"), std::nullopt);
  EXPECT_EQ(crowd.Enter(4, "b"), 3u);
}

// The rule as it is said, by looking at all of them.
class Plain {
 public:
  explicit Plain(size_t most) : most_(most) {}
  std::optional<uint64_t> Enter(uint64_t id, const std::string& source) {
    all_.emplace_back(id, source);
    if (all_.size() <= most_) {
      return std::nullopt;
    }
    const auto gone = std::max_element(all_.begin(), all_.end(), [&](const One& a, const One& b) {
      return Count(a.second) < Count(b.second);
    });  // the first, so the oldest, of those that are largest
    const uint64_t out = gone->first;
    all_.erase(gone);
    return out;
  }
  void Leave(uint64_t id) {
    all_.remove_if([id](const One& one) { return one.first == id; });
  }

 private:
  using One = std::pair<uint64_t, std::string>;
  ptrdiff_t Count(const std::string& source) const {
    return std::count_if(all_.begin(), all_.end(),
                         [&](const One& one) { return one.second == source; });
  }
  const size_t most_;
  std::list<One> all_;
};

TEST(Crowd, AgreesWithThePlainOne) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SplitMix64 random(seed);
    const size_t most = 1 + random.Next() % 12;
    Crowd crowd(most);
    Plain plain(most);
    for (uint64_t id = 1; id <= 300; ++id) {
      const std::string source(1, static_cast<char>('a' + random.Next() % (1 + seed % 6)));
      ASSERT_EQ(crowd.Enter(id, source), plain.Enter(id, source)) << "seed " << seed;
      const uint64_t leaves = id - random.Next() % 10;
      if (random.Next() % 3 == 0) {
        crowd.Leave(leaves);
        plain.Leave(leaves);
      }
    }
  }
}

}  // namespace
}  // namespace muster
