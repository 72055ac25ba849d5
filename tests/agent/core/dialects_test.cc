#include "agent/core/dialects.h"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/worker_env.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

// The numbers of a place, by counting.
struct Numbers {
  uint32_t rank = 0, world = 0, local_rank = 0, local_size = 0, node = 0, nodes = 0;
  uint32_t cross_rank = 0, cross_size = 0;
};

Numbers Count(const std::vector<uint32_t>& workers, uint32_t node, uint32_t local) {
  Numbers n;
  n.node = node;
  n.nodes = static_cast<uint32_t>(workers.size());
  n.local_rank = local;
  n.local_size = workers[node];
  for (uint32_t g = 0; g < workers.size(); ++g) {
    for (uint32_t l = 0; l < workers[g]; ++l) {
      n.world += 1;
      n.rank += g < node || (g == node && l < local) ? 1 : 0;
      n.cross_size += l == local ? 1 : 0;
      n.cross_rank += l == local && g < node ? 1 : 0;
    }
  }
  return n;
}

using Getter = uint32_t Numbers::*;
// The table of section 1, row by row.
const std::map<std::string, Getter>& Names() {
  static const std::map<std::string, Getter> names = {
      {"RANK", &Numbers::rank},
      {"PMI_RANK", &Numbers::rank},
      {"OMPI_COMM_WORLD_RANK", &Numbers::rank},
      {"SLURM_PROCID", &Numbers::rank},
      {"HOROVOD_RANK", &Numbers::rank},
      {"FLUX_TASK_RANK", &Numbers::rank},
      {"JSM_NAMESPACE_RANK", &Numbers::rank},
      {"PMIX_RANK", &Numbers::rank},
      {"MV2_COMM_WORLD_RANK", &Numbers::rank},
      {"ROLE_RANK", &Numbers::rank},
      {"MUSTER_RANK", &Numbers::rank},
      {"WORLD_SIZE", &Numbers::world},
      {"PMI_SIZE", &Numbers::world},
      {"OMPI_COMM_WORLD_SIZE", &Numbers::world},
      {"OMPI_UNIVERSE_SIZE", &Numbers::world},
      {"SLURM_NTASKS", &Numbers::world},
      {"SLURM_NPROCS", &Numbers::world},
      {"SLURM_STEP_NUM_TASKS", &Numbers::world},
      {"HOROVOD_SIZE", &Numbers::world},
      {"FLUX_JOB_SIZE", &Numbers::world},
      {"JSM_NAMESPACE_SIZE", &Numbers::world},
      {"MV2_COMM_WORLD_SIZE", &Numbers::world},
      {"ROLE_WORLD_SIZE", &Numbers::world},
      {"MUSTER_WORLD_SIZE", &Numbers::world},
      {"LOCAL_RANK", &Numbers::local_rank},
      {"MPI_LOCALRANKID", &Numbers::local_rank},
      {"OMPI_COMM_WORLD_LOCAL_RANK", &Numbers::local_rank},
      {"OMPI_COMM_WORLD_NODE_RANK", &Numbers::local_rank},
      {"SLURM_LOCALID", &Numbers::local_rank},
      {"HOROVOD_LOCAL_RANK", &Numbers::local_rank},
      {"FLUX_TASK_LOCAL_ID", &Numbers::local_rank},
      {"JSM_NAMESPACE_LOCAL_RANK", &Numbers::local_rank},
      {"MV2_COMM_WORLD_LOCAL_RANK", &Numbers::local_rank},
      {"MUSTER_LOCAL_RANK", &Numbers::local_rank},
      {"LOCAL_WORLD_SIZE", &Numbers::local_size},
      {"MPI_LOCALNRANKS", &Numbers::local_size},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", &Numbers::local_size},
      {"HOROVOD_LOCAL_SIZE", &Numbers::local_size},
      {"MV2_COMM_WORLD_LOCAL_SIZE", &Numbers::local_size},
      {"LOCAL_SIZE", &Numbers::local_size},
      {"MUSTER_LOCAL_SIZE", &Numbers::local_size},
      {"GROUP_RANK", &Numbers::node},
      {"NODE_RANK", &Numbers::node},
      {"SLURM_NODEID", &Numbers::node},
      {"CROSS_RANK", &Numbers::node},
      {"MUSTER_NODE_RANK", &Numbers::node},
      {"GROUP_WORLD_SIZE", &Numbers::nodes},
      {"SLURM_NNODES", &Numbers::nodes},
      {"SLURM_JOB_NUM_NODES", &Numbers::nodes},
      {"SLURM_STEP_NUM_NODES", &Numbers::nodes},
      {"CROSS_SIZE", &Numbers::nodes},
      {"FLUX_JOB_NNODES", &Numbers::nodes},
      {"MUSTER_NODES", &Numbers::nodes},
      {"HOROVOD_CROSS_RANK", &Numbers::cross_rank},
      {"HOROVOD_CROSS_SIZE", &Numbers::cross_size},
  };
  return names;
}

