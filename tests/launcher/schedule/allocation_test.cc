#include "launcher/schedule/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "absl/strings/str_cat.h"
#include "proto/base/limits.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Counts = std::vector<uint32_t>;

class Request {
 public:
  explicit Request(const Counts& slots) {
    r_.hosts_said = "--hosts ...";
    for (size_t i = 0; i < slots.size(); ++i) {
      HostEntry host;
      host.name = absl::StrCat("h", i);
      host.slots = slots[i];
      r_.hosts.push_back(host);
    }
  }
  Request& Total(uint32_t n) { return r_.total = Said(n, "-n"), *this; }
  Request& Ppn(uint32_t n) { return r_.per_node = Said(n, "-ppn"), *this; }
  Request& Nproc(uint32_t n) { return r_.exact = Said(n, "--nproc-per-node"), *this; }
  Request& Nodes(uint32_t low, uint32_t high) {
    r_.nodes_min = Said(low, "--nnodes");
    r_.nodes_max = Said(high, "--nnodes");
    return *this;
  }
  Request& SlotsMax(size_t host, uint32_t n) { return r_.hosts[host].slots_max = n, *this; }
  Request& Order(RankOrder order) { return r_.order = order, *this; }
  Request& Oversubscribe() { return r_.oversubscribe = true, *this; }
  AllocationRequest& operator*() { return r_; }
  AllocationRequest* operator->() { return &r_; }

 private:
  static NamedCount Said(uint32_t n, const char* name) { return {n, absl::StrCat(name, " ", n)}; }
  AllocationRequest r_;
};

Counts CountsOf(const Allocation& allocation) {
  Counts counts;
  for (const NodeWorkers& node : allocation.nodes) {
    counts.push_back(node.workers);
  }
  return counts;
}

std::vector<Counts> RanksOf(Request request) {
  const auto allocation = AllocateHosts(*request);
  EXPECT_TRUE(allocation.ok()) << allocation.status();
  std::vector<Counts> out;
  for (const NodeWorkers& node : allocation.ok() ? allocation->nodes : std::vector<NodeWorkers>()) {
    EXPECT_TRUE(node.ranks.empty() || node.ranks.size() == node.workers);
    out.push_back(node.ranks);
  }
  return out;
}

Counts Ok(Request request) {
  const auto allocation = AllocateHosts(*request);
  EXPECT_TRUE(allocation.ok()) << allocation.status();
  return allocation.ok() ? CountsOf(*allocation) : Counts{};
}

