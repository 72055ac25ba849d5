// muster-perf: how long libmuster's collectives take: launch -n P --no-prefix muster-perf [options]
#include "tests/bench/perf.h"

#include <muster/communicator.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace {

void Check(const muster::Status& status) {
  if (!status.ok()) {
    std::fprintf(stderr, "muster-perf: %s\n", status.ToString().c_str());
    std::exit(1);
  }
}

class Comm {
 public:
  explicit Comm(muster::Communicator comm) : comm_(std::move(comm)) {}
  int rank() const { return comm_.rank(); }
  int size() const { return comm_.size(); }
  void Barrier() { Check(comm_.Barrier()); }
  void Sum(float* data, size_t count) { Check(comm_.AllReduce(data, static_cast<int64_t>(count))); }
  void Max(double* data, size_t count) {
    Check(comm_.AllReduce(data, static_cast<int64_t>(count), muster::ReduceOp::kMax));
  }
  void Broadcast(float* data, size_t count) {
    Check(comm_.Broadcast(data, static_cast<int64_t>(count)));
  }
  void AllGather(const float* in, float* out, size_t count) {
    Check(comm_.AllGather(in, out, static_cast<int64_t>(count)));
  }
  void AllToAll(const float* in, float* out, size_t count) {
    Check(comm_.AllToAll(in, out, static_cast<int64_t>(count), muster::DType::kFloat32));
  }
  void Send(const float* data, size_t count, int to) {
    Check(comm_.Send(data, static_cast<int64_t>(count), muster::DType::kFloat32, to));
  }
  void Recv(float* data, size_t count, int from) {
    Check(comm_.Recv(data, static_cast<int64_t>(count), muster::DType::kFloat32, from));
  }

 private:
  muster::Communicator comm_;
};

}  // namespace

int main(int argc, char** argv) {
  const bench::Settings settings = bench::Read(argc, argv);
  const double begin = bench::Now();
  muster::StatusOr<muster::Communicator> made = muster::Communicator::FromEnvironment();
  Check(made.status());
  Comm comm(*std::move(made));
  bench::Run(comm, settings, bench::Now() - begin);
  return 0;
}
