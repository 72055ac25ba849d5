#include "agent/core/worker_env.h"

#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/agent/core/machines.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Node 1 of 2, 16 workers each.
struct Scene {
  WorkPlan plan;
  Assignment assignment;
  NodeFacts facts;
  std::vector<std::string> inherited = {"HOME=/h", "PATH=/bin"};
  bool agent_store = true;
  std::string torch_version = "2.3.0";
  MpiMode mpi = MpiMode::kNone;
  bool pmi1_offered = false;
  const std::vector<std::string>* pmix = nullptr;
  std::optional<WorkerShare> share;
  Topology topology;

  Scene() {
    plan.job_id = "job7";
    assignment.round = {1, 3};
    assignment.node_rank = {1};
    assignment.nodes = 2;
    assignment.rank_first = {16};
    assignment.workers = 16;
    assignment.world_size = 32;
    assignment.layout = {{16, 2}};
    assignment.master_addr = "10.1.0.1";
    assignment.master_port = 31234;
    assignment.restart_count = 2;
    assignment.restarts_max = 5;
    facts.hostname = "node1";
    facts.address = "10.1.0.2";
    facts.interface = "eth1";
    facts.address_why = "the route to 10.1.0.1";
    facts.address_is_loopback = false;
    facts.cpus_allowed = 64;
  }
  EnvBase Base() const { return FilterEnvironment(inherited, plan); }
  std::vector<EnvVar> Variables(uint32_t local = 3) const {
    return WorkerVariables({plan,
                            assignment,
                            facts,
                            agent_store,
                            "/tmp/e/3.json",
                            {local},
                            torch_version,
                            mpi,
                            share.has_value() ? &*share : nullptr,
                            &topology,
                            pmix,
                            pmix == nullptr ? "" : "/dev/shm/m/mpi-1",
                            pmi1_offered},
                           Base());
  }
  std::map<std::string, std::string> Values(uint32_t local = 3) const {
    std::map<std::string, std::string> out;
    for (const EnvVar& v : Variables(local)) {
      out[v.name] = v.value;
    }
    return out;
  }
};

TEST(WorkerEnvTest, TheWholeListInItsOrder) {
  std::vector<std::string> lines;
  for (const EnvVar& v : Scene().Variables()) {
    lines.push_back(v.name + "=" + v.value);
    EXPECT_FALSE(v.why.empty()) << v.name;
  }
  EXPECT_THAT(
      lines,
      ElementsAre("RANK=19", "LOCAL_RANK=3", "WORLD_SIZE=32", "LOCAL_WORLD_SIZE=16", "GROUP_RANK=1",
                  "GROUP_WORLD_SIZE=2", "ROLE_NAME=default", "ROLE_RANK=19", "ROLE_WORLD_SIZE=32",
                  "MASTER_ADDR=10.1.0.1", "MASTER_PORT=31234", "TORCHELASTIC_USE_AGENT_STORE=True",
                  "TORCHELASTIC_RESTART_COUNT=2", "TORCHELASTIC_MAX_RESTARTS=5",
                  "TORCHELASTIC_RUN_ID=job7", "TORCHELASTIC_ERROR_FILE=/tmp/e/3.json",
                  "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT",
                  "OMP_NUM_THREADS=4", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "PYTHONUNBUFFERED=1",
                  "GLOO_SOCKET_IFNAME=eth1", "NCCL_SOCKET_IFNAME==eth1", "UCX_NET_DEVICES=eth1",
                  "MUSTER_JOB_ID=job7", "MUSTER_ROUND=4294967299", "MUSTER_RANK=19",
                  "MUSTER_WORLD_SIZE=32", "MUSTER_LOCAL_RANK=3", "MUSTER_LOCAL_SIZE=16",
                  "MUSTER_NODE_RANK=1", "MUSTER_NODES=2", "MUSTER_AGENT_FD=100"));
}

TEST(WorkerEnvTest, OnlyAReplacementIsCalledSo) {
  Scene scene;
  scene.inherited.push_back("MUSTER_REPLACEMENT=1");  // an outer launch's
  EXPECT_EQ(scene.Base().Find("MUSTER_REPLACEMENT"), nullptr);
  const auto is_called_so = [&scene] { return scene.Values().count("MUSTER_REPLACEMENT") != 0; };
  EXPECT_FALSE(is_called_so());
  scene.assignment.started_in.assign(16, 2);
  scene.assignment.keeps_from = {1, 2};  // its node missed that round: it is the first one
  EXPECT_FALSE(is_called_so());
  scene.assignment.started_in[3] = 3;
  EXPECT_EQ(scene.Values()["MUSTER_REPLACEMENT"], "1");
}

