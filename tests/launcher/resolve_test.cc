#include "launcher/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "launcher/options.h"
#include "launcher/schedule/pbs.h"
#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::map<std::string, std::string>& Files() {
  static const std::map<std::string, std::string> files = {
      {"two", "a slots=2\nb slots=2\n"},
      {"more", "c\n"},
      {"again", "b\n"},
      {"ports", "a port=1\na port=2\n"},
      {"third", "a port=3\n"},
      {"bad", "a slots=x\n"},
      {"mixed", "a slots=2\nb\n"},
      {"/etc/hosts", "10.0.0.2 train-1.mesh.svc train-1\n"}};
  return files;
}

absl::StatusOr<std::string> Read(const std::string& path) {
  const auto it = Files().find(path);
  if (it == Files().end()) {
    return absl::NotFoundError("No such file or directory");
  }
  return it->second;
}

absl::StatusOr<JobSpec> Resolve(absl::string_view line, const Environment& environment = {}) {
  const std::vector<std::string> args = absl::StrSplit(line, ' ', absl::SkipEmpty());
  auto command = ParseCommandLine(args, environment);
  if (!command.ok()) {
    return command.status();
  }
  if (const absl::Status status = ResolveHosts(command->spec, Read, environment); !status.ok()) {
    return status;
  }
  return std::move(command->spec);
}

// "way min-max: host=workers ..." ; "?" = found out there; of a job typed on every node, this one's
// workers.
std::string Shape(absl::string_view line, const Environment& environment = {}) {
  const auto spec = Resolve(line, environment);
  if (!spec.ok()) {
    return absl::StrCat("error: ", spec.status().message());
  }
  std::string out =
      absl::StrCat(StartWayName(spec->way), " ", spec->nodes_min, "-", spec->nodes_max, ":");
  for (const NodeWorkers& node : spec->nodes) {
    absl::StrAppend(&out, " ", node.host.name, "=",
                    node.wanted == WorkersWanted::kNumber ? absl::StrCat(node.workers) : "?");
  }
  return spec->nodes.empty() ? absl::StrCat(out, " own=", spec->plan.workers) : out;
}

struct Case {
  const char* line;
  const char* shape;
};
class Shapes : public testing::TestWithParam<Case> {};
TEST_P(Shapes, AreWhatTheUserMeans) { EXPECT_EQ(Shape(GetParam().line), GetParam().shape); }

