#include "launcher/named_ranks.h"

#include <gtest/gtest.h>

#include "launcher/resolve.h"
#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

std::string Says(const std::string& line) {
  JobSpec spec = Ok(Words(line));
  return std::string(ResolveHosts(spec, NoFile, {}).message());
}

TEST(NamedRanks, AreThoseOfTheJob) {
  EXPECT_EQ(Says("-n 2 --show 7 p"), "--show 7: there is no rank 7, the job has 2 workers");
  EXPECT_EQ(Says("-n 2 --local-ranks-filter 0,7 p"),
            "--local-ranks-filter 0,7: there is no local rank 7, a node has 2 workers");
  EXPECT_EQ(Says("--hosts a:2,b:1 --log-dir l -r 1:3,2:1 p"),
            "-r 1:3,2:1: there is no local rank 2, a node has 2 workers");
  EXPECT_EQ(Says("-n 1 --log-dir l -t 1:3 p"),
            "-t 1:3: there is no local rank 1, a node has 1 worker");
  EXPECT_EQ(Says("--nnodes 2 --rdzv-endpoint a:2000 --nproc-per-node 2 --local-ranks-filter 2 p"),
            "--local-ranks-filter 2: there is no local rank 2, a node has 2 workers");
}

TEST(NamedRanks, ThatAreThereOrFoundOutLaterAreFine) {
  for (const char* line :
       {"-n 2 --show 1 --local-ranks-filter 1 --log-dir l -r 1:3 -t 3 p",
        "--hosts a:1,b:3 --local-ranks-filter 2 p", "--nproc-per-node gpu --local-ranks-filter 7 p",
        "--hosts a,b --nproc-per-node cpu --local-ranks-filter 7 p"}) {
    EXPECT_EQ(Says(line), "") << line;
  }
}

}  // namespace
}  // namespace muster