Assignment Assigned(const std::vector<uint32_t>& workers, uint32_t node) {
  Assignment a;
  a.round = {1, 1};
  a.node_rank = {node};
  a.nodes = static_cast<uint32_t>(workers.size());
  a.workers = workers[node];
  for (uint32_t g = 0; g < workers.size(); ++g) {
    a.world_size += workers[g];
    a.rank_first.value += g < node ? workers[g] : 0;
    if (!a.layout.empty() && a.layout.back().first == workers[g]) {
      ++a.layout.back().second;
    } else {
      a.layout.emplace_back(workers[g], 1);
    }
  }
  return a;
}

// Every layout of 1..4 nodes with 1..3 workers each.
void ForEachLayout(const std::function<void(const std::vector<uint32_t>&)>& check) {
  for (uint32_t nodes = 1; nodes <= 4; ++nodes) {
    std::vector<uint32_t> workers(nodes, 1);
    for (;;) {
      check(workers);
      uint32_t digit = 0;
      while (digit < nodes && ++workers[digit] > 3) {
        workers[digit++] = 1;
      }
      if (digit == nodes) {
        break;
      }
    }
  }
}

WorkPlan AllDialects() {
  WorkPlan plan;
  plan.dialects = {"torch",   "slurm", "ompi", "pmi",       "pmix",      "mpich", "mvapich",
                   "horovod", "jsm",   "flux", "deepspeed", "lightning", "tf"};
  return plan;
}

TEST(DialectsTest, W3AllAgreeInEveryLayout) {
  const WorkPlan plan = AllDialects();
  const EnvBase base = FilterEnvironment({}, plan);
  const NodeFacts facts;
  size_t workers_seen = 0;
  ForEachLayout([&](const std::vector<uint32_t>& workers) {
    for (uint32_t g = 0; g < workers.size(); ++g) {
      const Assignment a = Assigned(workers, g);
      for (uint32_t l = 0; l < workers[g]; ++l) {
        const Numbers want = Count(workers, g, l);
        std::map<std::string, std::string> got;
        for (const EnvVar& v : WorkerVariables({plan, a, facts, true, "", {l}, ""}, base)) {
          EXPECT_TRUE(got.emplace(v.name, v.value).second) << v.name << " is set twice";
        }
        for (const auto& [name, number] : Names()) {
          ASSERT_EQ(got[name], std::to_string(want.*number))
              << name << " of local rank " << l << " on node " << g;
        }
        ++workers_seen;
      }
    }
  });
  EXPECT_EQ(workers_seen, 3u * 2 + 9u * 4 + 27u * 6 + 81u * 8);
}

TEST(DialectsTest, W4NoneOfThemPromisesAServer) {
  const WorkPlan plan = AllDialects();
  const EnvBase base = FilterEnvironment({"PMI_FD=3", "PMIX_SERVER_URI2=x"}, plan);
  const Assignment a = Assigned({2}, 0);
  const NodeFacts facts;
  for (const EnvVar& v : WorkerVariables({plan, a, facts, true, "", {0}, ""}, base)) {
    EXPECT_NE(v.name, "PMI_FD");
    EXPECT_NE(v.name, "PMI_PORT");
    EXPECT_NE(v.name, "PMI_ID");
    EXPECT_FALSE(v.name.rfind("PMIX_S", 0) == 0) << v.name;
  }
}

