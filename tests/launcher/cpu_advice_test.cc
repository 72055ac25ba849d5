#include "launcher/cpu_advice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster {
namespace {

// After ten seconds: CPU time in seconds that was seen, of `cpu` in all.
UseRecord Node(const char* host, uint32_t workers, uint32_t cpus, double ran, double waited,
               double cpu = 0) {
  NodeUse use;
  use.workers = workers;
  use.cpus = cpus;
  use.lasted = absl::Seconds(10);
  use.ran = absl::Seconds(ran);
  use.waited = absl::Seconds(waited);
  use.cpu_time = absl::Seconds(cpu);
  return {host, use};
}

struct Case {
  const char* name;
  std::vector<UseRecord> uses;
  const char* want;
};

std::string CaseName(const testing::TestParamInfo<Case>& info) { return info.param.name; }

class AdviceTest : public testing::TestWithParam<Case> {};

TEST_P(AdviceTest, SaysOneSentence) { EXPECT_EQ(CpuAdvice(GetParam().uses), GetParam().want); }

INSTANTIATE_TEST_SUITE_P(
    Uses, AdviceTest,
    testing::Values(
        Case{"nobody_said", {}, "no node has said what its workers used"},
        Case{"no_schedstat",
             {Node("a", 4, 4, 0, 0, 40)},
             "the kernel does not say how long the workers waited for a CPU (no "
             "/proc/PID/task/TID/schedstat, or they never ran)"},
        Case{"threads_unseen",
             {Node("a", 4, 4, 10, 9, 21)},
             "the workers' threads ended too soon to say how long they waited for a CPU: 10.0 s of "
             "21.0 s on a CPU were seen"},
        Case{"fine",
             {Node("a", 32, 16, 147.2, 12.8)},
             "32 workers on 16 CPUs waited 8 % of the time for a CPU: fine"},
        Case{"just_fine",
             {Node("a", 2, 2, 17.1, 2.9)},
             "2 workers on 2 CPUs waited 14 % of the time for a CPU: fine"},
        Case{"half_seen_is_enough",
             {Node("a", 1, 1, 10, 0, 20)},
             "1 worker on 1 CPU waited 0 % of the time for a CPU: fine"},
        Case{"idle",
             {Node("a", 4, 1, 0.5, 1)},
             "4 workers on 1 CPU waited 67 % of the time for a CPU: fine, they had little to do"},
        Case{"too_many_workers",
             {Node("a", 32, 16, 94.4, 65.6)},
             "32 workers on 16 CPUs waited 41 % of the time for a CPU: try --nproc-per-node 16"},
        Case{"too_many_threads",
             {Node("a", 4, 16, 160, 240)},
             "4 workers on 16 CPUs waited 60 % of the time for a CPU: their threads wanted 40 CPUs "
             "at a time, try OMP_NUM_THREADS=4"},
        Case{"others_are_there",
             {Node("a", 4, 16, 40, 20)},
             "4 workers on 16 CPUs waited 33 % of the time for a CPU: there are CPUs enough for "
             "them, so other programs ran there, or many threads share few of the CPUs: look with "
             "--report-bindings, try --bind-to none"},
        Case{"the_worst_of_several",
             {Node("a", 4, 8, 40, 1), Node("b", 16, 8, 80, 80), Node("c", 16, 8, 80, 70)},
             "b, the worst of 3 nodes: 16 workers on 8 CPUs waited 50 % of the time for a CPU: try "
             "--nproc-per-node 8"},
        Case{"one_that_was_not_seen_is_not_the_worst",
             {Node("a", 4, 8, 40, 1), Node("b", 4, 8, 10, 80, 40)},
             "a, the worst of 2 nodes: 4 workers on 8 CPUs waited 2 % of the time for a CPU: "
             "fine"}),
    CaseName);

}  // namespace
}  // namespace muster
