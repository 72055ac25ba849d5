#include "tests/worker_sdk/api/fake_communicator.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/communicator.h"
#include "worker_sdk/base/pending.h"

namespace muster {

FakeCommunicator& TheFake() {
  static FakeCommunicator fake;
  return fake;
}

namespace {

Status Noted(const std::string& call) {
  TheFake().before();
  TheFake().calls += call + ";";
  return TheFake().answer;
}
std::string Of(int64_t count, DType dtype) { return std::to_string(count) + " " + Name(dtype); }
std::string From(int root) { return " root " + std::to_string(root); }

// Of three ranks: "1+2+3".
std::string All(const int64_t* counts) {
  return std::to_string(counts[0]) + "+" + std::to_string(counts[1]) + "+" +
         std::to_string(counts[2]);
}

class FakePending : public Pending {
 public:
  Status Wait() override {
    TheFake().calls += "wait;";
    return TheFake().answer;
  }
  bool Test() override { return TheFake().ended; }
  int Source() const override { return TheFake().source; }
};
Work Started(const Status& status) {
  TheFake().calls += "started;";
  return TheFake().fails_at_once ? Work(status) : Work(std::make_shared<FakePending>());
}

}  // namespace

class Communicator::Impl {
 public:
  Impl() { ++TheFake().alive; }
  ~Impl() { --TheFake().alive; }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
};

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
void Communicator::Abandon() { TheFake().calls += "abandon;"; }
Communicator::~Communicator() = default;

StatusOr<Communicator> Communicator::FromEnvironment() {
  TheFake().before();
  if (!TheFake().answer.ok()) return TheFake().answer;
  return Communicator(std::make_unique<Impl>());
}

StatusOr<Communicator> Communicator::FromStore(Store& store, int rank, int size,
                                               std::optional<std::chrono::nanoseconds> timeout) {
  const std::string mine = "key of " + std::to_string(rank);
  Status status = store.Set(mine, std::string("\0value", 6));
  if (!status.ok()) return status;
  StatusOr<std::string> value = store.Get("key of " + std::to_string(size));
  if (!value.ok()) return value.status();
  TheFake().calls += "got " + *value + ";";
  if (timeout.has_value()) TheFake().calls += std::to_string(timeout->count()) + " ns;";
  return Communicator(std::make_unique<Impl>());
}

StatusOr<std::optional<Communicator>> Communicator::Split(int64_t color, int64_t key) {
  const Status status = Noted("split " + std::to_string(color) + " " + std::to_string(key));
  if (!status.ok()) return status;
  std::optional<Communicator> out;
  if (color >= 0) out = Communicator(std::make_unique<Impl>());
  return out;
}

StatusOr<Communicator> Communicator::Reform() {
  const Status status = Noted("reform");
  if (!status.ok()) return status;
  return Communicator(std::make_unique<Impl>());
}
const Agreed& Communicator::agreed() const {
  static const Agreed agreed = {5, 6, 7, 8, 2};
  return agreed;
}
bool Communicator::is_replacement() const { return true; }
Status Communicator::Commit(int64_t step) { return Noted("commit " + std::to_string(step)); }
Status Communicator::BroadcastState(const std::vector<StateBuffer>& state) {
  std::string all = "broadcast_state";
  for (const StateBuffer& one : state) {
    all += " " + Of(one.count, one.dtype);
  }
  return Noted(all);
}
uint64_t Communicator::last_call() const { return 9; }

int Communicator::rank() const { return 1; }
int Communicator::size() const { return 3; }
int Communicator::local_rank() const { return 1; }
int Communicator::local_size() const { return 3; }
int Communicator::node_rank() const { return 0; }
int Communicator::nodes() const { return 1; }
uint64_t Communicator::round() const { return 7; }
void Communicator::SetTimeout(std::chrono::nanoseconds timeout) { TheFake().timeout = timeout; }
void Communicator::SetWire(Wire wire) { TheFake().wire = wire; }
Wire Communicator::wire() const { return TheFake().wire; }
Counters Communicator::counters() const {
  return {5, 600, std::chrono::nanoseconds(70), std::chrono::nanoseconds(8)};
}
std::chrono::nanoseconds Communicator::WaitedFor(int rank) const {
  return std::chrono::nanoseconds(rank == 2 ? 9 : 0);
}

Status Communicator::Barrier() { return Noted("barrier"); }
Status Communicator::AllReduce(const void*, void*, int64_t count, DType dtype, ReduceOp op) {
  return Noted("all_reduce " + Of(count, dtype) + " " + Name(op));
}
Status Communicator::Reduce(const void*, void*, int64_t count, DType dtype, ReduceOp op, int root) {
  return Noted("reduce " + Of(count, dtype) + " " + Name(op) + From(root));
}
Status Communicator::Broadcast(void*, int64_t count, DType dtype, int root) {
  return Noted("broadcast " + Of(count, dtype) + From(root));
}
Status Communicator::AllGather(const void*, void*, int64_t count, DType dtype) {
  return Noted("all_gather " + Of(count, dtype));
}
Status Communicator::Gather(const void*, void*, int64_t count, DType dtype, int root) {
  return Noted("gather " + Of(count, dtype) + From(root));
}
Status Communicator::Scatter(const void*, void*, int64_t count, DType dtype, int root) {
  return Noted("scatter " + Of(count, dtype) + From(root));
}
Status Communicator::ReduceScatter(const void*, void*, int64_t count, DType dtype, ReduceOp op) {
  return Noted("reduce_scatter " + Of(count, dtype) + " " + Name(op));
}
Status Communicator::AllToAll(const void*, void*, int64_t count, DType dtype) {
  return Noted("all_to_all " + Of(count, dtype));
}
Status Communicator::AllGatherV(const void*, void*, const int64_t* counts, DType dtype) {
  return Noted("all_gather_v " + All(counts) + " " + Name(dtype));
}
Status Communicator::GatherV(const void*, void*, const int64_t* counts, DType dtype, int root) {
  return Noted("gather_v " + All(counts) + " " + Name(dtype) + From(root));
}
Status Communicator::ScatterV(const void*, void*, const int64_t* counts, DType dtype, int root) {
  return Noted("scatter_v " + All(counts) + " " + Name(dtype) + From(root));
}
Status Communicator::ReduceScatterV(const void*, void*, const int64_t* counts, DType dtype,
                                    ReduceOp op) {
  return Noted("reduce_scatter_v " + All(counts) + " " + Name(dtype) + " " + Name(op));
}
Status Communicator::AllToAllV(const void*, const int64_t* send_counts, void*,
                               const int64_t* recv_counts, DType dtype) {
  return Noted("all_to_all_v to " + All(send_counts) + " from " + All(recv_counts) + " " +
               Name(dtype));
}
Status Communicator::Send(const void*, int64_t count, DType dtype, int to, int tag) {
  return Noted("send " + Of(count, dtype) + " to " + std::to_string(to) + " tag " +
               std::to_string(tag));
}
Status Communicator::Recv(void*, int64_t count, DType dtype, int from, int tag) {
  return Noted("recv " + Of(count, dtype) + " from " + std::to_string(from) + " tag " +
               std::to_string(tag));
}
Work Communicator::SendAsync(const void* data, int64_t count, DType dtype, int to, int tag) {
  return Started(Send(data, count, dtype, to, tag));
}
Work Communicator::RecvAsync(void* data, int64_t count, DType dtype, int from, int tag) {
  return Started(Recv(data, count, dtype, from, tag));
}

Work Communicator::BarrierAsync() { return Started(Barrier()); }
Work Communicator::AllReduceAsync(const void* in, void* out, int64_t count, DType dtype,
                                  ReduceOp op) {
  return Started(AllReduce(in, out, count, dtype, op));
}
Work Communicator::ReduceAsync(const void* in, void* out, int64_t count, DType dtype, ReduceOp op,
                               int root) {
  return Started(Reduce(in, out, count, dtype, op, root));
}
Work Communicator::BroadcastAsync(void* data, int64_t count, DType dtype, int root) {
  return Started(Broadcast(data, count, dtype, root));
}
Work Communicator::AllGatherAsync(const void* in, void* out, int64_t count, DType dtype) {
  return Started(AllGather(in, out, count, dtype));
}
Work Communicator::GatherAsync(const void* in, void* out, int64_t count, DType dtype, int root) {
  return Started(Gather(in, out, count, dtype, root));
}
Work Communicator::ScatterAsync(const void* in, void* out, int64_t count, DType dtype, int root) {
  return Started(Scatter(in, out, count, dtype, root));
}
Work Communicator::ReduceScatterAsync(const void* in, void* out, int64_t count, DType dtype,
                                      ReduceOp op) {
  return Started(ReduceScatter(in, out, count, dtype, op));
}
Work Communicator::AllToAllAsync(const void* in, void* out, int64_t count, DType dtype) {
  return Started(AllToAll(in, out, count, dtype));
}
Work Communicator::AllGatherVAsync(const void* in, void* out, const int64_t* counts, DType dtype) {
  return Started(AllGatherV(in, out, counts, dtype));
}
Work Communicator::GatherVAsync(const void* in, void* out, const int64_t* counts, DType dtype,
                                int root) {
  return Started(GatherV(in, out, counts, dtype, root));
}
Work Communicator::ScatterVAsync(const void* in, void* out, const int64_t* counts, DType dtype,
                                 int root) {
  return Started(ScatterV(in, out, counts, dtype, root));
}
Work Communicator::ReduceScatterVAsync(const void* in, void* out, const int64_t* counts,
                                       DType dtype, ReduceOp op) {
  return Started(ReduceScatterV(in, out, counts, dtype, op));
}
Work Communicator::AllToAllVAsync(const void* in, const int64_t* send_counts, void* out,
                                  const int64_t* recv_counts, DType dtype) {
  return Started(AllToAllV(in, send_counts, out, recv_counts, dtype));
}

}  // namespace muster