TEST(DialectsTest, OnlyThoseNamedAreSet) {
  WorkPlan plan;
  plan.dialects = {"torch"};
  const EnvBase base = FilterEnvironment({}, plan);
  const NodeFacts facts;
  const Assignment a = Assigned({2}, 0);
  for (const EnvVar& v : WorkerVariables({plan, a, facts, true, "", {0}, ""}, base)) {
    for (const char* prefix : {"PMI", "OMPI_", "MPI_", "SLURM_", "HOROVOD_", "JSM_", "FLUX_",
                               "CROSS_", "LOCAL_SIZE", "NODE_RANK", "MV2_", "TF_CONFIG"}) {
      EXPECT_NE(v.name.rfind(prefix, 0), 0u) << v.name;
    }
  }
}

// Of the worker on this node with local rank 0; of one that has no such variable "-".
std::string ValueOf(const char* name, const WorkPlan& plan, const Assignment& a,
                    const NodeFacts& facts, bool store_is_agent = true,
                    const std::vector<std::string>& inherited = {}) {
  const EnvBase base = FilterEnvironment(inherited, plan);
  WorkerEnvInput input{plan, a, facts, store_is_agent, "", {0}, ""};
  for (const EnvVar& v : WorkerVariables(input, base)) {
    if (v.name == name) {
      return v.value;
    }
  }
  return "-";
}

TEST(HorovodTest, ItsRanksAreSentToTheAgentsStore) {
  WorkPlan plan;
  plan.dialects = {"horovod"};
  NodeFacts facts;
  facts.hostname = "n";
  facts.interface = "eth7";
  facts.address_is_loopback = false;
  Assignment a = Assigned({2, 2}, 1);
  a.master_addr = "10.0.0.1";
  a.master_port = 4000;
  EXPECT_EQ(ValueOf("HOROVOD_HOSTNAME", plan, a, facts), "n-1") << "two nodes may have one name";
  EXPECT_EQ(ValueOf("HOROVOD_GLOO_RENDEZVOUS_ADDR", plan, a, facts), "10.0.0.1");
  EXPECT_EQ(ValueOf("HOROVOD_GLOO_RENDEZVOUS_PORT", plan, a, facts), "4000");
  EXPECT_EQ(ValueOf("HOROVOD_CONTROLLER", plan, a, facts), "gloo");
  EXPECT_EQ(ValueOf("HOROVOD_CPU_OPERATIONS", plan, a, facts), "gloo");
  EXPECT_EQ(ValueOf("HOROVOD_GLOO_IFACE", plan, a, facts), "eth7");
  EXPECT_EQ(ValueOf("HOROVOD_GLOO_IFACE", plan, a, facts, true, {"HOROVOD_GLOO_IFACE=ib0"}), "-")
      << "W2";
  EXPECT_EQ(ValueOf("HOROVOD_GLOO_RENDEZVOUS_ADDR", plan, a, facts, false), "-") << "W4";
  a.one_host = true;
  EXPECT_EQ(ValueOf("HOROVOD_GLOO_IFACE", plan, a, facts), "lo");
}

TEST(HorovodTest, AnMpiIsItsController) {
  WorkPlan plan;
  plan.dialects = {"horovod"};
  const NodeFacts facts;
  const Assignment a = Assigned({2}, 0);
  WorkerEnvInput input{plan, a, facts, true, "", {0}, ""};
  input.mpi = MpiMode::kPmi1;
  bool has_address = false;
  for (const EnvVar& v : WorkerVariables(input, FilterEnvironment({}, plan))) {
    EXPECT_NE(v.name, "HOROVOD_CONTROLLER");
    EXPECT_NE(v.name, "HOROVOD_CPU_OPERATIONS");
    has_address |= v.name == "HOROVOD_GLOO_RENDEZVOUS_ADDR";
  }
  EXPECT_TRUE(has_address) << "one that was built without MPI";
}

TEST(TensorFlowTest, ARoundWithoutPortsIsNotStarted) {
  WorkPlan plan;
  Assignment a = Assigned({2, 1}, 1);
  EXPECT_TRUE(CheckDialects(plan, a).ok());
  plan.dialects = {"horovod", "tf"};
  EXPECT_THAT(CheckDialects(plan, a).message(), HasSubstr("type the same on all nodes"));
  a.world_size = 2049;
  EXPECT_THAT(CheckDialects(plan, a).message(), HasSubstr("at most 2048 workers"));
  a.worker_ports = {{"10.0.0.1", {7001}}};
  EXPECT_TRUE(CheckDialects(plan, a).ok());
}

