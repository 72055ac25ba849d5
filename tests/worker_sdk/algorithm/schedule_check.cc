#include "tests/worker_sdk/algorithm/schedule_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/worker_sdk/algorithm/schedule_world.h"

namespace muster {
namespace {

int64_t Value(uint32_t rank, uint64_t index) {
  return static_cast<int64_t>(uint64_t{rank} * 1000003 + index * 7 + 1);
}

// Elements that `from` has for `to`; of calls whose parts are one rank's each, that of the one or
// of the other.
uint64_t PartOf(const Call& call, uint32_t size, uint32_t from, uint32_t to) {
  if (call.parts == nullptr) {
    return call.count;
  }
  const bool gathers = call.kind == OpKind::kAllGatherV || call.kind == OpKind::kGatherV;
  return call.parts[call.kind == OpKind::kAllToAllV ? from * size + to : gathers ? from : to];
}
// Where that part begins in what `from` has.
uint64_t BeginOf(const Call& call, uint32_t size, uint32_t from, uint32_t to) {
  uint64_t out = 0;
  for (uint32_t i = 0; i < to; ++i) {
    out += PartOf(call, size, from, i);
  }
  return out;
}

// What `rank` must have in its output; the second version of each collective.
std::vector<int64_t> Want(const Call& call, uint32_t size, uint32_t rank) {
  std::vector<int64_t> out;
  const auto take = [&](uint32_t from, uint64_t begin, uint64_t count) {
    for (uint64_t i = begin; i < begin + count; ++i) {
      out.push_back(Value(from, i));
    }
  };
  const auto sum = [&](uint64_t begin, uint64_t count) {
    for (uint64_t at = begin; at < begin + count; ++at) {
      int64_t all = 0;
      for (uint32_t i = 0; i < size; ++i) {
        all += Value(i, at);
      }
      if (CarriesMeans(call.dtype, call.op) && size > 1) {
        out.push_back(MeanOf(all, size));
      } else {
        out.push_back(call.op == ReduceOp::kAvg && size != 0 ? all / size : all);
      }
    }
  };
  const uint64_t own = PartOf(call, size, rank, rank);
  switch (call.kind) {
    case OpKind::kBarrier:
      break;
    case OpKind::kReduce:
      sum(0, rank == call.root ? call.count : 0);
      break;
    case OpKind::kAllReduce:
      sum(0, call.count);
      break;
    case OpKind::kReduceScatter:
    case OpKind::kReduceScatterV:
      sum(BeginOf(call, size, rank, rank), own);
      break;
    case OpKind::kBroadcast:
      take(call.root, 0, call.count);
      break;
    case OpKind::kAllGather:
    case OpKind::kAllGatherV:
    case OpKind::kSplit:
    case OpKind::kGather:
    case OpKind::kGatherV:
      for (uint32_t from = 0; from < size; ++from) {
        const bool all = call.kind != OpKind::kGather && call.kind != OpKind::kGatherV;
        take(from, 0, all || rank == call.root ? PartOf(call, size, from, rank) : 0);
      }
      break;
    case OpKind::kScatter:
    case OpKind::kScatterV:
      take(call.root, BeginOf(call, size, call.root, rank), own);
      break;
    case OpKind::kAllToAll:
    case OpKind::kAllToAllV:
      for (uint32_t from = 0; from < size; ++from) {
        take(from, BeginOf(call, size, from, rank), PartOf(call, size, from, rank));
      }
      break;
  }
  return out;
}

// The call as ranks make it, where `call` counts words.
struct MadeCall {
  explicit MadeCall(const Call& of, uint32_t size) : call(of) {
    const uint64_t each = kWord / SizeOf(of.dtype);
    call.count *= each;
    if (of.parts != nullptr) {
      parts.assign(of.parts, of.parts + (of.kind == OpKind::kAllToAllV ? size * size : size));
      for (uint64_t& part : parts) {
        part *= each;
      }
      call.parts = parts.data();
    }
  }
  std::vector<uint64_t> parts;
  Call call;
};

// Elements of the input of `rank`.
uint64_t InputOf(const Call& call, uint32_t size, uint32_t rank) {
  switch (call.kind) {
    case OpKind::kBarrier:
      return 0;
    case OpKind::kScatter:
    case OpKind::kScatterV:
      return rank == call.root ? BeginOf(call, size, rank, size) : 0;
    case OpKind::kReduceScatter:
    case OpKind::kReduceScatterV:
    case OpKind::kAllToAll:
    case OpKind::kAllToAllV:
      return BeginOf(call, size, rank, size);
    default:
      return PartOf(call, size, rank, rank);
  }
}

}  // namespace

void RunOnce(const Layout& layout, uint64_t slot_bytes, uint32_t carriers, const Call& call,
             bool in_place, uint64_t seed, bool direct) {
  const uint32_t size = layout.world();
  SCOPED_TRACE(std::string(Name(call.kind)) + " of " + std::to_string(call.count) + " among " +
               std::to_string(size) + " on " + std::to_string(layout.nodes()) + " nodes, " +
               std::to_string(carriers) + " carriers, root " + std::to_string(call.root) +
               (in_place ? ", in place" : "") + (direct ? ", direct" : "") + ", wire " +
               Name(call.wire) + ", " + Name(call.dtype));
  const MadeCall made(call, size);
  World world(layout, slot_bytes, carriers, made.call);
  world.in_place = in_place;
  world.direct = direct;
  world.ahead = seed % 5 < 3 ? 1 : 3;
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t number = layout.RankAt(i);
    World::Rank& rank = world.ranks[i];
    rank.out.assign(Want(call, size, number).size(), -1);
    rank.in.resize(InputOf(call, size, number));
    for (uint64_t k = 0; k < rank.in.size(); ++k) {
      rank.in[k] = Value(number, k);
    }
    if (call.kind == OpKind::kBroadcast && number == call.root) {
      rank.out = rank.in;  // one buffer
    }
    if (in_place) {
      const bool scatters = call.kind == OpKind::kScatterV || call.kind == OpKind::kReduceScatterV;
      for (uint32_t k = 0; call.parts != nullptr && k < number; ++k) {  // its own place
        (scatters ? rank.out_at : rank.in_at) += PartOf(call, size, k, k);
      }
      rank.out.resize(std::max(rank.in_at + rank.in.size(), rank.out_at + rank.out.size()));
      std::copy(rank.in.begin(), rank.in.end(),
                rank.out.begin() + static_cast<ptrdiff_t>(rank.in_at));
      rank.in.clear();
    }
  }
  RunAll(world, seed);
  // Every node narrows what it has, and then a sum for each message that it gets.
  const int64_t off_max = call.wire == Wire::kFull ? 0 : int64_t{2} * layout.nodes() * kNarrowUnit;
  for (uint32_t i = 0; i < size; ++i) {
    const World::Rank& rank = world.ranks[i];
    EXPECT_EQ(rank.phase, world.Peer(rank, 0).phase) << "S1: rank " << i;
    const std::vector<int64_t> want = Want(call, size, layout.RankAt(i));
    for (uint64_t k = 0; k < want.size(); ++k) {
      ASSERT_LE(std::abs(rank.out[rank.out_at + k] - want[k]), off_max)
          << "rank " << layout.RankAt(i) << ", element " << k;
      if (call.kind == OpKind::kAllReduce) {
        ASSERT_EQ(rank.out[k], world.ranks[0].out[k])
            << "rank " << layout.RankAt(i) << ", element " << k;
      }
    }
  }
}