TEST(WorkerEnvTest, AVirtualLocalRankSeesOneGpu) {
  Scene scene;
  scene.plan.virtual_local_rank = true;
  EXPECT_EQ(scene.Values(3)["LOCAL_RANK"], "0");
  EXPECT_EQ(scene.Values(3)["CUDA_VISIBLE_DEVICES"], "3");
  EXPECT_EQ(scene.Values(3)["MUSTER_LOCAL_RANK"], "3");
  scene.inherited.emplace_back("CUDA_VISIBLE_DEVICES=7,5,GPU-ab");
  EXPECT_EQ(scene.Values(0)["CUDA_VISIBLE_DEVICES"], "7");
  EXPECT_EQ(scene.Values(2)["CUDA_VISIBLE_DEVICES"], "GPU-ab");
  scene.inherited.back() = "CUDA_VISIBLE_DEVICES= GPU-a , GPU-b ";
  EXPECT_EQ(scene.Values(1)["CUDA_VISIBLE_DEVICES"], "GPU-b");
  EXPECT_EQ(Scene().Values(3).count("CUDA_VISIBLE_DEVICES"), 0u);
}

TEST(WorkerEnvTest, AVirtualLocalRankHasNoGpuThatTheJobHasNot) {
  Scene scene;
  scene.plan.virtual_local_rank = true;
  EXPECT_TRUE(CheckOwnGpu(scene.plan, LocalRank{7}, scene.Base()).ok());  // no list: all are seen
  scene.inherited.emplace_back("CUDA_VISIBLE_DEVICES=4,5");
  EXPECT_TRUE(CheckOwnGpu(scene.plan, LocalRank{1}, scene.Base()).ok());
  EXPECT_EQ(CheckOwnGpu(scene.plan, LocalRank{2}, scene.Base()).message(),
            "--virtual-local-rank gives each worker a GPU of its own, and CUDA_VISIBLE_DEVICES=4,5 "
            "names 2 GPUs: none is left for local rank 2; run fewer workers on this node, or leave "
            "the option out");
  scene.inherited.back() = "CUDA_VISIBLE_DEVICES=";
  EXPECT_TRUE(CheckOwnGpu(scene.plan, LocalRank{0}, scene.Base()).ok());
  EXPECT_EQ(scene.Values(0)["CUDA_VISIBLE_DEVICES"], "");
  EXPECT_FALSE(CheckOwnGpu(scene.plan, LocalRank{1}, scene.Base()).ok());
  scene.plan.virtual_local_rank = false;
  EXPECT_TRUE(CheckOwnGpu(scene.plan, LocalRank{1}, scene.Base()).ok());
}

TEST(WorkerEnvTest, WhatStopsTheJobIsSaidAsTorchrunSaysIt) {
  Scene scene;
  scene.plan.stop_signals = {SIGUSR2};
  EXPECT_EQ(scene.Values()["TORCHELASTIC_SIGNALS_TO_HANDLE"],
            "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR2");
}

TEST(WorkerEnvTest, TheStoreOfRankZero) {
  Scene scene;
  scene.agent_store = false;
  EXPECT_EQ(scene.Values()["TORCHELASTIC_USE_AGENT_STORE"], "False");
}

TEST(WorkerEnvTest, W1IdentityIsOursEvenWhenTheUserNamesIt) {
  Scene scene;
  scene.plan.env_set = {"RANK=0", "MASTER_ADDR=elsewhere", "MUSTER_ROUND=1"};
  scene.plan.env_unset = {"WORLD_SIZE"};
  std::vector<std::string> block = EntriesWithout(scene.Base(), scene.Variables());
  for (const EnvVar& variable : scene.Variables()) {
    block.push_back(absl::StrCat(variable.name, "=", variable.value));
  }
  std::map<std::string, int> count;
  for (const std::string& entry : block) {
    ++count[std::string(NameOf(entry))];
  }
  for (const auto& [name, n] : count) {
    EXPECT_EQ(n, 1) << name;
  }
  EXPECT_THAT(block, testing::IsSupersetOf({"RANK=19", "MASTER_ADDR=10.1.0.1", "WORLD_SIZE=32",
                                            "MUSTER_ROUND=4294967299"}));
}