INSTANTIATE_TEST_SUITE_P(
    Ways, Shapes,
    testing::Values(
        // one machine
        Case{"p", "local 1-1: =1"}, Case{"--nproc-per-node 4 p", "local 1-1: =4"},
        Case{"-n 4 p", "local 1-1: =4"}, Case{"-n 4 --nproc-per-node 4 p", "local 1-1: =4"},
        Case{"-n 3 -ppn 4 p", "local 1-1: =3"}, Case{"-ppn 2 p", "local 1-1: =2"},
        Case{"--nproc-per-node gpu p", "local 1-1: =?"},
        Case{"--standalone --nproc-per-node 2 p", "local 1-1: =2"},
        Case{"--nnodes 1 --rdzv-backend c10d --rdzv-endpoint localhost:0 --nproc-per-node 2 p",
             "local 1-1: =2"},
        Case{"--node-rank 0 --master-addr 127.0.0.1 --master-port 29501 p", "local 1-1: =1"},
        // several nodes on one machine
        Case{"--standalone --nnodes 2 --nproc-per-node 2 p", "standalone 2-2: =2 =2"},
        Case{"--standalone --nnodes 3 -n 7 p", "standalone 3-3: =3 =2 =2"},
        Case{"--standalone --nnodes 2 -n 5 -ppn 3 p", "standalone 2-2: =3 =2"},
        // hosts
        Case{"--hosts a,b p", "hosts 2-2: a=1 b=1"},
        Case{"--hosts a:4,b:4 p", "hosts 2-2: a=4 b=4"},
        Case{"--hosts a,b --nproc-per-node 16 p", "hosts 2-2: a=16 b=16"},
        Case{"-np 6 -hosts a:4,b:4 p", "hosts 2-2: a=4 b=2"},
        Case{"-n 4 -ppn 2 -hosts a,b,c p", "hosts 2-2: a=2 b=2"},
        Case{"--hosts a,b,c --nnodes 2 p", "hosts 2-2: a=1 b=1"},
        Case{"--hosts a,b,c --nnodes 1:2 p", "hosts 1-2: a=1 b=1"},
        Case{"--hosts a,b --nnodes 1:4 p", "hosts 1-2: a=1 b=1"},
        Case{"--hosts a,b,c --nnodes 2 --spares 1 p", "hosts 2-2: a=1 b=1 c=1"},
        Case{"--hosts a,b,c --spares 1 p", "hosts 2-2: a=1 b=1 c=1"},
        Case{"--hosts a,b,c,d --nnodes 1:2 --spares 1 p", "hosts 1-2: a=1 b=1 c=1"},
        Case{"--hosts a,b,c --nnodes 1:3 --spares 1 p", "hosts 1-2: a=1 b=1 c=1"},
        Case{"--hosts a,b --nnodes 2 --spares 0 p", "hosts 2-2: a=1 b=1"},
        Case{"--hosts a --host b p", "hosts 2-2: a=1 b=1"},
        Case{"--hosts a,b --nproc-per-node auto p", "hosts 2-2: a=? b=?"},
        Case{"--hostfile two p", "hosts 2-2: a=2 b=2"}, Case{"-f two -n 3 p", "hosts 2-2: a=2 b=1"},
        Case{"-f two --hostfile more p", "hosts 3-3: a=2 b=2 c=1"},
        Case{"-f ports p", "hosts 2-2: a=1 a=1"},
        Case{"-f ports --hostfile third p", "hosts 3-3: a=1 a=1 a=1"},
        Case{"-f mixed p", "hosts 2-2: a=2 b=?"}, Case{"--hosts a p", "hosts 1-1: a=1"},
        // typed on every node
        Case{"--nnodes 2 --nproc-per-node 16 --rdzv-endpoint a:2000 p", "typed 2-2: own=16"},
        Case{"--nnodes 2:4 --rdzv-endpoint a p", "typed 2-4: own=1"},
        Case{"--nnodes 2 -n 8 --rdzv-endpoint a p", "typed 2-2: own=4"},
        Case{"--nnodes 2 -n 5 --node-rank 1 --master-addr a p", "typed 2-2: own=2"},
        Case{"--nnodes 2 --rdzv-endpoint file:///s/j p", "typed 2-2: own=1"},
        Case{"--nnodes 2 --rdzv-endpoint a:2000,b:2000 p", "typed 2-2: own=1"},
        // neither
        Case{"--nnodes 2 --nproc-per-node 16 p", "serve 2-2: own=16"},
        Case{"--nnodes 2 --node-rank 0 p", "serve 2-2: own=1"}));

