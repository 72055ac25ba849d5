#include "launcher/torchrun_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string From(absl::string_view line, const Environment& environment = {}) {
  const auto told = FromTorchrun(line.empty() ? Args() : Words(line), environment);
  EXPECT_TRUE(told.ok()) << told.status();
  return told.ok() ? absl::StrJoin(told->words, " ") : "";
}

// What launch makes of them.
JobSpec Told(absl::string_view line, const Environment& environment = {}) {
  return SpecOf(From(line, environment), "", environment);
}

TEST(CalledTorchrun, ByItsLastName) {
  EXPECT_TRUE(CalledTorchrun("torchrun"));
  EXPECT_TRUE(CalledTorchrun("/home/eva/bin/torchrun"));
  for (const char* other : {"launch", "torchrun/launch", "/x/torchrun2", "mytorchrun", ""}) {
    EXPECT_FALSE(CalledTorchrun(other)) << other;
  }
}

struct Line {
  const char* typed;
  const char* want;
};

class Lines : public ::testing::TestWithParam<Line> {};

TEST_P(Lines, AreInLaunchsWords) { EXPECT_EQ(From(GetParam().typed), GetParam().want); }

INSTANTIATE_TEST_SUITE_P(
    OfTorchrun, Lines,
    ::testing::Values(
        // T1, T2, T3
        Line{"train.py", "--nnodes 1 --nproc-per-node 1 --node-rank 0 --no-prefix -- train.py"},
        Line{"train --lr 1",
             "--run-path --nnodes 1 --nproc-per-node 1 --node-rank 0 --no-prefix -- train --lr 1"},
        Line{"-m pkg", "--nnodes 1 --nproc-per-node 1 --node-rank 0 --no-prefix -m -- pkg"},
        Line{"--no_python ps",
             "--nnodes 1 --nproc-per-node 1 --node-rank 0 --no-prefix --no_python -- ps"},
        Line{"--no_python --run_path t",
             "--nnodes 1 --nproc-per-node 1 --node-rank 0 --no-prefix --run_path -- t"},
        Line{"--nproc_per_node=4 --nnodes 1:1 t.py",
             "--node-rank 0 --no-prefix --nproc_per_node=4 --nnodes 1:1 -- t.py"},
        Line{"--hosts a:4,b:4 t.py", "--no-prefix --hosts a:4,b:4 -- t.py"},
        Line{"--config job.yaml", "--config job.yaml"},
        Line{"--nnodes 2 --node-rank 1 --rdzv-endpoint d:1 --rdzv-fingerprint F t.py",
             "--nproc-per-node 1 --no-prefix --nnodes 2 --node-rank 1 --rdzv-endpoint d:1 "
             "--rdzv-fingerprint F -- t.py"},
        Line{"", "--nnodes 1 --nproc-per-node 1 --node-rank 0 --no-prefix"},
        Line{"-h", "--nnodes 1 --nproc-per-node 1 --node-rank 0 --no-prefix -h"},
        // T7: behind the program nothing is looked at
        Line{"--nproc-per-node 2 --nnodes 1 -- t.py --nproc 3 -- -m",
             "--node-rank 0 --no-prefix --nproc-per-node 2 --nnodes 1 -- t.py --nproc 3 -- -m"},
        Line{"--nnodes 1 --nproc-per-node 2 t.py --x=${local_rank}",
             "--fill-torchrun --node-rank 0 --no-prefix --nnodes 1 --nproc-per-node 2 -- t.py "
             "--x=${local_rank}"},
        Line{"--nnodes 1 --nproc-per-node 2 --fill t.py ${local_rank}",
             "--node-rank 0 --no-prefix --nnodes 1 --nproc-per-node 2 --fill -- t.py "
             "${local_rank}"},
        // T3, T4
        Line{"--nnodes 1 --nproc_per_node 2 -t 3 t.py",
             "--node-rank 0 --log-prefix [{role}{local_rank}]: --nnodes 1 --nproc_per_node 2 -t 3 "
             "-- t.py"},
        Line{"--nnodes 1 --nproc_per_node 2 -t3 --log_dir d t.py",
             "--node-rank 0 --log-prefix [{role}{local_rank}]: --log-layout torchrun --nnodes 1 "
             "--nproc_per_node "
             "2 "
             "-t3 --log_dir d -- t.py"},
        Line{"--nnodes 1 --nproc_per_node 2 --tee=0 -r 0 t.py",
             "--node-rank 0 --no-prefix --nnodes 1 --nproc_per_node 2 --tee=0 -r 0 -- t.py"},
        Line{"--nnodes 1 --nproc_per_node 2 -l --log-layout muster --log-dir d t.py",
             "--node-rank 0 --nnodes 1 --nproc_per_node 2 -l --log-layout muster --log-dir d -- "
             "t.py"},
        Line{"--nnodes 1 --nproc_per_node 2 -r 0:1,1:2 t.py",
             "--node-rank 0 --no-prefix --log-layout torchrun --nnodes 1 --nproc_per_node 2 -r "
             "0:1,1:2 -- t.py"},
        // T6
        Line{"--nproc 2 --nn=1 t.py",
             "--node-rank 0 --no-prefix --nproc-per-node 2 --nnodes=1 -- t.py"},
        Line{"--nnodes 1 --nproc_per 2 --max_rest 3 --no_pyth t",
             "--node-rank 0 --no-prefix --nnodes 1 --nproc-per-node 2 --max-restarts 3 --no-python "
             "-- t"}));

