// Where the shepherd's workers run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "agent/io/node_facts.h"
#include "tests/agent/io/shepherd_fixture.h"

namespace muster {
namespace {

TEST_F(ShepherdTest, AWorkerRunsOnItsCpus) {
  const CpuSet all = AffinityMask();
  SpawnBinding binding;
  binding.cpus.Add(all.Members().back());
  Start().SetProgram({"", {"/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status"}, {kPath}});
  TestPipe bound = MakePipe();
  TestPipe free = MakePipe();
  SpawnOn(0, bound, {}, binding);
  SpawnOn(1, free);
  bound.writer.Reset();
  free.writer.Reset();
  EXPECT_TRUE(RunUntil([this] { return ends_.size() == 2; }));
  EXPECT_EQ(ReadToEnd(bound.reader.get()),
            absl::StrCat("Cpus_allowed_list:\t", binding.cpus.Text(), "\n"));
  EXPECT_EQ(ReadToEnd(free.reader.get()), absl::StrCat("Cpus_allowed_list:\t", all.Text(), "\n"));
}

TEST_F(ShepherdTest, CpusThatAreNotThereStopOnlyAWorkerThatMustHaveThem) {
  SpawnBinding binding;
  binding.cpus.Add(4000);
  Start().SetProgram({"", {"/bin/true"}, {kPath}});
  TestPipe output = MakePipe();
  SpawnOn(0, output, {}, binding);
  binding.must = true;
  SpawnOn(1, output, {}, binding);
  EXPECT_TRUE(RunUntil([this] { return ends_.size() + failures_.size() == 2; }));
  EXPECT_EQ(ends_[0].wait_status, 0);
  EXPECT_EQ(failures_[1].first, EINVAL);
  EXPECT_EQ(failures_[1].second, "bind a process to its CPUs or memory: Invalid argument");
}

TEST_F(ShepherdTest, AWorkerHasItsMemoryPolicy) {
  SpawnBinding binding;
  binding.memory = MemoryBinding::kBind;
  binding.memory_nodes.Add(0);
  binding.must = true;
  Start().SetProgram({"", {"/bin/sh", "-c", "head -n 1 /proc/self/numa_maps"}, {kPath}});
  TestPipe output = MakePipe();
  SpawnOn(0, output, {}, binding);
  output.writer.Reset();
  EXPECT_TRUE(RunUntil([this] { return ends_.size() + failures_.size() == 1; }));
  EXPECT_THAT(ReadToEnd(output.reader.get()), testing::HasSubstr(" bind:0 "));
}

}  // namespace
}  // namespace muster