TEST(WorkerEnvTest, W2WhatTheUserSetOrUnsetIsLeftAlone) {
  for (const std::string& name : TuningNames()) {
    for (const char* torch : {"1.13.0a0", "2.3.0", "2.6.0+debian"}) {
      Scene scene;
      scene.agent_store = false;
      scene.mpi = MpiMode::kPmix;
      scene.torch_version = torch;
      scene.inherited.push_back(name + "=mine");
      EXPECT_EQ(scene.Values().count(name), 0u) << name << " inherited";
      scene.inherited.pop_back();
      scene.plan.env_set = {name + "=mine"};
      EXPECT_EQ(scene.Values().count(name), 0u) << name << " by -x";
      scene.plan.env_set.clear();
      scene.plan.env_unset = {name};
      EXPECT_EQ(scene.Values().count(name), 0u) << name << " unset";
    }
  }
}

TEST(WorkerEnvTest, ThreadsFollowTheCpusThatMayBeUsed) {
  Scene scene;
  scene.facts.cpus_allowed = 7;
  scene.assignment.workers = 2;
  EXPECT_EQ(scene.Values(0)["OMP_NUM_THREADS"], "3");
  scene.facts.cpu_quota = 1.5;
  EXPECT_EQ(scene.Values(0)["OMP_NUM_THREADS"], "1");
  for (const EnvVar& v : scene.Variables(0)) {
    if (v.name == "OMP_NUM_THREADS") {
      EXPECT_EQ(v.why, "1 CPU of node1 (cgroup quota) for 2 workers");
    }
  }
}

TEST(WorkerEnvTest, ThreadsAreTheCoresOfAShare) {
  Scene scene;
  scene.share = WorkerShare{CpusFrom(8, 16), /*bound=*/true, false, /*cores=*/8, 1, {0}, {}, {}};
  const auto said = [&] {
    for (const EnvVar& v : scene.Variables(0)) {
      if (v.name == "OMP_NUM_THREADS") {
        return v.value + ": " + v.why;
      }
    }
    return std::string();
  };
  EXPECT_EQ(said(), "8: CPUs 8-23 of node1: 8 cores of its own");
  scene.share->sharers = 5;
  EXPECT_EQ(said(), "3: CPUs 8-23 of node1 for 5 workers");
  scene.share->sharers = 40;
  EXPECT_EQ(said(), "1: CPUs 8-23 of node1 for 40 workers");
  scene.share->sharers = 1;
  scene.facts.cpu_quota = 32;  // for 16 workers
  EXPECT_EQ(said(), "2: 32 CPUs of node1 (cgroup quota) for 16 workers");
  scene.facts.cpu_quota = 0;
  scene.share->bound = false;
  EXPECT_EQ(said(), "4: 64 CPUs of node1 for 16 workers");
}

TEST(WorkerEnvTest, ItsOwnGpusOnlyWhereThatIsAskedFor) {
  Scene scene;
  scene.topology.gpus = {{"a", "GPU-1", {}}, {"b", "GPU-2", {}}, {"c", "", {}}};
  scene.share = WorkerShare{CpusFrom(0, 4), true, false, 4, 1, {}, {1, 2}, {}};
  EXPECT_EQ(scene.Values().count("CUDA_VISIBLE_DEVICES"), 0u);
  scene.plan.binding.gpu_mode = GpuMode::kOne;
  EXPECT_EQ(scene.Values()["CUDA_VISIBLE_DEVICES"], "1,2");
  scene.inherited.push_back("CUDA_VISIBLE_DEVICES=4,5,6");
  EXPECT_EQ(scene.Values()["CUDA_VISIBLE_DEVICES"], "5,6");
  scene.plan.binding.gpu_mode = GpuMode::kUuid;
  EXPECT_EQ(scene.Values()["CUDA_VISIBLE_DEVICES"], "GPU-2,6") << "one is not known";
}

