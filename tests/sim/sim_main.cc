// muster-sim: one run of the simulator, for people: a seed that failed, or a speed; and a campaign
// of many.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "proto/base/text.h"
#include "tests/sim/sim.h"

namespace {

int Usage(const char* what) {
  std::fprintf(stderr,
               "muster-sim: %s\n"
               "usage: muster-sim [--seed S] [--agents N] [--virtual-seconds T] [--faults 0|1] "
               "[--trace 0|1] [--seeds COUNT]\n",
               what);
  return 2;
}

// As many seeds from the first one on; only what fails is shown, in a line that repeats it.
int Campaign(muster::sim::Options options, uint64_t seeds) {
  uint64_t failed = 0;
  for (uint64_t i = 0; i < seeds; ++i, ++options.seed) {
    const muster::sim::Result result = muster::sim::Run(options);
    if (!result.status.ok()) {
      ++failed;
      std::printf("%s\nFAILED %s\n", muster::sim::CommandLine(options).c_str(),
                  std::string(result.status.message()).c_str());
    }
  }
  std::printf("%llu passed, %llu failed\n", static_cast<unsigned long long>(seeds - failed),
              static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  muster::sim::Options options;
  uint64_t seeds = 0;
  for (int i = 1; i < argc; i += 2) {
    char* end = nullptr;
    if (i + 1 >= argc) {
      return Usage("every option has a value");
    }
    const unsigned long long value = std::strtoull(argv[i + 1], &end, 10);
    if (*end != '\0' || end == argv[i + 1]) {
      return Usage("want a number");
    }
    if (std::strcmp(argv[i], "--seed") == 0) {
      options.seed = value;
    } else if (std::strcmp(argv[i], "--agents") == 0 && value >= 1 && value <= 16384) {
      options.agents = static_cast<uint32_t>(value);
    } else if (std::strcmp(argv[i], "--virtual-seconds") == 0 && value >= 2 && value <= 100000) {
      options.run = absl::Seconds(static_cast<int64_t>(value));
    } else if (std::strcmp(argv[i], "--faults") == 0 && value <= 1) {
      options.faults = value == 1;
    } else if (std::strcmp(argv[i], "--seeds") == 0 && value >= 1) {
      seeds = value;
    } else if (std::strcmp(argv[i], "--trace") == 0 && value <= 1) {
      if (value == 1) {
        options.trace = [](const std::string& line) { std::printf("%s\n", line.c_str()); };
      }
    } else {
      return Usage("want --seed, --agents 1..16384, --virtual-seconds 2..100000, --faults 0|1");
    }
  }
  if (seeds > 0) {
    return Campaign(options, seeds);
  }
  std::printf("%s\n", muster::sim::CommandLine(options).c_str());
  const auto start = std::chrono::steady_clock::now();
  const muster::sim::Result result = muster::sim::Run(options);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("events %llu in %.2f s: %.0f events/s\n",
              static_cast<unsigned long long>(result.events), took.count(),
              static_cast<double>(result.events) / took.count());
  std::printf("virtual %s, faults %u, racks %u, masters %u, rounds %u, exit code %d %s\n",
              muster::ShortDuration(result.ended).c_str(), result.faults, result.racks,
              result.taken_over + 1, result.rounds, result.report.exit_code,
              result.report.headline.c_str());
  std::printf("digest %016llx\n", static_cast<unsigned long long>(result.digest));
  if (!result.status.ok()) {
    std::printf("FAILED %s\n", std::string(result.status.message()).c_str());
    return 1;
  }
  return 0;
}
