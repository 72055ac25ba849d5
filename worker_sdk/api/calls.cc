#include "worker_sdk/api/calls.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "worker_sdk/api/arguments.h"
#include "worker_sdk/reduce/reduce.h"

namespace muster {
namespace {

int64_t SumOf(const int64_t* counts, int number) {
  return std::accumulate(counts, counts + number, int64_t{0});
}

int64_t BytesOf(int64_t count, DType dtype) { return count * static_cast<int64_t>(SizeOf(dtype)); }

uintptr_t AddressOf(const void* data) { return reinterpret_cast<uintptr_t>(data); }

}  // namespace

Collective Calls::Barrier() const { return Check({OpKind::kBarrier}, 0, 0, {}, {}); }

Collective Calls::AllReduce(const void* in, void* out, int64_t count, DType dtype,
                            ReduceOp op) const {
  return CheckReduction({OpKind::kAllReduce, dtype, op}, count, 0, {"in", in}, {"out", out});
}

Collective Calls::Reduce(const void* in, void* out, int64_t count, DType dtype, ReduceOp op,
                         int root) const {
  return CheckReduction({OpKind::kReduce, dtype, op}, count, root, {"in", in},
                        rank_ == root ? Buffer{"out", out} : Buffer{});
}

Collective Calls::Broadcast(void* data, int64_t count, DType dtype, int root) const {
  return Check({OpKind::kBroadcast, dtype}, count, root, {"data", data}, {"data", data});
}

Collective Calls::AllGather(const void* in, void* out, int64_t count, DType dtype) const {
  return Check({OpKind::kAllGather, dtype}, count, 0, {"in", in}, {"out", out, size_});
}

Collective Calls::Gather(const void* in, void* out, int64_t count, DType dtype, int root) const {
  return Check({OpKind::kGather, dtype}, count, root, {"in", in},
               rank_ == root ? Buffer{"out", out, size_} : Buffer{});
}

Collective Calls::Scatter(const void* in, void* out, int64_t count, DType dtype, int root) const {
  return Check({OpKind::kScatter, dtype}, count, root,
               rank_ == root ? Buffer{"in", in, size_} : Buffer{}, {"out", out});
}

Collective Calls::ReduceScatter(const void* in, void* out, int64_t count, DType dtype,
                                ReduceOp op) const {
  return CheckReduction({OpKind::kReduceScatter, dtype, op}, count, 0, {"in", in, size_},
                        {"out", out});
}

Collective Calls::AllToAll(const void* in, void* out, int64_t count, DType dtype) const {
  return Check({OpKind::kAllToAll, dtype}, count, 0, {"in", in, size_}, {"out", out, size_});
}

Collective Calls::AllGatherV(const void* in, void* out, const int64_t* counts, DType dtype) const {
  return CheckParts({OpKind::kAllGatherV, dtype}, counts, 0, {"in", in}, {"out", out});
}

Collective Calls::GatherV(const void* in, void* out, const int64_t* counts, DType dtype,
                          int root) const {
  return CheckParts({OpKind::kGatherV, dtype}, counts, root, {"in", in},
                    rank_ == root ? Buffer{"out", out} : Buffer{});
}

Collective Calls::ScatterV(const void* in, void* out, const int64_t* counts, DType dtype,
                           int root) const {
  return CheckParts({OpKind::kScatterV, dtype}, counts, root, {"out", out},
                    rank_ == root ? Buffer{"in", in} : Buffer{});
}

Collective Calls::ReduceScatterV(const void* in, void* out, const int64_t* counts, DType dtype,
                                 ReduceOp op) const {
  Call call = {OpKind::kReduceScatterV, dtype, op};
  if (Status wrong = WrongOfReduction(call); !wrong.ok()) {
    return {std::move(wrong), call};
  }
  call.wire = WireOf(call);
  return CheckParts(call, counts, 0, {"out", out}, {"in", in});
}

Collective Calls::AllToAllV(const void* in, const int64_t* send_counts, void* out,
                            const int64_t* recv_counts, DType dtype) const {
  const Call call = {OpKind::kAllToAllV, dtype};
  const char* const name = Name(call.kind);
  Status status = CheckCounts(name, "send_counts", send_counts, size_, dtype);
  if (status.ok()) {
    status = CheckCounts(name, "recv_counts", recv_counts, size_, dtype);
  }
  if (!status.ok()) {
    return {status, call};
  }
  const int64_t sends = SumOf(send_counts, size_);
  const int64_t receives = SumOf(recv_counts, size_);
  status = CheckBuffer(name, "in", in, sends, dtype);
  if (status.ok()) {
    status = CheckBuffer(name, "out", out, receives, dtype);
  }
  if (status.ok() && Overlap(in, BytesOf(sends, dtype), out, BytesOf(receives, dtype))) {
    status = {StatusCode::kInvalidArgument,
              std::string(name) + ": in and out overlap: want no common element"};
  }
  return {status,
          call,
          in,
          out,
          {send_counts, send_counts + size_},
          {recv_counts, recv_counts + size_}};
}

OneMessage Calls::Send(const void* data, int64_t count, DType dtype, int to, int tag) const {
  return CheckMessage("send", data, count, dtype, CheckRank("send", "to", to, size_), to, tag);
}

Status OfMessage(const OneMessage& it, uint32_t rank, Status status) {
  if (status.ok()) {
    return status;
  }
  const std::string whom =
      it.peer == static_cast<uint32_t>(kAnyRank) ? "any rank" : "rank " + std::to_string(it.peer);
  return {status.code(),
          std::string(it.sends ? "send(" : "recv(") + std::to_string(it.bytes / SizeOf(it.dtype)) +
              " x " + Name(it.dtype) + (it.sends ? " to " : " from ") + whom + ", tag " +
              std::to_string(it.tag) + ") on rank " + std::to_string(rank) + ": " +
              status.message(),
          status.peer()};
}

OneMessage Calls::Receive(void* data, int64_t count, DType dtype, int from, int tag) const {
  return CheckMessage("recv", data, count, dtype, CheckSource("recv", "from", from, size_), from,
                      tag);
}

OneMessage Calls::CheckMessage(const char* call, const void* data, int64_t count, DType dtype,
                               const Status& of_rank, int rank, int tag) {
  if (Status wrong = CheckCount(call, count, dtype, 1); !wrong.ok()) {
    return {std::move(wrong)};
  }
  if (Status wrong = CheckBuffer(call, "data", data, count, dtype); !wrong.ok()) {
    return {std::move(wrong)};
  }
  if (!of_rank.ok()) {
    return {of_rank};
  }
  if (Status wrong = CheckTag(call, tag); !wrong.ok()) {
    return {std::move(wrong)};
  }
  return {{},
          static_cast<uint32_t>(rank),
          static_cast<uint32_t>(tag),
          dtype,
          const_cast<void*>(data),
          static_cast<uint64_t>(count) * SizeOf(dtype),
          std::string_view(call) == "send"};
}

Collective Calls::CheckReduction(const Call& call, int64_t count, int root, const Buffer& in,
                                 const Buffer& out) const {
  if (Status wrong = WrongOfReduction(call); !wrong.ok()) {
    return {std::move(wrong), call};
  }
  Collective made = Check(call, count, root, in, out);
  made.call.wire = WireOf(call);
  return made;
}

// Why the operation is not for this type.
Status Calls::WrongOfReduction(const Call& call) {
  if (Status status = CheckOp(Name(call.kind), call.op); !status.ok()) {
    return status;
  }
  if (const Status status = muster::CheckReduction(call.dtype, call.op); !status.ok()) {
    return {status.code(), std::string(Name(call.kind)) + ": " + status.message()};
  }
  return {};
}

Wire Calls::WireOf(const Call& call) const {
  return CanBeNarrow(call.kind, call.dtype, call.op) ? wire_ : Wire::kFull;
}

Collective Calls::Check(const Call& call, int64_t count, int root, const Buffer& in,
                        const Buffer& out) const {
  Collective made = {WrongOf(call, count, root, in, out), call, in.data,
                     const_cast<void*>(out.data)};
  made.call.count = static_cast<uint64_t>(count);
  made.call.root = static_cast<uint32_t>(root);
  return made;
}

Status Calls::WrongOf(const Call& call, int64_t count, int root, const Buffer& in,
                      const Buffer& out) const {
  const char* const name = Name(call.kind);
  if (Status wrong = CheckCount(name, count, call.dtype, size_); !wrong.ok()) {
    return wrong;
  }
  if (Status wrong = CheckRank(name, "root", root, size_); !wrong.ok()) {
    return wrong;
  }
  for (const Buffer* buffer : {&in, &out}) {
    if (buffer->name == nullptr) {
      continue;
    }
    if (Status wrong = CheckBuffer(name, buffer->name, buffer->data, count, call.dtype);
        !wrong.ok()) {
      return wrong;
    }
  }
  return in.name != nullptr && out.name != nullptr ? CheckApart(call, count, in, out) : Status();
}

// A rank's part may be in its own place of the whole, too.
Status Calls::CheckApart(const Call& call, int64_t count, const Buffer& in,
                         const Buffer& out) const {
  const int64_t part = BytesOf(count, call.dtype);
  const auto own = static_cast<uintptr_t>(part) * static_cast<uintptr_t>(rank_);
  const bool in_place = in.data == out.data ||
                        (in.parts < out.parts && AddressOf(in.data) == AddressOf(out.data) + own) ||
                        (out.parts < in.parts && AddressOf(out.data) == AddressOf(in.data) + own);
  if (in_place || !Overlap(in.data, part * in.parts, out.data, part * out.parts)) {
    return {};
  }
  const bool gathers = in.parts < out.parts;
  const bool alike = in.parts == out.parts;
  const std::string place = "at element " + std::to_string(count * rank_) + " of ";
  return {StatusCode::kInvalidArgument, std::string(Name(call.kind)) +
                                            ": in and out overlap: want " +
                                            (alike     ? std::string("the same address")
                                             : gathers ? "in " + place + "out, its own place"
                                                       : "out " + place + "in, its own place") +
                                            ", or no common element"};
}

Collective Calls::CheckParts(Call call, const int64_t* counts, int root, const Buffer& own,
                             const Buffer& whole) const {
  const char* const name = Name(call.kind);
  Status status = CheckCounts(name, "counts", counts, size_, call.dtype);
  if (status.ok()) {
    status = CheckRank(name, "root", root, size_);
  }
  if (!status.ok()) {
    return {status, call};
  }
  const int64_t all = whole.name == nullptr ? 0 : SumOf(counts, size_);
  status = CheckBuffer(name, own.name, own.data, counts[rank_], call.dtype);
  if (status.ok() && whole.name != nullptr) {
    status = CheckBuffer(name, whole.name, whole.data, all, call.dtype);
  }
  const int64_t before = SumOf(counts, rank_);
  const bool in_place = AddressOf(own.data) ==
                        AddressOf(whole.data) + static_cast<uintptr_t>(BytesOf(before, call.dtype));
  if (status.ok() && !in_place &&
      Overlap(own.data, BytesOf(counts[rank_], call.dtype), whole.data, BytesOf(all, call.dtype))) {
    status = {StatusCode::kInvalidArgument, std::string(name) + ": in and out overlap: want " +
                                                own.name + " at element " + std::to_string(before) +
                                                " of " + whole.name +
                                                ", its own place, or no common element"};
  }
  call.count = static_cast<uint64_t>(*std::max_element(counts, counts + size_));
  call.root = static_cast<uint32_t>(root);
  const bool gathers = call.kind == OpKind::kAllGatherV || call.kind == OpKind::kGatherV;
  return {status,
          call,
          gathers ? own.data : whole.data,
          const_cast<void*>(gathers ? whole.data : own.data),
          {counts, counts + size_}};
}

}  // namespace muster