TEST(WorkerEnvTest, ItsOwnGpusAsTheSchedulersTasksWhereThereAreEnough) {
  Scene scene;
  scene.plan.binding.gpu_mode = GpuMode::kOneIfEnough;
  scene.share = WorkerShare{CpusFrom(0, 4), true, false, 4, 1, {}, {1}, {}};
  scene.topology.gpus = {{"a", "", {}}, {"b", "", {}}};
  EXPECT_EQ(scene.Values()["CUDA_VISIBLE_DEVICES"], "1");
  // None was dealt: we see fewer of the node than workers. The list is the scheduler's.
  scene.share->gpus.clear();
  EXPECT_EQ(scene.Values().count("CUDA_VISIBLE_DEVICES"), 0u);
  std::string list = "0";
  for (uint32_t gpu = 1; gpu < scene.assignment.workers; ++gpu) {
    list += "," + std::to_string(gpu);
  }
  scene.inherited.push_back("CUDA_VISIBLE_DEVICES=" + list);
  EXPECT_EQ(scene.Values()["CUDA_VISIBLE_DEVICES"], "3");
  scene.plan.binding.gpus_per_worker = 2;
  EXPECT_EQ(scene.Values().count("CUDA_VISIBLE_DEVICES"), 0u) << "not two for each";
}

TEST(WorkerEnvTest, ThreadsThatAreTiedToTheSameCpusAreNoticed) {
  const auto notice = [](const char* variable, uint32_t workers, bool share_cpus = false) {
    return PinNotice(FilterEnvironment({variable}, {}), workers, share_cpus);
  };
  EXPECT_THAT(notice("GOMP_CPU_AFFINITY=0-3", 2),
              HasSubstr("GOMP_CPU_AFFINITY=0-3 ties the threads of all 2 workers"));
  EXPECT_THAT(notice("KMP_AFFINITY=explicit,proclist=[0-3]", 2), HasSubstr("KMP_AFFINITY=expl"));
  EXPECT_EQ(notice("KMP_AFFINITY=granularity=fine,compact,1,0", 2), "");
  EXPECT_THAT(notice("KMP_AFFINITY=granularity=fine,compact,1,0", 2, true),
              HasSubstr("KMP_AFFINITY=granularity=fine,compact,1,0 ties"));
  EXPECT_THAT(notice("OMP_PLACES={0},{1}", 2), HasSubstr("OMP_PLACES={0},{1} ties"));
  EXPECT_THAT(notice("OMP_PROC_BIND=TRUE", 2, true), HasSubstr("OMP_PROC_BIND=TRUE ties"));
  EXPECT_EQ(notice("OMP_PROC_BIND=TRUE", 2), "");
  EXPECT_EQ(notice("OMP_PROC_BIND=false", 2, true), "");
  EXPECT_EQ(notice("OMP_PLACES=cores", 2, true), "");
  EXPECT_EQ(notice("GOMP_CPU_AFFINITY=0-3", 1), "");
  EXPECT_EQ(notice("HOME=/h", 2), "");
}

TEST(WorkerEnvTest, PbssThreadsAreDividedAmongTheWorkersAndTheUsersStay) {
  Scene scene;
  scene.assignment.workers = 2;
  scene.inherited = {"NCPUS=8", "OMP_NUM_THREADS=8", "PBS_JOBID=3.s"};
  for (const EnvVar& v : scene.Variables(0)) {
    if (v.name == "OMP_NUM_THREADS") {
      EXPECT_EQ(v.value, "4");
      EXPECT_EQ(v.why, "8 CPUs of node1 (NCPUS) for 2 workers");
    }
  }
  scene.facts.cpus_allowed = 6;  // PBS binds the job
  EXPECT_EQ(scene.Values(0)["OMP_NUM_THREADS"], "3");
  scene.inherited = {"NCPUS=8", "OMP_NUM_THREADS=2", "PBS_JOBID=3.s"};  // ompthreads=2
  EXPECT_EQ(scene.Values(0).count("OMP_NUM_THREADS"), 0u);
}

