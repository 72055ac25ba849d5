#include "launcher/explain_env.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace muster {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct Scene {
  WorkPlan plan;
  Assignment assignment;
  NodeFacts facts;
  ProgramFacts program;
  std::vector<std::string> inherited = {"HOME=/h"};
  uint32_t local = 1;

  Scene() {
    plan.job_id = "j1";
    assignment.nodes = 2;
    assignment.node_rank = {1};
    assignment.rank_first = {4};
    assignment.workers = 4;
    assignment.world_size = 8;
    assignment.layout = {{4, 2}};
    facts.hostname = "node1";
    facts.cpus_allowed = 16;
    program.program = "train.py";
    program.is_python = true;
    program.interpreter = "/usr/bin/python3";
    program.torch_version = "1.13.0a0";
  }
  std::string Text() const { return With(ExplainEnvText); }
  nlohmann::json Json() const { return nlohmann::json::parse(With(ExplainEnvJson)); }
  template <typename F>
  std::string With(F explain) const {
    const EnvBase base = FilterEnvironment(inherited, plan);
    return explain({plan, assignment, facts, program, base, true, {local}});
  }
};

TEST(ExplainTextTest, SaysWhoAndEachVariableWithItsReason) {
  const std::string text = Scene().Text();
  EXPECT_THAT(text, HasSubstr("Rank 5 of 8 (local rank 1 of 4 on node1, node 1 of 2) finds"));
  EXPECT_THAT(text, ContainsRegex("\n  RANK +5 +place of this worker in the job\n"));
  EXPECT_THAT(text, ContainsRegex("\n  OMP_NUM_THREADS +4 +16 CPUs of node1 for 4 workers\n"));
  EXPECT_THAT(text, ContainsRegex("\n  NCCL_ASYNC_ERROR_HANDLING +1 "));
  EXPECT_THAT(text, HasSubstr("torch backend: gloo (workers on node1 see no GPU)"));
  EXPECT_THAT(text, HasSubstr("torch: 1.13.0a0, of /usr/bin/python3"));
  EXPECT_THAT(text, Not(HasSubstr("Note:")));
  EXPECT_THAT(text, Not(HasSubstr("Yours:")));
}

TEST(ExplainTextTest, WhatOnlyAStartedJobKnows) {
  Scene scene;
  for (const char* name :
       {"MASTER_ADDR", "MASTER_PORT", "MUSTER_ROUND", "TORCHELASTIC_ERROR_FILE"}) {
    EXPECT_THAT(scene.Text(), ContainsRegex("\n  " + std::string(name) + " +\\(at start\\) "));
  }
  EXPECT_THAT(scene.Text(), HasSubstr("you type no address and no port"));
  scene.assignment.master_addr = "10.0.0.1";
  scene.assignment.master_port = 29500;
  EXPECT_THAT(scene.Text(), ContainsRegex("\n  MASTER_ADDR +10.0.0.1 "));
  EXPECT_THAT(scene.Text(), ContainsRegex("\n  MASTER_PORT +29500 "));
}

TEST(ExplainTextTest, WhatIsYoursAndWhatIsNotInherited) {
  Scene scene;
  scene.inherited = {"OMP_NUM_THREADS=2", "PMI_RANK=0", "MUSTER_SECRET=hush", "TF_CONFIG=a\nb"};
  scene.plan.env_set = {"RANK=3"};
  const std::string text = scene.Text();
  EXPECT_THAT(text, ContainsRegex("Yours:\n  OMP_NUM_THREADS +2 +set by you"));
  EXPECT_THAT(text, ContainsRegex("not inherited:\n  MUSTER_SECRET +\\(hidden\\) "));
  EXPECT_THAT(text, ContainsRegex("\n  PMI_RANK +0 +an outer launcher"));
  EXPECT_THAT(text, HasSubstr("a\\nb")) << "one line each";
  EXPECT_THAT(text, Not(HasSubstr("hush")));
  EXPECT_THAT(text, ContainsRegex("\n  RANK +5 +.*identity, so your own value is not used"));
}

TEST(ExplainTextTest, AnMpiProgramIsNoticed) {
  Scene scene;
  scene.program.mpi = "MPI";
  EXPECT_THAT(scene.Text(), HasSubstr("Note: train.py uses an MPI through mpi4py"));
  EXPECT_THAT(scene.Text(), HasSubstr("It is offered PMI-1, which MPICH"));
}

TEST(ExplainTextTest, WhatAPmixServerWillSayIsNotKnownYet) {
  Scene scene;
  scene.plan.mpi = MpiMode::kPmix;
  EXPECT_THAT(scene.Text(), HasSubstr("Note: PMIX_* variables"));
}

TEST(ExplainJsonTest, HoldsTheSame) {
  Scene scene;
  scene.inherited = {"UCX_NET_DEVICES=mlx5_0:1", "MUSTER_SECRET=hush", "RANK=\xff"};
  const nlohmann::json json = scene.Json();
  EXPECT_EQ(json["worker"]["rank"], 5);
  EXPECT_EQ(json["worker"]["host"], "node1");
  EXPECT_EQ(json["variables"][0]["name"], "RANK");
  EXPECT_EQ(json["variables"][0]["value"], "5");
  EXPECT_EQ(json["kept"][0]["value"], "mlx5_0:1");
  EXPECT_EQ(json["removed"][0]["value"], "(hidden)");
  EXPECT_EQ(json["removed"][1]["name"], "RANK");
  EXPECT_EQ(json["backend"]["name"], "gloo");
  EXPECT_EQ(json["program"]["torch"], "1.13.0a0");
  bool found = false;
  for (const auto& variable : json["variables"]) {
    if (variable["name"] == "MASTER_PORT") {
      found = true;
      EXPECT_TRUE(variable["value"].is_null());
    }
  }
  EXPECT_TRUE(found);
}

TEST(BackendTest, FollowsGpusTorchAndWorkers) {
  struct Case {
    uint32_t gpus;
    const char* torch;
    const char* cuda;
    uint32_t workers;
    const char* backend;
    const char* why;
  };
  for (const Case& c : {Case{0, "2.3.0", "12.1", 4, "gloo", "see no GPU"},
                        Case{8, "2.3.0", "12.1", 8, "nccl", "worker l on cuda:l"},
                        Case{8, "2.3.0", "12.1", 16, "gloo", "16 workers would share 8 GPUs"},
                        Case{8, "1.13.0", "", 8, "gloo", "torch 1.13.0 is built without CUDA"},
                        Case{8, "", "", 8, "nccl", "worker l on cuda:l"}}) {
    NodeFacts facts;
    facts.hostname = "n";
    facts.gpus = c.gpus;
    ProgramFacts program;
    program.torch_version = c.torch;
    program.torch_cuda = c.cuda;
    const BackendAdvice advice = AdviseBackend(facts, program, c.workers);
    EXPECT_EQ(advice.backend, c.backend) << c.why;
    EXPECT_THAT(advice.why, HasSubstr(c.why));
  }
}

}  // namespace
}  // namespace muster
