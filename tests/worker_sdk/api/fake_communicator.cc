#include "tests/worker_sdk/api/fake_communicator.h"

#include <memory>
#include <string>
#include <utility>

#include "muster/communicator.h"

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
Communicator::~Communicator() = default;

StatusOr<Communicator> Communicator::FromEnvironment() {
  TheFake().before();
  if (!TheFake().answer.ok()) return TheFake().answer;
  return Communicator(std::make_unique<Impl>());
}

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

}  // namespace muster
