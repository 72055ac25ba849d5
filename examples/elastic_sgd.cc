// allreduce_sgd.cc, for a job that loses ranks and goes on:
//   launch -n 4 --restart=one --max-restarts 10 elastic_sgd
// Kill any of its processes, at any time: another one takes its place, and the loss that rank 0
// prints has the same bits as if nothing had happened. A line may come twice, as rank 0 may have
// died before or after it had printed it.
#include <muster/communicator.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace {

constexpr int kFeatures = 8;
constexpr int kSamples = 4096;   // of all ranks together
constexpr double kRate = 0.001;  // it learns on for a hundred thousand steps

using Weights = std::array<double, kFeatures + 1>;

// All that must not be lost with a rank.
struct State {
  int64_t step = 0;
  double loss = 0;
  Weights weights{};
};

struct Model {
  State now;
  State before;  // the last step: not all may have made it
};

void Check(const muster::Status& status) {
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(1);
  }
}

// Sample i's feature j, in -1..1, the same wherever it is asked for.
double Feature(int i, int j) {
  uint32_t x = static_cast<uint32_t>(i * kFeatures + j) * 2654435761u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return x / 2147483648.0 - 1;
}

double Target(int i) {
  double y = 0.5;
  for (int j = 0; j < kFeatures; ++j) {
    y += (j + 1) * Feature(i, j);
  }
  return y;
}

void Print(const State& state) {
  if (state.step > 0 && state.step % 10 == 0) {
    std::printf("step %ld: loss %.17g\n", static_cast<long>(state.step), state.loss);
    std::fflush(stdout);  // a line that is said is out, whatever happens next
  }
}

muster::Status Step(muster::Communicator& comm, Model& model) {
  std::array<double, kFeatures + 2> sums{};  // the gradient, then the loss
  const Weights& weights = model.now.weights;
  for (int i = comm.rank(); i < kSamples; i += comm.size()) {
    double error = weights[kFeatures] - Target(i);
    for (int j = 0; j < kFeatures; ++j) {
      error += weights[static_cast<size_t>(j)] * Feature(i, j);
    }
    for (int j = 0; j < kFeatures; ++j) {
      sums[static_cast<size_t>(j)] += error * Feature(i, j);
    }
    sums[kFeatures] += error;
    sums[kFeatures + 1] += error * error;
  }
  if (muster::Status status = comm.AllReduce(sums.data(), kFeatures + 2); !status.ok()) {
    return status;
  }
  model.before = model.now;
  for (size_t j = 0; j <= kFeatures; ++j) {
    model.now.weights[j] -= kRate * sums[j] / kSamples;
  }
  model.now.loss = sums[kFeatures + 1] / kSamples;
  ++model.now.step;
  return comm.Commit(model.now.step);
}

// Until it is done, or a rank dies.
muster::Status Train(muster::Communicator& comm, int64_t steps, Model& model) {
  // A survivor may be one step ahead of another: all go on from the step that all have.
  const int64_t agreed = comm.agreed().committed;
  if (!comm.is_replacement() && agreed >= 0 && model.now.step > agreed) {
    model.now = model.before;
  }
  muster::Status status =
      comm.BroadcastState({muster::StateOf(&model.now.step, 1), muster::StateOf(&model.now.loss, 1),
                           muster::StateOf(model.now.weights.data(), kFeatures + 1)});
  if (!status.ok()) {
    return status;
  }
  Check(comm.Commit(model.now.step));
  const bool speaks = comm.rank() == 0;
  if (speaks && comm.is_replacement()) {
    Print(model.now);  // who was here before may not have come to it
  }
  while (model.now.step < steps) {
    if (status = Step(comm, model); !status.ok()) {
      return status;
    }
    if (speaks) {
      Print(model.now);
    }
  }
  return comm.Barrier();  // nobody leaves whom another one needs for the last step
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 50;
  muster::StatusOr<muster::Communicator> comm = muster::Communicator::FromEnvironment();
  Check(comm.status());
  Model model;
  for (;;) {
    const muster::Status done = Train(*comm, steps, model);
    if (done.code() != muster::StatusCode::kUnavailable) {
      Check(done);
      return 0;
    }
    muster::StatusOr<muster::Communicator> next = comm->Reform();
    Check(next.status());
    *comm = *std::move(next);
  }
}