TEST(HorovodTest, AnAddressThatItCannotReadIsRefused) {
  WorkPlan plan;
  Assignment a = Assigned({2, 1}, 1);
  a.master_addr = "fd77::1";
  EXPECT_TRUE(CheckDialects(plan, a).ok());
  plan.dialects = {"horovod"};
  EXPECT_THAT(CheckDialects(plan, a).message(), HasSubstr("the nodes meet at fd77::1, and"));
  plan.mpi = MpiMode::kPmix;
  EXPECT_TRUE(CheckDialects(plan, a).ok()) << "an MPI is the controller then";
  plan.mpi = MpiMode::kAuto;
  a.master_addr = "10.77.0.1";
  EXPECT_TRUE(CheckDialects(plan, a).ok());
}

TEST(TensorFlowTest, EveryWorkerIsListedByItsRank) {
  WorkPlan plan;
  plan.dialects = {"tf"};
  const NodeFacts facts;
  Assignment a = Assigned({2, 1}, 1);
  EXPECT_EQ(ValueOf("TF_CONFIG", plan, a, facts), "{}");
  a.worker_ports = {{"10.0.0.1", {7001, 7002}}, {"fd00::2", {7003}}};
  EXPECT_EQ(ValueOf("TF_CONFIG", plan, a, facts),
            R"({"cluster": {"worker": ["10.0.0.1:7001", "10.0.0.1:7002", "[fd00::2]:7003"]}, )"
            R"("task": {"type": "worker", "index": 2}})");
  a.ranks_by_node = {2, 0, 1};
  a.ranks = {1};
  EXPECT_EQ(ValueOf("TF_CONFIG", plan, a, facts),
            R"({"cluster": {"worker": ["10.0.0.1:7002", "[fd00::2]:7003", "10.0.0.1:7001"]}, )"
            R"("task": {"type": "worker", "index": 1}})");
}

TEST(LayoutTest, IsWrittenAsSlurmDoes) {
  EXPECT_EQ(LayoutText(Assigned({16, 16, 8, 8, 1}, 2).layout), "16(x2),8(x2),1");
  EXPECT_EQ(LayoutText(Assigned({3, 5}, 1).layout), "3,5");
  EXPECT_EQ(LayoutText(Assigned({7}, 0).layout), "7");
}

TEST(SlurmVariablesTest, DescribeTheWorkerNotTheAgent) {
  const EnvBase base = FilterEnvironment(
      {"SLURM_JOB_ID=9", "SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_JOB_NODELIST=n[1-2]",
       "SLURM_CPUS_PER_TASK=64", "SLURM_TASK_PID=77"},
      {});
  std::vector<EnvVar> out;
  const Assignment a = Assigned({16, 16}, 1);
  AppendSlurm(a, PlaceOf(a, {3}), base, "n2", 4, out);
  std::map<std::string, std::string> got;
  for (const EnvVar& v : out) {
    got[v.name] = v.value;
  }
  EXPECT_EQ(got["SLURM_PROCID"], "19");
  EXPECT_EQ(got["SLURM_TASKS_PER_NODE"], "16(x2)");
  EXPECT_EQ(got["SLURM_STEP_TASKS_PER_NODE"], "16(x2)");
  EXPECT_EQ(got["SLURM_NTASKS_PER_NODE"], "16");
  EXPECT_EQ(got["SLURM_STEP_NODELIST"], "n[1-2]");
  EXPECT_EQ(got["SLURM_CPUS_PER_TASK"], "4");
  EXPECT_EQ(got["SLURM_GTIDS"], "16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31");
  EXPECT_EQ(got.count("SLURM_TASK_PID"), 0u);

  out.clear();
  const Assignment unequal = Assigned({2, 1}, 0);
  AppendSlurm(unequal, PlaceOf(unequal, {0}), EnvBase{}, "n1", 4, out);
  for (const EnvVar& v : out) {
    EXPECT_NE(v.name, "SLURM_NTASKS_PER_NODE") << "only for equal nodes";
    EXPECT_NE(v.name, "SLURM_CPUS_PER_TASK") << "only where it was set";
    EXPECT_NE(v.name, "SLURM_STEP_NODELIST") << "not known for several nodes";
  }
}

TEST(DialectsTest, EveryWordIsThereOnce) {
  std::vector<std::string> want = AllDialects().dialects;
  want.insert(want.end(), {"slurm-keep", "slurm-scrub"});
  EXPECT_THAT(DialectWords(), UnorderedElementsAreArray(want));
}

}  // namespace
}  // namespace muster