TEST(FromTorchrun, WhatTheEnvironmentSaysIsNotSaidAgain) {
  const Environment all = {{"PET_NNODES", "2"},
                           {"PET_NPROC_PER_NODE", "3"},
                           {"PET_MODULE", "1"},
                           {"PET_LOG_DIR", "d"},
                           {"PET_TEE", "3"}};
  EXPECT_EQ(From("pkg", all), "--log-prefix [{role}{local_rank}]: --log-layout torchrun -- pkg");
  EXPECT_EQ(From("--nnodes 1 --nproc-per-node 1 p", {{"PET_NO_PYTHON", "0"}}),
            "--run-path --node-rank 0 --no-prefix --nnodes 1 --nproc-per-node 1 -- p");
  const Environment prefix = {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "[${rank}]"}};
  EXPECT_EQ(From("--nnodes 1 --nproc-per-node 1 p.py", prefix),
            "--node-rank 0 --nnodes 1 --nproc-per-node 1 -- p.py");
  EXPECT_THAT(Told("--nproc 2 p.py", prefix).notes, IsEmpty());
}

TEST(FromTorchrun, TheStaticForm) {
  const JobSpec by_address =
      Told("--nnodes 2 --node_rank 1 --master_addr a --master_port 2000 p.py");
  EXPECT_TRUE(by_address.rendezvous.is_static);
  EXPECT_EQ(by_address.rendezvous.host, "a");
  EXPECT_EQ(by_address.master_port, 2000);
  const JobSpec here = Told("--nnodes 2 --node_rank 1 p.py");
  EXPECT_TRUE(here.rendezvous.is_static);
  EXPECT_EQ(here.rendezvous.host, "127.0.0.1");
  EXPECT_EQ(here.master_port, 29500);
  const JobSpec by_endpoint = Told("--nnodes 2 --node_rank 0 --rdzv_endpoint a:2001 p.py");
  EXPECT_TRUE(by_endpoint.rendezvous.is_static);
  EXPECT_EQ(by_endpoint.master_port, 2001);
  EXPECT_THAT(by_endpoint.notes, IsEmpty());
  EXPECT_EQ(Told("--node_rank 0 --master_port 2000 p.py").master_port, 2000);
}

TEST(FromTorchrun, AnEndpointOfC10dGivesTheRanks) {
  const auto told = FromTorchrun(
      Words("--nnodes 2 --node_rank 0 --rdzv_backend c10d --rdzv_endpoint a:2001 p.py"), {});
  ASSERT_TRUE(told.ok());
  EXPECT_THAT(told->notes, ElementsAre(HasSubstr("--node-rank is not used")));
  auto spec = Resolve(told->words);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_FALSE(spec->rendezvous.is_static);
  EXPECT_FALSE(spec->node_rank.has_value());
  EXPECT_EQ(spec->master_port, std::nullopt);
}

