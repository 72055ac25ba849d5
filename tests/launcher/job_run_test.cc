#include "launcher/job_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"
#include "launcher/options.h"
#include "launcher/resolve.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

JobSpec Spec(absl::string_view line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  auto command = ParseCommandLine(words, {});
  EXPECT_TRUE(command.ok()) << command.status();
  EXPECT_TRUE(ResolveHosts(command->spec, [](const std::string&) {
                return absl::NotFoundError("no file");
              }).ok());
  return std::move(command->spec);
}

TEST(ConfigOf, NodesOfThisMachineHaveNamesForSentences) {
  EXPECT_THAT(ConfigOf(Spec("--standalone --nnodes 2 p")).expected, ElementsAre("node0", "node1"));
  EXPECT_THAT(ConfigOf(Spec("--hosts a,b p")).expected, ElementsAre("a", "b"));
}

TEST(ManyWorkers, OneWorkerOnOneHostIsNotMany) {
  EXPECT_FALSE(ManyWorkers(Spec("--hosts a p")));
  EXPECT_TRUE(ManyWorkers(Spec("--hosts a -n 2 --oversubscribe p")));
  EXPECT_TRUE(ManyWorkers(Spec("--hosts a --nproc-per-node auto p")));
  EXPECT_TRUE(ManyWorkers(Spec("--hosts a,b p")));
  EXPECT_TRUE(ManyWorkers(Spec("--standalone --nnodes 2 p")));
}

}  // namespace
}  // namespace muster