TEST(WorkerEnvTest, InterfacesOnlyWhereNodesTalkOverANetwork) {
  const auto has = [](const Scene& scene) {
    const auto values = scene.Values();
    return values.count("GLOO_SOCKET_IFNAME") + values.count("NCCL_SOCKET_IFNAME") +
           values.count("UCX_NET_DEVICES");
  };
  EXPECT_EQ(has(Scene()), 3u);
  Scene one;
  one.assignment.nodes = 1;
  EXPECT_EQ(has(one), 0u);
  Scene standalone;
  standalone.plan.standalone = true;
  EXPECT_EQ(has(standalone), 0u);
  Scene one_host;
  one_host.assignment.one_host = true;
  EXPECT_EQ(has(one_host), 0u);
  Scene unknown;
  unknown.facts.interface = "";
  EXPECT_EQ(has(unknown), 0u);
  Scene infiniband;
  infiniband.facts.rdma_devices = 1;
  EXPECT_EQ(infiniband.Values().count("UCX_NET_DEVICES"), 0u) << "UCX would not use it any more";
  EXPECT_EQ(has(infiniband), 2u);
}

TEST(WorkerEnvTest, AnAliasIsNoDevice) {
  Scene scene;
  scene.facts.interface = "eth0:1";
  EXPECT_EQ(scene.Values()["GLOO_SOCKET_IFNAME"], "eth0:1");
  EXPECT_EQ(scene.Values()["UCX_NET_DEVICES"], "eth0");
}

TEST(WorkerEnvTest, OldTorchHasItsOldName) {
  Scene scene;
  for (const char* torch : {"1.13.0a0", "2.1.2", "2.0"}) {
    scene.torch_version = torch;
    EXPECT_EQ(scene.Values().count("NCCL_ASYNC_ERROR_HANDLING"), 1u) << torch;
    EXPECT_EQ(scene.Values().count("TORCH_NCCL_ASYNC_ERROR_HANDLING"), 0u) << torch;
  }
  for (const char* torch : {"2.2.0", "2.10.1", "3.0.0"}) {
    scene.torch_version = torch;
    EXPECT_EQ(scene.Values().count("NCCL_ASYNC_ERROR_HANDLING"), 0u) << torch;
    EXPECT_EQ(scene.Values().count("TORCH_NCCL_ASYNC_ERROR_HANDLING"), 1u) << torch;
  }
  for (const char* unknown : {"", "x.y", "2"}) {
    scene.torch_version = unknown;
    EXPECT_EQ(scene.Values().count("NCCL_ASYNC_ERROR_HANDLING"), 1u) << unknown;
    EXPECT_EQ(scene.Values().count("TORCH_NCCL_ASYNC_ERROR_HANDLING"), 1u) << unknown;
  }
}

TEST(WorkerEnvTest, ATorchWithoutLibuvIsToldSoWhereItServesTheStore) {
  Scene scene;
  EXPECT_EQ(scene.Values().count("USE_LIBUV"), 0u);
  scene.torch_version = "2.6.0+debian";
  EXPECT_EQ(scene.Values().count("USE_LIBUV"), 0u) << "of no use with the agent's store";
  scene.agent_store = false;
  EXPECT_EQ(scene.Values()["USE_LIBUV"], "0");
  scene.torch_version = "2.6.0";
  EXPECT_EQ(scene.Values().count("USE_LIBUV"), 0u);
}

TEST(WorkerEnvTest, UnderSlurmTheTaskVariablesAreTheWorkers) {
  Scene scene;
  scene.inherited = {"SLURM_JOB_ID=4", "SLURM_PROCID=1", "SLURM_NTASKS=2"};
  EXPECT_EQ(scene.Values()["SLURM_PROCID"], "19");
  EXPECT_EQ(scene.Values()["SLURM_NTASKS"], "32");
  scene.plan.dialects = {"slurm-scrub"};
  EXPECT_EQ(scene.Values().count("SLURM_PROCID"), 0u);
}

// W3, W4
TEST(WorkerEnvTest, PmiIsPromisedWhereItIsServed) {
  Scene scene;
  scene.plan.dialects = {"pmi", "mpich"};
  const auto names = [&] {
    std::map<std::string, std::string> out;
    for (const EnvVar& variable : scene.Variables()) {
      EXPECT_TRUE(out.emplace(variable.name, variable.value).second) << variable.name;
    }
    return out;
  };
  EXPECT_EQ(names().count("PMI_FD"), 0u);
  EXPECT_EQ(names()["PMI_RANK"], "19");
  scene.mpi = MpiMode::kPmi1;
  EXPECT_EQ(names()["PMI_FD"], "102");
  EXPECT_EQ(names()["PMI_RANK"], "19");
  EXPECT_EQ(names()["PMI_SIZE"], "32");
  EXPECT_EQ(names()["PMI_SPAWNED"], "0");
  EXPECT_EQ(names()["MPI_LOCALRANKID"], "3");
  EXPECT_EQ(names()["MPI_LOCALNRANKS"], "16");
}

