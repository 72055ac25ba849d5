// Data-parallel training in fifty lines: each rank has its own part of the data, gradients are
// averaged.
//   launch -n 4 allreduce_sgd
// The loss that rank 0 prints has the same bits run after run, and the last digits depend on the
// number of ranks alone.
#include <muster/communicator.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int kFeatures = 8;
constexpr int kSamples = 4096;  // of all ranks together
constexpr int kSteps = 50;

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

}  // namespace

int main() {
  muster::StatusOr<muster::Communicator> comm = muster::Communicator::FromEnvironment();
  Check(comm.status());
  std::array<double, kFeatures + 1> weights{};
  Check(comm->Broadcast(weights.data(), kFeatures + 1));
  for (int step = 1; step <= kSteps; ++step) {
    std::array<double, kFeatures + 2> sums{};  // the gradient, then the loss
    for (int i = comm->rank(); i < kSamples; i += comm->size()) {
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
    Check(comm->AllReduce(sums.data(), kFeatures + 2));
    for (size_t j = 0; j <= kFeatures; ++j) {
      weights[j] -= sums[j] / kSamples;
    }
    if (comm->rank() == 0 && step % 10 == 0) {
      std::printf("step %d: loss %.17g\n", step, sums[kFeatures + 1] / kSamples);
    }
  }
  return 0;
}
