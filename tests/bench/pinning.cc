// A fixed amount of work, shared out over the processes of a job and the threads of each, as a
// program with OpenMP does it: OMP_NUM_THREADS, else one for each CPU that it may use.
//   pinning compute|memory UNITS
// compute: a chain of multiplications in registers. memory: a triad over arrays that no cache
// holds.
#include <sched.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace {

// Of the job: launch's or mpirun's word.
uint64_t WorldSize() {
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const char* text = std::getenv(name); text != nullptr) {
      return std::strtoull(text, nullptr, 10);
    }
  }
  return 1;
}

uint64_t Threads() {
  if (const char* text = std::getenv("OMP_NUM_THREADS"); text != nullptr) {
    return std::strtoull(text, nullptr, 10);
  }
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  return static_cast<uint64_t>(CPU_COUNT(&allowed));
}

double Compute(uint64_t units) {
  constexpr uint64_t kOfUnit = 1'000'000;
  auto x = static_cast<double>(units);  // unknown to the compiler, which finds where the chain ends
  for (uint64_t i = 0; i < units * kOfUnit; ++i) {
    x = x * 0.999999 + 1e-6;
  }
  return x;
}

// Arrays are touched first by the thread that uses them, so that their memory is near it.
double Memory(uint64_t units) {
  constexpr size_t kDoubles = size_t{1} << 20;  // 8 MiB an array
  std::vector<double> a(kDoubles, 0);
  const std::vector<double> b(kDoubles, 1);
  const std::vector<double> c(kDoubles, 2);
  for (uint64_t unit = 0; unit < units; ++unit) {
    for (size_t i = 0; i < kDoubles; ++i) {
      a[i] = b[i] + static_cast<double>(unit) * c[i];
    }
  }
  return a[kDoubles / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const bool memory = argc == 3 && std::strcmp(argv[1], "memory") == 0;
  if (argc != 3 || (!memory && std::strcmp(argv[1], "compute") != 0)) {
    std::fprintf(stderr, "usage: pinning compute|memory UNITS\n");
    return 2;
  }
  const uint64_t threads = Threads();
  const uint64_t parts = threads * WorldSize();
  const uint64_t units = (std::strtoull(argv[2], nullptr, 10) + parts - 1) / parts;
  std::vector<double> results(threads);
  std::vector<std::thread> pool;
  for (uint64_t i = 0; i < threads; ++i) {
    pool.emplace_back(
        [&results, i, units, memory] { results[i] = memory ? Memory(units) : Compute(units); });
  }
  volatile double sum = 0;  // else a compiler may leave the work out
  for (uint64_t i = 0; i < threads; ++i) {
    pool[i].join();
    sum = sum + results[i];
  }
  return 0;
}