// What other launchers' variables say is what ours say (W3); the rest goes by what is served.
TEST(WorkerEnvTest, Pmi1ThatIsOfferedSaysTheSameAsTorchsNames) {
  Scene scene;
  scene.plan.dialects = {"horovod"};
  scene.pmi1_offered = true;
  auto values = scene.Values();
  EXPECT_EQ(values["PMI_FD"], "102");
  EXPECT_EQ(values["PMI_RANK"], values["RANK"]);
  EXPECT_EQ(values["PMI_SIZE"], values["WORLD_SIZE"]);
  EXPECT_EQ(values["MPI_LOCALRANKID"], values["LOCAL_RANK"]);
  EXPECT_EQ(values["MPI_LOCALNRANKS"], values["LOCAL_WORLD_SIZE"]);
  EXPECT_EQ(values["JSM_JSRUN_PORT"], "1") << "W4: so that an Open MPI fails";
  EXPECT_EQ(values["HOROVOD_CONTROLLER"], "gloo") << "no MPI is known to be there";
  scene.mpi = MpiMode::kPmi1;
  scene.pmi1_offered = false;
  EXPECT_EQ(scene.Values().count("JSM_JSRUN_PORT"), 0u);
}

TEST(WorkerEnvTest, PmixIsWhatItsServerSays) {
  Scene scene;
  scene.plan.dialects = {"pmix"};
  EXPECT_EQ(scene.Values()["PMIX_RANK"], "19");
  EXPECT_EQ(scene.Values().count("OMPI_COMM_WORLD_RANK"), 0u);
  scene.mpi = MpiMode::kPmix;
  EXPECT_EQ(scene.Values().count("PMIX_RANK"), 0u) << "W4: no server runs yet";
  const std::vector<std::string> served = {"PMIX_RANK=19", "PMIX_SERVER_URI4=a=b"};
  scene.pmix = &served;
  auto values = scene.Values();
  EXPECT_EQ(values["PMIX_RANK"], "19");
  EXPECT_EQ(values["PMIX_SERVER_URI4"], "a=b");
  EXPECT_EQ(values["JSM_JSRUN_PORT"], "1");
  EXPECT_EQ(values["OMPI_COMM_WORLD_RANK"], "19");
  EXPECT_EQ(values["OMPI_MCA_btl_tcp_if_include"], "eth1");
  EXPECT_EQ(values["OMPI_MCA_orte_tmpdir_base"], "/dev/shm/m/mpi-1");
  EXPECT_EQ(values["OMPI_MCA_btl_vader_backing_directory"], "/dev/shm/m/mpi-1");
  EXPECT_EQ(values.count("OMPI_MCA_mpi_yield_when_idle"), 0u);
  // Open MPI takes one of the two, and with both has no TCP.
  scene.inherited = {"OMPI_MCA_btl_tcp_if_exclude=docker0,lo"};
  EXPECT_EQ(scene.Values().count("OMPI_MCA_btl_tcp_if_include"), 0u);
}

// Open MPI's processes wait by looking: a hundred steps of LAMMPS with 4 of them on 2 CPUs took
// 3.5 s without it, 0.01 s with.
TEST(WorkerEnvTest, OpenMpiGivesWayWhereWorkersOutnumberCpus) {
  Scene scene;
  scene.mpi = MpiMode::kPmix;
  const std::vector<std::string> served = {"PMIX_RANK=19"};
  scene.pmix = &served;
  scene.assignment.workers = scene.facts.cpus_usable() + 1;
  EXPECT_EQ(scene.Values()["OMPI_MCA_mpi_yield_when_idle"], "1");
  scene.assignment.workers = scene.facts.cpus_usable();
  EXPECT_EQ(scene.Values().count("OMPI_MCA_mpi_yield_when_idle"), 0u);
}

}  // namespace
}  // namespace muster
