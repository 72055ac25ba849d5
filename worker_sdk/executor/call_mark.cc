#include "worker_sdk/executor/call_mark.h"

#include <bit>
#include <cstdio>
#include <numeric>

#include "proto/base/rng.h"

namespace muster {
namespace {

bool HasRoot(OpKind kind) {
  return kind == OpKind::kReduce || kind == OpKind::kBroadcast || kind == OpKind::kGather ||
         kind == OpKind::kScatter || kind == OpKind::kGatherV || kind == OpKind::kScatterV;
}

bool HasParts(OpKind kind) { return kind >= OpKind::kAllGatherV && kind <= OpKind::kAllToAllV; }

// Of `CallMark::root`; the digest of the parts has the rest.
uint32_t RootBits(OpKind kind, uint32_t world) {
  return HasRoot(kind) ? static_cast<uint32_t>(std::bit_width(world - 1)) : 0;
}

uint64_t Parts(const Call& call, uint32_t world) {
  return call.kind == OpKind::kAllToAllV ? uint64_t{world} * world : world;
}

uint32_t DigestOf(const uint64_t* parts, uint64_t number) {
  uint64_t out = number;
  for (uint64_t i = 0; i < number; ++i) {
    out = SplitMix64(out ^ parts[i]).Next();
  }
  return static_cast<uint32_t>(out);
}

std::string Hex(uint32_t digest) {
  char text[16];
  std::snprintf(text, sizeof(text), "%x", digest);
  return text;
}

}  // namespace

CallMark MarkOf(const Call& call, uint32_t world) {
  CallMark out = {static_cast<uint8_t>(call.kind),
                  static_cast<uint8_t>(call.dtype),
                  static_cast<uint8_t>(call.op),
                  static_cast<uint8_t>(call.wire),
                  call.root,
                  call.count};
  if (call.parts != nullptr) {
    const uint64_t number = Parts(call, world);
    out.count = std::accumulate(call.parts, call.parts + number, uint64_t{0});
    out.root |= DigestOf(call.parts, number) << RootBits(call.kind, world);
  }
  return out;
}

CallMark MarkOfRows(DType dtype) {
  return {static_cast<uint8_t>(OpKind::kAllToAllV), static_cast<uint8_t>(dtype)};
}

std::string Describe(const CallMark& mark, uint32_t world) {
  const auto kind = static_cast<OpKind>(mark.kind);
  std::string out = Name(kind);
  if (kind == OpKind::kBarrier || kind == OpKind::kSplit || mark.dtype >= kDTypes ||
      mark.op >= kReduceOps) {
    return out;
  }
  const char* const dtype = Name(static_cast<DType>(mark.dtype));
  if (kind == OpKind::kAllToAllV) {  // each rank has counts of its own
    return out + "(" + dtype + ")";
  }
  uint32_t root = mark.root;
  out += "(" + std::to_string(mark.count) + " x " + dtype;
  if (HasParts(kind)) {
    const uint32_t bits = RootBits(kind, world);
    out += " in parts " + Hex(root >> bits);
    root &= (uint32_t{1} << bits) - 1;
  }
  if (IsReduction(kind)) {
    out += std::string(", ") + Name(static_cast<ReduceOp>(mark.op));
  }
  if (HasRoot(kind)) {
    out += ", root " + std::to_string(root);
  }
  if (mark.wire != static_cast<uint8_t>(Wire::kFull)) {
    out += std::string(", wire ") + Name(static_cast<Wire>(mark.wire));
  }
  return out + ")";
}

uint64_t CountOfAll(const Call& call, uint32_t world) {
  return call.parts == nullptr ? call.count * world
                               : std::accumulate(call.parts, call.parts + world, uint64_t{0});
}

uint64_t CountOf(const Call& call, uint32_t rank, uint32_t world) {
  if (call.parts == nullptr) {
    return call.count;
  }
  if (call.kind != OpKind::kAllToAllV) {
    return call.parts[rank];
  }
  const uint64_t* const row = call.parts + uint64_t{rank} * world;
  return std::accumulate(row, row + world, uint64_t{0});
}

}  // namespace muster