// Images and operators set it for every container.
TEST(FromTorchrun, AnEndpointOfC10dGivesTheRanksWhateverTheEnvironmentSays) {
  const Environment environment = {{"PET_NODE_RANK", "7"}};
  const JobSpec spec =
      Told("--nnodes 2:4 --rdzv_backend c10d --rdzv_endpoint a:2001 p.py", environment);
  EXPECT_FALSE(spec.rendezvous.is_static);
  EXPECT_FALSE(spec.node_rank.has_value());
  EXPECT_THAT(spec.notes,
              ElementsAre("PET_NODE_RANK=7 (environment) is not used: it has no meaning "
                          "with --rdzv_backend c10d, as with torchrun"));
  const Environment all = {{"PET_NNODES", "2"},
                           {"PET_NODE_RANK", "1"},
                           {"PET_RDZV_BACKEND", "c10d"},
                           {"PET_RDZV_ENDPOINT", "a:2001"}};
  EXPECT_FALSE(Told("p.py", all).node_rank.has_value());
  EXPECT_EQ(Told("--rdzv_backend c10d --rdzv_endpoint localhost:0 p.py", environment).nodes_max,
            1u);
  EXPECT_THAT(From("--rdzv_backend c10d --rdzv_endpoint localhost:0 p.py", environment),
              HasSubstr("--node-rank 0"))
      << "no scheduler is asked for nodes";
  const JobSpec by_rank =
      Told("--nnodes 8 --rdzv_backend static --rdzv_endpoint a:2001 p.py", environment);
  EXPECT_TRUE(by_rank.rendezvous.is_static);
  EXPECT_EQ(by_rank.node_rank, 7u);
}

TEST(FromTorchrun, InAnAllocationItIsOneNode) {
  const Environment slurm = {{"SLURM_JOB_ID", "7"},
                             {"SLURM_JOB_NODELIST", "n[1-2]"},
                             {"SLURM_NODELIST", "n[1-2]"},
                             {"SLURM_JOB_NUM_NODES", "2"},
                             {"SLURM_TASKS_PER_NODE", "4(x2)"}};
  const JobSpec spec = Told("p.py", slurm);
  EXPECT_EQ(spec.nodes.size(), 1u);
  EXPECT_EQ(spec.plan.workers, 1u);
}

TEST(FromTorchrun, WhatIsWrongIsForLaunchToSay) {
  for (const auto& [typed, want] : std::vector<std::pair<Args, std::string>>{
           {{"--nproc"}, "--nproc-per-node: want N after it, got nothing"},
           {{"--rdzv", "x", "p"}, "unknown option '--rdzv'"},  // five begin so
           {{"--nonsense", "p"}, "unknown option '--nonsense'"},
           {{"--nproc", "0", "p"}, "--nproc-per-node: want 1.."},
           {{"--rdzv_backend=etcd-v2", "p"}, "no etcd is needed"},
           {{}, "no program to run"}}) {
    const auto told = FromTorchrun(typed, {});
    ASSERT_TRUE(told.ok());
    EXPECT_THAT(Error(told->words), HasSubstr(want));
  }
}

TEST(FromTorchrun, AColonOfTheProgramIsRefused) {
  const auto told = FromTorchrun({"p.py", "a", ":", "b"}, {});
  EXPECT_THAT(std::string(told.status().message()), HasSubstr("a word ':' of the program's"));
}

// There a restart waits as long as the job's end does.
TEST(TorchrunWords, ShutdownTimeoutIsBothGraces) {
  const JobSpec spec = Ok({"--shutdown-timeout", "7", "p"});
  EXPECT_EQ(spec.plan.grace, absl::Seconds(7));
  EXPECT_EQ(spec.restart_grace, absl::Seconds(7));
  EXPECT_EQ(Ok({"--restart-grace", "2", "--shutdown-timeout", "7", "p"}).restart_grace,
            absl::Seconds(2));
  EXPECT_EQ(Ok({"--grace", "7", "p"}).restart_grace, kRestartGrace);
}

}  // namespace
}  // namespace muster