void CheckOne(const Layout& layout, uint64_t slot_bytes, uint32_t carriers, const Call& call,
              uint64_t seed) {
  if (call.kind == OpKind::kBarrier && call.count != 0) {
    return;  // it has no data
  }
  RunOnce(layout, slot_bytes, carriers, call, false, seed);
  if (IsReduction(call.kind) && call.op == ReduceOp::kAvg) {
    Call half = call;
    half.dtype = DType::kFloat16;
    RunOnce(layout, slot_bytes, carriers, half, seed % 3 == 0 && call.kind != OpKind::kReduce,
            seed);
  }
  if (IsReduction(call.kind) && layout.nodes() > 1) {
    Call narrow = call;
    narrow.wire = Wire::kBFloat16;
    RunOnce(layout, slot_bytes, carriers, narrow, seed % 3 == 0 && call.kind != OpKind::kReduce,
            seed);
  }
  const bool all_put_out = call.kind == OpKind::kAllReduce || call.kind == OpKind::kAllGather ||
                           call.kind == OpKind::kReduceScatter || call.kind == OpKind::kAllToAll;
  const bool has_own_place = call.parts != nullptr && call.kind != OpKind::kAllToAllV;
  if ((all_put_out || has_own_place) && seed % 2 == 0) {
    RunOnce(layout, slot_bytes, carriers, call, true, seed);
  }
}

}  // namespace muster