class Refused : public testing::TestWithParam<Case> {};
TEST_P(Refused, WithBothSidesNamed) {
  const std::string shape = Shape(GetParam().line);
  EXPECT_THAT(shape, HasSubstr("error: "));
  for (absl::string_view part : absl::StrSplit(GetParam().shape, '|')) {
    EXPECT_THAT(shape, HasSubstr(std::string(part)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Contradictions, Refused,
    testing::Values(
        Case{"-n 5 --hosts a:2,b:2 p", "-n 5|--hosts a:2,b:2|4 slots"},
        Case{"--hosts a,b --nnodes 2 --spares 1 p", "--spares 1|3 hosts|--hosts a,b names 2"},
        Case{"--hosts a,b:2,c --spares 1 p", "--spares 1|b 2|--nproc-per-node"},
        Case{"--hosts a,b -n 2 --spares 1 p", "-n 2|--spares 1"},
        Case{"--spares 1 p", "--spares 1|nobody can wait"},
        Case{"--nnodes 2 --journal j --node-rank 0 --rdzv-endpoint a:2000 p",
             "--journal j|--serve"},
        Case{"--nnodes 2 --journal j --node-rank 0 --serve p", "--journal j|HOST:PORT"},
        Case{"--nnodes 2 --journal j --serve --rdzv-endpoint a:2000 p", "--journal j|--node-rank"},
        Case{"--journal j --node-rank 0 --serve --rdzv-endpoint a:2000 p", "--journal j|--nnodes"},
        Case{"--nnodes 2 --journal j --node-rank 0 --serve --rdzv-endpoint file:///x p",
             "--journal j|HOST:PORT"},
        Case{"--nnodes 2 --journal j --node-rank 0 --serve --rdzv-endpoint a:2000 --detach p",
             "--journal j|--detach|typed again"},
        Case{"--standalone --nnodes 2 --journal j p", "--standalone|--journal j"},
        Case{"--nnodes 2 --spares 1 --node-rank 3 --master-addr a p", "--node-rank 3|0..2"},
        Case{"--standalone --hosts a p", "--standalone|--hosts a"},
        Case{"--standalone -f two p", "--standalone|-f two"},
        Case{"-n 5 --nproc-per-node 2 p", "-n 5|--nproc-per-node 2|one node"},
        Case{"-n 5 --nproc-per-node 2 --hosts a,b p", "-n 5|--nproc-per-node 2"},
        Case{"-ppn 3 --nproc-per-node 2 p", "-ppn 3|--nproc-per-node 2"},
        Case{"-n 5 --nproc-per-node auto p", "-n 5|--nproc-per-node auto"},
        Case{"-n 4 --nnodes 1:2 --hosts a:2,b:2 p", "-n 4|--nnodes 1:2"},
        Case{"--hosts a -f two p", "--hosts a|-f two"},
        Case{"--hosts a --rdzv-endpoint b p", "--hosts a|--rdzv-endpoint b"},
        Case{"--hosts a --node-rank 0 p", "--hosts a|--node-rank 0"},
        Case{"-m --no-python p", "-m|--no-python"},
        Case{"--no-prefix --log-prefix {rank} p", "--no-prefix|--log-prefix {rank}"},
        Case{"-q -v p", "-q|-v"}, Case{"--hosts a,b --nnodes 3 p", "--nnodes 3|--hosts a,b"},
        Case{"--node-rank 2 --nnodes 2 --master-addr a p", "--node-rank 2|--nnodes 2"},
        Case{"--node-rank 1 p", "--node-rank 1|no --nnodes"},
        Case{"--node-rank 1 --nnodes 2 p", "--node-rank 1|--master-addr"},
        Case{"--nnodes 2 --rdzv-endpoint a:0 p", "--rdzv-endpoint a:0|--nnodes 2"},
        Case{"--nnodes 2 --master-addr a --master-port 0 p", "--master-port 0|--nnodes 2"},
        Case{"--nnodes 2 -n 5 --rdzv-endpoint a p", "-n 5|--nnodes 2|--node-rank"},
        Case{"-n 4 -ppn 2 p", "-n 4|-ppn 2|2 nodes"},
        Case{"-n 1 --nnodes 2 --standalone p", "-n 1|--nnodes 2"},
        Case{"--json p", "--json|--plan"}, Case{"--yaml p", "--yaml|--plan|--config"},
        Case{"--plan --json --yaml p", "--json and --yaml contradict"},
        Case{"--dialect horovod --store worker p",
             "--store worker and --dialect horovod contradict: Horovod's ranks meet at the agent"},
        Case{"-n 5000 p", "-n 5000|4096"},
        Case{"--nnodes 16384 --nproc-per-node 4096 --standalone p", "--nnodes 16384|1048576"},
        Case{"--serve --nnodes 2 --rdzv-conf is_host=0 --rdzv-endpoint a p", "--serve|is_host=0"},
        Case{"--serve --nnodes 2 --rdzv-endpoint a,b p",
             "--serve|--rdzv-endpoint a,b|no node serves"},
        Case{"--nnodes 2 --rdzv-conf is_host=1 --rdzv-endpoint a,b p", "is_host=1|--rdzv-endpoint"},
        Case{"--insecure --secret-file f p", "--insecure|--secret-file f"},
        Case{"--insecure --rdzv-fingerprint "
             "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU p",
             "--insecure|--rdzv-fingerprint SHA256:47DEQ"},
        Case{"--plan --explain-env p", "--plan|--explain-env"},
        Case{"--hostfile nope p", "--hostfile nope|No such file"},
        Case{"--hostfile bad p", "bad:1|got 'x'"}, Case{"-f two -f again p", "again: host 'b'"},
        Case{"-f mixed -n 3 p", "-n 3|'b'|slots=N"}));

TEST(Resolve, AFingerprintIsOfADaemonThatIsAsked) {
  const std::string print = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
  const std::string typed = absl::StrCat("--rdzv-fingerprint ", print);
  for (const char* asks : {"--nnodes 2 --rdzv-endpoint a", "--nnodes 2 --rdzv-endpoint a,b"}) {
    const JobSpec spec = *Resolve(absl::StrCat(asks, " ", typed, " p"));
    EXPECT_EQ(spec.rendezvous.fingerprint, print);
    EXPECT_THAT(spec.notes, ElementsAre()) << asks;
  }
  for (const char* asks_none :
       {"-n 2", "--nnodes 2 --hosts a,b", "--nnodes 2 --standalone", "--nnodes 2",
        "--nnodes 2 --rdzv-endpoint a --serve", "--nnodes 2 --rdzv-endpoint file:///f"}) {
    EXPECT_THAT(Resolve(absl::StrCat(asks_none, " ", typed, " p"))->notes,
                ElementsAre(typed + " has no effect: this launch asks no daemon"))
        << asks_none;
    EXPECT_THAT(Resolve(absl::StrCat(asks_none, " p"), {{"MUSTER_RDZV_FINGERPRINT", print}})->notes,
                ElementsAre())
        << asks_none;
  }
}

TEST(Resolve, TasksOfAStepAreTheNodesOfAJobThatNobodyDescribes) {
  const auto first = Resolve("p", SlurmTask("0"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->way, StartWay::kTyped);
  EXPECT_EQ(first->nodes_min, 2U);
  EXPECT_EQ(first->nodes_max, 2U);
  EXPECT_EQ(first->plan.job_id, "slurm-17.2");
  EXPECT_EQ(first->rendezvous.host, "node1");
  EXPECT_EQ(first->rendezvous.is_host, true);
  EXPECT_EQ(first->plan.workers, 6U);
  EXPECT_THAT(first->notes,
              ElementsAre("Slurm job 17, step 2: 2 nodes, 6 workers on the first, as many as its "
                          "CPUs (--nproc-per-node says otherwise)"));
  const auto second = Resolve("--nproc-per-node 3 --rdzv-id mine --tee 3 p", SlurmTask("1"));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->node_rank, 1U);
  EXPECT_EQ(second->rendezvous.is_host, false);
  EXPECT_EQ(second->rendezvous.port, first->rendezvous.port);
  EXPECT_EQ(second->plan.job_id, "mine");
  EXPECT_EQ(second->plan.workers, 3U);
  EXPECT_THAT(second->notes, IsEmpty());  // the first node says them
}

TEST(Resolve, WhatTheCommandSaysOfAStepWinsOrIsRefused) {
  const Environment task = SlurmTask("1");
  EXPECT_EQ(Shape("-n 3 p", task), "typed 2-2: own=1");
  EXPECT_EQ(Shape("-n 4 p", task), "typed 2-2: own=2");
  EXPECT_EQ(Shape("--nnodes 1:2 p", task), "typed 1-2: own=6");
  EXPECT_EQ(Shape("--standalone p", task), "local 1-1: =1");
  EXPECT_EQ(Shape("--hosts a,b p", task), "hosts 2-2: a=1 b=1");
  EXPECT_EQ(Resolve("--nnodes 3 --rdzv-endpoint c:29400 p", task)->rendezvous.host, "c");
  EXPECT_THAT(Shape("--nnodes 3 p", task),
              HasSubstr("--nnodes 3: srun has started launch on 2 nodes (Slurm job 17, step 2): "
                        "leave it out"));
  EXPECT_THAT(Shape("--rankfile ranks p", task), HasSubstr("leave srun out"));
}

TEST(Resolve, ContradictionsWithTheEnvironmentAreNotes) {
  const auto hosts =
      Resolve("--hosts a,b p",
              {{"PET_NNODES", "4"}, {"PET_RDZV_ENDPOINT", "x:2000"}, {"PET_NODE_RANK", "1"}});
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(hosts->nodes.size(), 2u);
  EXPECT_EQ(hosts->notes.size(), 3u);
  EXPECT_EQ(Shape("p", {{"PET_NNODES", "2"},
                        {"PET_NPROC_PER_NODE", "3"},
                        {"PET_NODE_RANK", "1"},
                        {"PET_MASTER_ADDR", "job-0"},
                        {"PET_MASTER_PORT", "23456"}}),
            "typed 2-2: own=3");
}

TEST(Resolve, StaticFormByEndpoint) {
  constexpr char kForm[] = "--nnodes 2 --rdzv-backend static --rdzv-endpoint node0:29502 ";
  for (const char* rank : {"--node-rank 1 p", "p"}) {
    const auto given = Resolve(absl::StrCat(kForm, rank));
    ASSERT_TRUE(given.ok() && given->rendezvous.is_static) << rank;
    EXPECT_TRUE(given->rendezvous.host == "node0" && given->master_port == 29502) << rank;
  }
  for (const char* other : {"--nnodes 2 --rdzv-backend c10d --rdzv-endpoint node0:29502 p",
                            "--nnodes 2 --rdzv-endpoint node0:29502 p",
                            "--nnodes 2 --rdzv-backend static --rdzv-endpoint file:///a p",
                            "--nnodes 2 --rdzv-backend static --rdzv-endpoint a:2000,b:2000 p",
                            "--rdzv-backend static --rdzv-endpoint node0:29502 p"}) {
    const auto spec = Resolve(other);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_FALSE(spec->rendezvous.is_static) << other;
    EXPECT_EQ(spec->master_port, std::nullopt) << other;
  }
  const auto no_port = Resolve("--nnodes 2 --rdzv-backend static --rdzv-endpoint node0:0 p");
  EXPECT_THAT(std::string(no_port.status().message()), HasSubstr("--rdzv-endpoint node0:0: with"));
}

TEST(Resolve, NoNodeIsFoundAtEveryAddress) {
  for (const char* where : {"--rdzv-endpoint 0.0.0.0:29500", "--rdzv-endpoint [::]:29500",
                            "--node-rank 0 --master-addr 0.0.0.0"}) {
    EXPECT_THAT(Resolve(absl::StrCat("--nnodes 2 ", where, " p")).status().ToString(),
                HasSubstr("stands for every address of one machine"));
  }
  EXPECT_TRUE(Resolve("--nnodes 2 --serve --rdzv-endpoint 0.0.0.0:29500 p").ok());
  EXPECT_TRUE(Resolve("--nnodes 1 --rdzv-endpoint 0.0.0.0:29500 p").ok());
}

TEST(Resolve, StaticFormSharesOnePort) {
  const auto given = Resolve("--nnodes 2 --node-rank 1 --master-addr node0 --master-port 29501 p");
  ASSERT_TRUE(given.ok());
  EXPECT_TRUE(given->rendezvous.is_static);
  EXPECT_EQ(given->rendezvous.host, "node0");
  EXPECT_EQ(given->rendezvous.port, 29501);
  EXPECT_EQ(given->master_port, 29501);
  EXPECT_EQ(Resolve("--nnodes 2 --master-addr node0 p")->rendezvous.port, 29500);
  EXPECT_EQ(Resolve("--nnodes 2 --master-addr node0 p")->master_port, 29500);
  EXPECT_EQ(Resolve("--nnodes 2 --rdzv-endpoint a,b:2000,[::1] p")->rendezvous.others,
            (std::vector<std::string>{"b:2000", "[::1]:29400"}));
  const auto endpoint = Resolve("--nnodes 2 --master-addr node0 --rdzv-endpoint node1 p");
  EXPECT_EQ(endpoint->rendezvous.host, "node1");
  EXPECT_EQ(endpoint->rendezvous.port, 29400);
  EXPECT_EQ(endpoint->master_addr, "");
  EXPECT_THAT(endpoint->notes, ElementsAre(HasSubstr("--master-addr node0 is not used")));
  EXPECT_EQ(Resolve("--master-addr 127.0.0.1 --master-port 29501 p")->master_port, 29501);
}

TEST(Resolve, StandaloneWinsOverWhereToMeet) {
  const auto spec = Resolve("--standalone --nnodes 2 --rdzv-endpoint localhost:29400 p");
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->way, StartWay::kStandalone);
  EXPECT_EQ(spec->rendezvous.host, "");
  EXPECT_THAT(spec->notes, ElementsAre(HasSubstr("is not used: --standalone")));
}

TEST(Resolve, ARankThatIsNotThereIsRefused) {
  const auto says = [](const std::string& line) {
    return std::string(Resolve(line).status().message());
  };
  EXPECT_EQ(says("-n 2 --show 0-2 p"), "--show 0-2: there is no rank 2, the job has 2 workers");
  EXPECT_EQ(says("-n 2 --stdin 7 p"), "--stdin 7: there is no rank 7, the job has 2 workers");
  EXPECT_EQ(says("--hosts a:1,b:1 --show 2 p"),
            "--show 2: there is no rank 2, the job has 2 workers");
  EXPECT_TRUE(Resolve("-n 2 --show 1 --stdin 1 p").ok());
  EXPECT_TRUE(Resolve("-n 2 --stdin all p").ok());
}

TEST(Resolve, FilesOfOutputNeedAPlace) {
  const auto redirects = Resolve("-r 3 p");
  EXPECT_EQ(redirects->plan.output.log_dir, "muster-logs");
  EXPECT_THAT(redirects->notes, ElementsAre(HasSubstr("muster-logs")));
  const auto tee = Resolve("-t 3 p");
  EXPECT_FALSE(tee->plan.output.tee.Any());
  EXPECT_THAT(tee->notes, ElementsAre(HasSubstr("no file is written")));
  const auto both = Resolve("-t 3 --log-dir d p");
  EXPECT_TRUE(both->plan.output.tee.Any());
  EXPECT_THAT(both->notes, IsEmpty());
  const auto folder = Resolve("--output-filename d p");
  EXPECT_TRUE(folder->plan.output.tee.Any());
  EXPECT_THAT(folder->notes, IsEmpty());
  EXPECT_THAT(std::string(Resolve("--output-filename d --log-dir e p").status().message()),
              HasSubstr(":nocopy behind the folder"));
  EXPECT_THAT(Resolve("--log-layout torchrun --duplicate-stderr-filters x p")->notes,
              ElementsAre("--log-layout torchrun has no effect without --log-dir",
                          "--duplicate-stderr-filters x has no effect without --log-dir"));
  EXPECT_THAT(Resolve("--log-layout torchrun --log-dir d p")->notes, IsEmpty());
}

TEST(Resolve, WhatDetachedJobsHaveOrLackIsSaid) {
  EXPECT_THAT(Resolve("--name x p")->notes, ElementsAre(HasSubstr("without --detach")));
  EXPECT_THAT(Resolve("--name x --detach --stdin none p")->notes, IsEmpty());
  EXPECT_THAT(Resolve("-n 2 --detach --stdin 1 p")->notes, ElementsAre(HasSubstr("has no stdin")));
}

TEST(Resolve, MoreHostsThanNodesIsSaidOnce) {
  EXPECT_THAT(Resolve("--hosts a,b,c --nnodes 2 p")->notes,
              ElementsAre("the first 2 of 3 hosts are used (--nnodes 2)"));
}

TEST(Resolve, ExcludedHostsAreNotUsed) {
  const auto spec = Resolve("--hosts a:2,b:2,me@node[1-3] --exclude B --exclude node[2-3] p");
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->nodes.size(), 2u);
  EXPECT_EQ(spec->nodes[0].host.name, "a");
  EXPECT_EQ(spec->nodes[1].host.name, "node1");
  const auto message = [](const char* line) {
    return std::string(Resolve(line).status().message());
  };
  EXPECT_EQ(message("--hosts a,b --exclude c p"), "--exclude c: host 'c' is not in the list (a,b)");
  EXPECT_THAT(message("--hosts a,b:2 --exclude b:1 p"), HasSubstr("say b alone, or give the host"));
  EXPECT_EQ(message("--hosts a,b --exclude a --exclude b p"),
            "--exclude a,b leaves no host of the list (a,b)");
  EXPECT_THAT(message("--exclude a p"), HasSubstr("say --hosts or --hostfile, too"));
  EXPECT_THAT(message("--hosts a --exclude a:x p"), HasSubstr("got 'x'"));
}

TEST(Resolve, AWrapperForARankThatIsNotThereIsRefused) {
  EXPECT_TRUE(Resolve("-n 4 --wrap 0-3:time p").ok());
  EXPECT_EQ(std::string(Resolve("-n 4 --wrap 2-4:time p").status().message()),
            "--wrap 2-4:time: there is no rank 4, the job has 4 workers");
  EXPECT_FALSE(Resolve("--hosts a:2,b:2 --wrap 4:time p").ok());
  EXPECT_TRUE(Resolve("--nproc-per-node auto --wrap 99:time p").ok());
}

TEST(Resolve, UnderPbsItsNodesAndItsTimeAreTaken) {
  const Environment pbs = {{"PBS_JOBID", "3.s"}, {"PBS_NODEFILE", "two"}};
  EXPECT_EQ(Shape("p", pbs), "hosts 2-2: a=2 b=2");
  EXPECT_EQ(Shape("--nproc-per-node 5 p", pbs), "hosts 2-2: a=5 b=5");
  EXPECT_EQ(Shape("--nnodes 1 -n 2 p", pbs), "hosts 1-1: a=2");
  EXPECT_EQ(
      Shape("-n 5 p", pbs),
      "error: -n 5 does not fit: PBS job 3.s has 4 slots on 2 hosts; give the hosts their slots "
      "(as in 'a:3'), or allow it with --oversubscribe");
  EXPECT_EQ(Shape("--standalone p", pbs), "local 1-1: =1");
  EXPECT_EQ(Shape("--hosts c p", pbs), "hosts 1-1: c=1");
  EXPECT_EQ(Resolve("p", pbs)->plan.grace, kPbsGrace);
  EXPECT_EQ(Resolve("--standalone p", pbs)->plan.grace, kPbsGrace);
  EXPECT_EQ(Resolve("--grace 20 p", pbs)->plan.grace, absl::Seconds(20));
  EXPECT_EQ(Resolve("p")->plan.grace, kGrace);
}

TEST(Resolve, SlurmWinsOverPbs) {
  EXPECT_EQ(Shape("p", {{"PBS_JOBID", "3.s"},
                        {"PBS_NODEFILE", "two"},
                        {"SLURM_JOB_ID", "7"},
                        {"SLURM_JOB_NODELIST", "n[1-2]"}}),
            "hosts 2-2: n1=1 n2=1");
  EXPECT_EQ(Resolve("--standalone p", {{"PBS_JOBID", "3.s"}, {"SLURM_JOB_ID", "7"}})->plan.grace,
            absl::Seconds(25));
}

TEST(Resolve, TheJobsNameIsTheRendezvousId) {
  EXPECT_EQ(Resolve("--rdzv-id job7 p")->plan.job_id, "job7");
  EXPECT_EQ(Resolve("p")->plan.job_id, "");
}

TEST(Terminals, AreOfOneRankThatThereIs) {
  const JobSpec spec = SpecOf("-n 4 --pty 3 ./a");
  ASSERT_TRUE(spec.plan.pty.has_value());
  EXPECT_EQ(spec.plan.pty->rank, 3u);
  EXPECT_EQ(spec.plan.stdin_rank, 3u);
  const auto refusal = [](absl::string_view line) {
    auto command = ParseCommandLine(std::vector<std::string>(absl::StrSplit(line, ' ')), {});
    return std::string(
        (command.ok() ? ResolveHosts(command->spec, NoFile) : command.status()).message());
  };
  EXPECT_EQ(refusal("-n 4 --pty 4 a"), "--pty 4: there is no rank 4, the job has 4 workers");
  EXPECT_THAT(refusal("--pty 0,1 a"), HasSubstr("--pty: want one rank: there is one terminal"));
  EXPECT_THAT(refusal("--nnodes 2 --pty 0 a"), HasSubstr("let launch start the nodes (--hosts)"));
  EXPECT_THAT(refusal("--pty 0 --stdin 0 a"), HasSubstr("--stdin 0 contradict"));
  EXPECT_THAT(refusal("--pty 0 --detach a"), HasSubstr("a detached job has no terminal"));
  EXPECT_THAT(refusal("--pty 0 --gdb 0 a"), HasSubstr("there is one terminal"));
}

TEST(Terminals, ADebuggerStandsRightBeforeTheProgram) {
  const JobSpec spec = SpecOf("-n 2 --gdb 1 --wrap 0-1:nice ./a");
  ASSERT_EQ(spec.plan.wraps.size(), 2u);
  EXPECT_EQ(spec.plan.wraps[1].ranks, std::vector<uint32_t>{1});
  EXPECT_EQ(spec.plan.wraps[1].argv, (std::vector<std::string>{"gdb", "--args"}));
  auto other = ParseCommandLine({"--gdb", "0", "./a"}, {{"MUSTER_DEBUGGER", "lldb --"}});
  ASSERT_TRUE(other.ok() && ResolveHosts(other->spec, NoFile).ok());
  EXPECT_EQ(other->spec.plan.wraps[0].argv, (std::vector<std::string>{"lldb", "--"}));
  EXPECT_FALSE(ParseCommandLine({"--gdb", "0", "./a"}, {{"MUSTER_DEBUGGER", "'"}}).ok());
}

// "host:port rank serves id" of a job in the pod of index 1.
std::string Meets(absl::string_view line, const std::string& hostname = "train-1") {
  const auto spec =
      Resolve(line, {{"JOB_COMPLETION_INDEX", "1"}, {"HOSTNAME", hostname}, {"PATH", "/bin"}});
  if (!spec.ok()) {
    return absl::StrCat("error: ", spec.status().message());
  }
  const RendezvousSpec& r = spec->rendezvous;
  return absl::StrCat(r.host, ":", r.port, " rank ",
                      spec->node_rank.has_value() ? absl::StrCat(*spec->node_rank) : "-", " ",
                      !r.is_host.has_value() ? "by address"
                      : *r.is_host           ? "serves"
                                             : "joins",
                      " ", r.id);
}

TEST(ResolvePods, TheyMeetAtTheFirst) {
  EXPECT_EQ(Meets("--nnodes 2 p"), "train-0.mesh.svc:29400 rank 1 joins train");
  EXPECT_EQ(Meets("--nnodes 2 --rdzv-endpoint train-0.x:7000 p"),
            "train-0.x:7000 rank 1 joins train");
  EXPECT_EQ(Meets("--nnodes 2 --rdzv-endpoint site:7000 --rdzv-id j p"),
            "site:7000 rank 1 by address j");
  EXPECT_EQ(Meets("--nnodes 2 --master-addr m p"), "m:29500 rank 1 by address train");
  EXPECT_EQ(Meets("--nnodes 2 --rdzv-conf is_host=1 p"),
            "train-0.mesh.svc:29400 rank 1 serves train");
}

TEST(ResolvePods, WhatTheUserSaysAboutPlacesCountsMore) {
  for (const char* line : {"p", "--nnodes 2 --hosts a,b p", "--nnodes 2 --standalone p",
                           "--nnodes 2 --serve p", "--nnodes 2 --node-rank 0 p"}) {
    EXPECT_THAT(Meets(line), HasSubstr(" by address ")) << line;
  }
  EXPECT_EQ(Meets("--nnodes 2 --node-rank 0 --rdzv-endpoint h:7000 p"),
            "h:7000 rank 0 by address ");
}

TEST(ResolvePods, WithoutNamesTheWayOutIsSaid) {
  EXPECT_THAT(Meets("--nnodes 2 p", "other-1"),
              HasSubstr("give the template of Job other a `subdomain`"));
  EXPECT_EQ(Meets("--nnodes 2 --rdzv-endpoint h:7000 p", "other-1"),
            "h:7000 rank 1 by address other");
  EXPECT_THAT(Meets("--nnodes 2 p", "train-2"), HasSubstr("HOSTNAME=train-2: want JOB-1"));
  EXPECT_THAT(Meets("--nnodes 1:1 p", "train-2"), HasSubstr("by address"));
  EXPECT_THAT(Meets("--nnodes 2 --node-rank 0 --master-addr m p", "train-2"),
              HasSubstr("m:29500 rank 0"));
}

}  // namespace
}  // namespace muster