std::string Error(Request request) {
  const auto allocation = AllocateHosts(*request);
  EXPECT_FALSE(allocation.ok());
  EXPECT_TRUE(allocation.ok() || allocation.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(allocation.status().message());
}

TEST(Allocation, A1NprocPerNodeIgnoresSlots) {
  EXPECT_THAT(Ok(Request({4, 1, 2}).Nproc(3)), ElementsAre(3, 3, 3));
  EXPECT_THAT(Ok(Request({4, 1, 2}).Nproc(3).Total(6)), ElementsAre(3, 3));
  EXPECT_THAT(Ok(Request({1, 1}).Nproc(2).Total(4).Nodes(2, 2)), ElementsAre(2, 2));
  EXPECT_THAT(Error(Request({1, 1}).Nproc(2).Total(5)),
              HasSubstr("-n 5 and --nproc-per-node 2 disagree"));
  EXPECT_THAT(Error(Request({1, 1}).Nproc(2).Total(2).Nodes(2, 2)),
              HasSubstr("-n 2 and --nproc-per-node 2 disagree"));
  EXPECT_THAT(Error(Request({1, 1}).Nproc(2).Total(6)), HasSubstr("disagree"));
}

TEST(Allocation, A2PpnFillsInOrder) {
  EXPECT_THAT(Ok(Request({1, 1, 1}).Ppn(2)), ElementsAre(2, 2, 2));
  EXPECT_THAT(Ok(Request({1, 1, 1}).Ppn(2).Total(3)), ElementsAre(2, 1));
  EXPECT_THAT(Ok(Request({1, 1, 1}).Ppn(2).Total(6)), ElementsAre(2, 2, 2));
  EXPECT_THAT(Error(Request({9, 9}).Ppn(2).Total(5)),
              HasSubstr("-n 5 does not fit: -ppn 2 on 2 hosts"));
  EXPECT_THAT(Ok(Request({1, 1}).Ppn(2).Total(5).Oversubscribe()), ElementsAre(3, 2));
  EXPECT_THAT(Error(Request({1, 1}).Ppn(4).Total(4).Nodes(2, 2)),
              HasSubstr("fills 1 node, but --nnodes 2 asks for 2"));
}

TEST(Allocation, A3TotalFillsSlotsOrGoesRound) {
  EXPECT_THAT(Ok(Request({4, 4}).Total(6)), ElementsAre(4, 2));
  EXPECT_THAT(Ok(Request({4, 4}).Total(4)), ElementsAre(4));
  EXPECT_THAT(Ok(Request({4, 4}).Total(4).Nodes(2, 2)), ElementsAre(2, 2));
  EXPECT_THAT(Ok(Request({1, 4, 4}).Total(6).Nodes(3, 3)), ElementsAre(1, 3, 2));
  EXPECT_THAT(Error(Request({2, 2}).Total(5)),
              HasSubstr("-n 5 does not fit: --hosts ... has 4 slots on 2 hosts"));
  EXPECT_THAT(Error(Request({1, 1}).Total(4)), HasSubstr("as in 'h0:2'"));
  EXPECT_THAT(Error(Request({4, 4}).Total(1).Nodes(2, 2)),
              HasSubstr("-n 1 is less than one worker a node"));
}

TEST(Allocation, A4SlotsAloneDecide) { EXPECT_THAT(Ok(Request({4, 1, 2})), ElementsAre(4, 1, 2)); }

TEST(Allocation, A5NodesCutTheList) {
  const auto cut = AllocateHosts(*Request({1, 1, 1}).Nodes(2, 2));
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(CountsOf(*cut), Counts({1, 1}));
  EXPECT_THAT(cut->notes, ElementsAre("the first 2 of 3 hosts are used (--nnodes 2)"));
  EXPECT_THAT(Error(Request({1, 1}).Nodes(3, 3)),
              HasSubstr("--nnodes 3 wants 3 nodes, but --hosts ... names 2 hosts"));
  const auto elastic = AllocateHosts(*Request({1, 1, 1}).Nodes(2, 8));
  ASSERT_TRUE(elastic.ok());
  EXPECT_EQ(elastic->nodes.size(), 3u);
  EXPECT_EQ(elastic->nodes_min, 2u);
  EXPECT_TRUE(elastic->notes.empty());
}

TEST(Allocation, A6OversubscribingIsAsked) {
  EXPECT_THAT(Ok(Request({2, 1}).Total(6).Oversubscribe()), ElementsAre(4, 2));
  EXPECT_THAT(Error(Request({1}).Total(kWorkersPerNodeMax + 1).Oversubscribe()),
              HasSubstr("does not fit"));
}

TEST(Allocation, A6OversubscribingEndsAtMaxSlots) {
  EXPECT_THAT(Ok(Request({2, 1}).SlotsMax(0, 2).Total(6).Oversubscribe()), ElementsAre(2, 4));
  EXPECT_THAT(Error(Request({2, 1}).SlotsMax(0, 2).SlotsMax(1, 3).Total(6).Oversubscribe()),
              HasSubstr("-n 6 does not fit: the hosts of --hosts ... may have 5 workers"));
  EXPECT_THAT(Error(Request({1, 1}).SlotsMax(0, 2).SlotsMax(1, 2).Ppn(2).Total(5).Oversubscribe()),
              HasSubstr("may have 4 workers"));
}

TEST(Allocation, CountsFoundOutOnTheNodes) {
  Request autos({4, 4});
  autos->wanted = WorkersWanted::kAuto;
  const auto allocation = AllocateHosts(*autos);
  ASSERT_TRUE(allocation.ok());
  EXPECT_EQ(allocation->nodes[1].wanted, WorkersWanted::kAuto);
  Request by_cpus({4, 1});
  by_cpus->hosts[1].by_cpus = true;
  const auto mixed = AllocateHosts(*by_cpus);
  ASSERT_TRUE(mixed.ok());
  EXPECT_EQ(mixed->nodes[0].wanted, WorkersWanted::kNumber);
  EXPECT_EQ(mixed->nodes[1].wanted, WorkersWanted::kCpu);
  EXPECT_THAT(Error(by_cpus.Total(5)), HasSubstr("gives none for 'h1'"));
}

TEST(Allocation, AWorldHasALimit) {
  const Counts slots(1000, kWorkersPerNodeMax);
  EXPECT_THAT(Error(Request(slots)), HasSubstr("at most 1048576 workers"));
}

// The second version of A3: slots as a row of seats, taken in order or in turn.
Counts SeatsInOrder(const Counts& slots, uint32_t n) {
  Counts counts(slots.size(), 0);
  for (size_t host = 0; host < slots.size(); ++host) {
    for (uint32_t seat = 0; seat < slots[host] && n > 0; ++seat, --n) {
      ++counts[host];
    }
  }
  return n > 0 ? Counts{} : counts;
}
Counts SeatsInTurn(const Counts& slots, uint32_t n) {
  Counts counts(slots.size(), 0);
  for (uint32_t row = 0; row < 10; ++row) {
    for (size_t host = 0; host < slots.size(); ++host) {
      if (row < slots[host] && n > 0) {
        ++counts[host];
        --n;
      }
    }
  }
  return n > 0 ? Counts{} : counts;
}

// All lists of up to three hosts with up to three slots, all totals, with and without --nnodes.
TEST(AllocationProperty, AgreesWithSeatsOnEverySmallList) {
  int placed = 0;
  for (uint32_t code = 0; code < 3 + 9 + 27; ++code) {
    Counts slots;
    const uint32_t hosts = code < 3 ? 1 : code < 12 ? 2 : 3;
    for (uint32_t i = 0, rest = code - (hosts == 1   ? 0
                                        : hosts == 2 ? 3
                                                     : 12);
         i < hosts; ++i, rest /= 3) {
      slots.push_back(1 + rest % 3);
    }
    for (uint32_t n = 1; n <= 10; ++n) {
      Counts want = SeatsInOrder(slots, n);
      while (!want.empty() && want.back() == 0) {
        want.pop_back();
      }
      const auto in_order = AllocateHosts(*Request(slots).Total(n));
      ASSERT_EQ(in_order.ok() ? CountsOf(*in_order) : Counts{}, want) << n;
      const auto in_turn = AllocateHosts(*Request(slots).Total(n).Nodes(hosts, hosts));
      ASSERT_EQ(in_turn.ok() ? CountsOf(*in_turn) : Counts{},
                n < hosts ? Counts{} : SeatsInTurn(slots, n))
          << n;
      placed += in_order.ok() ? 1 : 0;
    }
  }
  EXPECT_GT(placed, 100);
}

// Whatever is asked: an answer places every worker, none of its nodes is empty, and hosts keep
// their order.
TEST(AllocationProperty, EveryAnswerIsWhole) {
  const Counts slots = {2, 1, 3};
  int answers = 0;
  for (uint32_t n = 0; n <= 9; ++n) {
    for (uint32_t ppn = 0; ppn <= 4; ++ppn) {
      for (uint32_t nproc = 0; nproc <= 4; ++nproc) {
        for (uint32_t nodes = 0; nodes <= 4; ++nodes) {
          for (const bool over : {false, true}) {
            Request request(slots);
            if (n > 0) {
              request.Total(n);
            }
            if (ppn > 0) {
              request.Ppn(ppn);
            }
            if (nproc > 0) {
              request.Nproc(nproc);
            }
            if (nodes > 0) {
              request.Nodes(nodes, nodes);
            }
            if (over) {
              request.Oversubscribe();
            }
            const auto allocation = AllocateHosts(*request);
            if (!allocation.ok()) {
              continue;
            }
            ++answers;
            const Counts counts = CountsOf(*allocation);
            const uint32_t sum = std::accumulate(counts.begin(), counts.end(), 0u);
            ASSERT_TRUE(n == 0 || sum == n) << n << " " << ppn << " " << nproc << " " << nodes;
            ASSERT_TRUE(nodes == 0 || counts.size() == nodes);
            ASSERT_EQ(allocation->nodes_min, counts.size());
            ASSERT_EQ(allocation->notes.size(), counts.size() < slots.size() ? 1u : 0u);
            for (size_t i = 0; i < counts.size(); ++i) {
              ASSERT_GE(counts[i], 1u);
              ASSERT_TRUE(nproc == 0 || counts[i] == nproc);
              ASSERT_EQ(allocation->nodes[i].host.name, absl::StrCat("h", i));
              ASSERT_TRUE(over || ppn != 0 || nproc != 0 || counts[i] <= slots[i]);
            }
          }
        }
      }
    }
  }
  EXPECT_GT(answers, 300);
}

TEST(RankOrder, IsAsTheWorkersWereDealtOut) {
  using Ranks = std::vector<Counts>;
  const RankOrder round = RankOrder::kGoRound, turn = RankOrder::kInTurn;
  EXPECT_EQ(RanksOf(Request({1, 1}).Total(4).Oversubscribe().Order(round)),
            (Ranks{{0, 2}, {1, 3}}));
  EXPECT_EQ(RanksOf(Request({2, 1}).Total(5).Oversubscribe().Order(round)),
            (Ranks{{0, 1, 3, 4}, {2}}));
  EXPECT_EQ(RanksOf(Request({2, 1}).SlotsMax(0, 3).Total(6).Oversubscribe().Order(round)),
            (Ranks{{0, 1, 3}, {2, 4, 5}}));
  EXPECT_EQ(RanksOf(Request({4, 1, 4}).Total(6).Order(turn)), (Ranks{{0, 3, 5}, {1}, {2, 4}}));
  EXPECT_EQ(RanksOf(Request({4, 4, 4}).Total(2).Order(turn)), (Ranks{{}, {}}));  // in order
}

TEST(Spread, IsEvenAndExact) {
  for (uint32_t n = 1; n < 40; ++n) {
    for (uint32_t nodes = 1; nodes <= n; ++nodes) {
      const Counts counts = SpreadEvenly(n, nodes);
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0u), n);
      EXPECT_LE(counts.front() - counts.back(), 1u);
    }
  }
}

}  // namespace
}  // namespace muster
