#include "agent/probe/command_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/probe/program_probe.h"
#include "proto/base/clock.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

absl::Time Soon() { return BootNow() + absl::Seconds(60); }

TEST(CommandOutput, WhatItPrints) {
  EXPECT_EQ(CommandOutput({"sh", "-c", "echo a b; echo no >&2; cat"}, Soon()).value(), "a b\n");
}

TEST(CommandOutput, WhatGoesWrong) {
  EXPECT_TRUE(absl::IsNotFound(CommandOutput({"muster-no-such"}, Soon()).status()));
  EXPECT_THAT(CommandOutput({"sh", "-c", "exit 3"}, Soon()).status().message(),
              HasSubstr("sh ended with status 3"));
  EXPECT_THAT(CommandOutput({"sh", "-c", "kill -9 $$"}, Soon()).status().message(),
              HasSubstr("sh was ended by signal 9"));
}

TEST(CommandOutput, OneThatHangsIsKilled) {
  EXPECT_TRUE(absl::IsDeadlineExceeded(CommandOutput({"sleep", "1000"}, BootNow()).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      CommandOutput({"sh", "-c", "exec >&-; exec sleep 1000"}, BootNow() + absl::Milliseconds(100))
          .status()));
}

TEST(CommandOutput, OneThatPrintsWithoutEndIsCutOff) {
  const absl::Status status = CommandOutput({"yes"}, Soon()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("yes: says more than 65536 bytes"));
}

TEST(CommandOutput, ALongAnswerIsWholeWhereOneIsAwaited) {
  const std::vector<std::string> argv = {"sh", "-c", "head -c 200000 /dev/zero"};
  EXPECT_EQ(CommandOutput(argv, Soon(), 200000).value().size(), 200000u);
  EXPECT_TRUE(absl::IsResourceExhausted(CommandOutput(argv, Soon(), 199999).status()));
}

TEST(GpuProcesses, LinesOfNvidiaSmi) {
  const auto found = ParseGpuProcesses(
      "NVIDIA H100 80GB HBM3, 4242, python3, 1024 MiB\n"
      "NVIDIA A100, 7, /opt/a, b, [N/A]\n"
      "No running processes found\n");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].gpu, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(found[0].pid, 4242u);
  EXPECT_EQ(found[0].memory, "1024 MiB");
  EXPECT_EQ(found[1].name, "/opt/a, b");
  EXPECT_EQ(found[1].memory, "[N/A]");
}

}  // namespace
}  // namespace muster
