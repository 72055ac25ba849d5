#include "launcher/binding_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

CpuBinding With(const std::vector<std::string>& words) {
  std::vector<std::string> all = words;
  all.emplace_back("p");
  const JobSpec spec = Ok(all);
  EXPECT_THAT(spec.notes, IsEmpty());
  return spec.plan.binding;
}

TEST(BindTo, HasTheWordsOfMpirunAndMpiexec) {
  const std::vector<std::pair<std::string, BindTo>> words = {
      {"auto", BindTo::kAuto}, {"none", BindTo::kNone},         {"machine", BindTo::kNone},
      {"core", BindTo::kCore}, {"hwthread", BindTo::kHwthread}, {"l3cache", BindTo::kL3Cache},
      {"numa", BindTo::kNuma}, {"package", BindTo::kPackage},   {"socket", BindTo::kPackage},
      {"NUMA", BindTo::kNuma},
  };
  for (const auto& [word, want] : words) {
    EXPECT_EQ(With({"--bind-to", word}).bind_to, want) << word;
    EXPECT_EQ(With({"-bind-to", word}).bind_to, want) << word;
  }
  EXPECT_TRUE(With({"--bind-to", "core:overload-allowed"}).overload);
  EXPECT_FALSE(With({"--bind-to", "core:if-supported"}).overload);
  EXPECT_EQ(With({"-bind-to", "core:2"}).cores_per_worker, 2u);
  for (const char* word : {"", "cores", "core:x", "core:0", "numa:2", "l1cache"}) {
    EXPECT_THAT(Error({"--bind-to", word, "p"}), HasSubstr("--bind-to: want ")) << word;
  }
  EXPECT_THAT(Error({"-bind-to", "user:0,1", "p"}),
              HasSubstr("-bind-to user:0,1: say --cpu-list 0,1"));
}

TEST(BindTo, OfTorchrunIsByNumaNodeNearTheGpu) {
  EXPECT_EQ(With({"--numa-binding", "node"}).bind_to, BindTo::kNuma);
  EXPECT_EQ(With({"--numa-binding", "socket"}).bind_to, BindTo::kPackage);
  EXPECT_EQ(With({"--numa-binding", "exclusive"}).bind_to, BindTo::kAuto);
  EXPECT_EQ(With({"--numa-binding", "core-complex"}).bind_to, BindTo::kL3Cache);
  EXPECT_THAT(Error({"--numa-binding", "gpu", "p"}), HasSubstr("--numa-binding: want"));
}

TEST(MapBy, PlacesWithinTheNode) {
  EXPECT_EQ(With({"--map-by", "numa"}).map_by, MapBy::kNuma);
  EXPECT_EQ(With({"--map-by", "socket"}).map_by, MapBy::kPackage);
  EXPECT_EQ(With({"--map-by", "device=gpu"}).map_by, MapBy::kGpu);
  EXPECT_EQ(With({"--map-by", "slot"}).map_by, MapBy::kAuto);
  EXPECT_EQ(With({"--map-by", "numa:PE=4"}).cores_per_worker, 4u);
  EXPECT_TRUE(With({"--map-by", "core:overload-allowed"}).overload);
  const CpuBinding each = With({"--map-by", "ppr:2:l3cache"});
  EXPECT_EQ(each.map_by, MapBy::kL3Cache);
  EXPECT_EQ(each.workers_per_object, 2u);
  for (const char* word : {"ppr:2:hwthread", "ppr:1:gpu"}) {
    EXPECT_THAT(Error({"--map-by", word, "p"}),
                HasSubstr("--map-by: want ppr:N:core, l3cache, numa, package or node, got '"));
  }
  EXPECT_THAT(Error({"--map-by", "ppr:0:numa", "p"}), HasSubstr("--map-by: want 1..4096, got '0'"));
  EXPECT_THAT(Error({"--map-by", "core:pe=x", "p"}), HasSubstr("--map-by: want 1..65536, got 'x'"));
}

TEST(Places, OfCpusMemoryAndGpus) {
  EXPECT_EQ(With({"--cpu-list", "0-3,8"}).cpu_list, "0-3,8");
  EXPECT_THAT(Error({"--cpu-list", "a", "p"}), HasSubstr("--cpu-list: want numbers of CPUs"));
  EXPECT_EQ(With({"--membind", "interleave"}).memory, MemoryBinding::kInterleave);
  EXPECT_EQ(With({"-membind", "firsttouch"}).memory, MemoryBinding::kLocal);
  EXPECT_EQ(With({"--membind", "bind"}).memory_nodes, "");
  for (const char* text : {"0,2-3", "bind:0,2-3"}) {
    EXPECT_EQ(With({"--membind", text}).memory, MemoryBinding::kBind) << text;
    EXPECT_EQ(With({"--membind", text}).memory_nodes, "0,2-3") << text;
  }
  EXPECT_EQ(With({"-membind", "interleave:all"}).memory, MemoryBinding::kInterleave);
  EXPECT_EQ(With({"-membind", "interleave:all"}).memory_nodes, "all");
  for (const char* text : {"", "every", "local:0", "none:0", "bind:", "bind:x", "interleave:0:1"}) {
    EXPECT_THAT(Error({"--membind", text, "p"}), HasSubstr("--membind: want none, local, bind"))
        << text;
  }
  EXPECT_EQ(With({"--pe", "3"}).cores_per_worker, 3u);
  EXPECT_THAT(Error({"--pe", "0", "p"}), HasSubstr("--pe: want 1..65536, got '0'"));
  EXPECT_EQ(With({"--gpus-per-proc", "2"}).gpus_per_worker, 2u);
  EXPECT_EQ(With({"--gpu-mode", "uuid"}).gpu_mode, GpuMode::kUuid);
  EXPECT_THAT(Error({"--gpu-mode", "two", "p"}), HasSubstr("--gpu-mode: want"));
  EXPECT_TRUE(With({"--report-bindings"}).report);
}

}  // namespace
}  // namespace muster
