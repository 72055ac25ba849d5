#include "launcher/node_overrides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/job_file_writer.h"
#include "launcher/join_line.h"
#include "launcher/options.h"
#include "launcher/plan.h"
#include "launcher/resolve.h"
#include "tests/launcher/described.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Args = std::vector<std::string>;

absl::StatusOr<JobSpec> Resolved(const std::string& text, Args args = {},
                                 const Environment& environment = {}) {
  args.insert(args.begin(), {"--config", "job.yaml"});
  auto command = ParseCommandLine(
      args, environment, [&](const std::string&) { return absl::StatusOr<std::string>(text); });
  if (!command.ok()) {
    return command.status();
  }
  const absl::Status resolved = ResolveHosts(command->spec, NoFile);
  return resolved.ok() ? absl::StatusOr<JobSpec>(std::move(command->spec)) : resolved;
}

JobSpec Ok(const std::string& text, const Args& args = {}, const Environment& environment = {}) {
  auto spec = Resolved(text, args, environment);
  EXPECT_TRUE(spec.ok()) << text << spec.status();
  return spec.ok() ? *std::move(spec) : JobSpec();
}

std::string Error(const std::string& text, const Args& args = {}) {
  const auto spec = Resolved(text, args);
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(spec.status().message());
}

WorkPlan PlanOfNode(const JobSpec& spec, const std::string& host, std::optional<uint32_t> place) {
  WorkPlan plan = spec.plan;
  TakeNodeOverrides(spec, host, place, plan);
  return plan;
}

constexpr char kTwo[] =
    "hosts: [a, b]\nenv: {X: all, Y: all}\nwdir: /all\nprologue: one\ncommand: p\n"
    "nodes:\n"
    "  b: {env: {X: own, Z: , H: }, wdir: /own, iface: eth1, prologue: two}\n"
    "  0: {env: {X: first}}\n";

TEST(NodeOverrides, AJobOfOneNodeKnowsItsNameWhenItLooks) {
  constexpr char kOne[] = "command: p\nnodes:\n  b: {env: {X: own}}\n";
  const auto check = [](JobSpec spec, const std::string& host) {
    spec.notes.clear();
    const absl::Status known = CheckOwnName(spec, host);
    return known.ok() ? absl::StrJoin(spec.notes, "\n") : std::string(known.message());
  };
  EXPECT_EQ(check(Ok(kOne), "b.cluster"), "");
  EXPECT_EQ(check(Ok("command: p\nnodes:\n  0: {env: {X: own}}\n"), "a"), "");
  EXPECT_EQ(
      check(Ok(kOne), "a"),
      "job.yaml:3:3: nodes: 'b' is no node of this job, which runs on this machine alone: name "
      "it a or 0, or type --nnodes 1 to leave it out");
  EXPECT_EQ(check(Ok(kOne, {"--nnodes", "1"}), "a"),
            "job.yaml:3:3: nodes: 'b' is not used: the job has no such node");
}

TEST(NodeOverrides, AreForTheNodeThatIsNamed) {
  const JobSpec spec = Ok(kTwo, {}, {{"H", "here"}});
  const WorkPlan a = PlanOfNode(spec, "a", 0);
  EXPECT_THAT(a.env_set, ElementsAre("Y=all", "X=first"));
  EXPECT_EQ(a.wdir, "/all");
  EXPECT_EQ(a.iface, "");
  const WorkPlan b = PlanOfNode(spec, "B.cluster", 1);
  EXPECT_THAT(b.env_set, ElementsAre("Y=all", "X=own", "H=here"));
  EXPECT_EQ(b.wdir, "/own");
  EXPECT_EQ(b.iface, "eth1");
  EXPECT_EQ(b.prologue, "one\ntwo");
  EXPECT_THAT(PlanOfNode(spec, "c", 2).env_set, ElementsAre("X=all", "Y=all"));
}

TEST(NodeOverrides, WhatIsTypedWins) {
  const JobSpec spec = Ok(kTwo, {"-x", "X=typed", "--wdir", "/typed"});
  const WorkPlan b = PlanOfNode(spec, "b", 1);
  EXPECT_THAT(b.env_set, ElementsAre("Y=all", "X=typed"));
  EXPECT_EQ(b.wdir, "/typed");
  EXPECT_EQ(b.iface, "eth1");
}

TEST(NodeOverrides, SeveralProgramsHaveTheVariables) {
  const JobSpec spec =
      Ok("hosts: [a:2]\nprograms: [{np: 1, command: p}, {np: 1, wdir: /q, command: q}]\n"
         "nodes: {a: {env: {X: 1}, wdir: /n}}\n");
  const WorkPlan plan = PlanOfNode(spec, "a", 0);
  EXPECT_EQ(plan.wdir, "/n");
  ASSERT_EQ(plan.further.size(), 1u);
  EXPECT_EQ(plan.further[0].wdir, "/q");
  EXPECT_THAT(plan.env_set, ElementsAre("X=1"));
  EXPECT_THAT(plan.further[0].env_set, ElementsAre("X=1"));
}

TEST(NodeOverrides, CountsAreThoseOfTheNode) {
  const JobSpec spec =
      Ok("hosts: [a, b, c]\nnproc-per-node: 2\ncommand: p\n"
         "nodes: {b: {nproc-per-node: 5}, 2: {nproc-per-node: auto}}\n");
  EXPECT_EQ(spec.nodes[0].workers, 2u);
  EXPECT_EQ(spec.nodes[1].workers, 5u);
  EXPECT_EQ(spec.nodes[2].wanted, WorkersWanted::kAuto);
  const JobSpec standalone =
      Ok("standalone: true\nnnodes: 2\ncommand: p\nnodes: {node1: {nproc-per-node: 3}}\n");
  EXPECT_EQ(standalone.nodes[1].workers, 3u);
  EXPECT_EQ(PlanOfNode(standalone, "node1", 1).workers, 3u);
  EXPECT_THAT(
      Error("hosts: ['a:2', 'b:2']\nn: 4\ncommand: p\nnodes: {b: {nproc-per-node: 1}}\n"),
      HasSubstr("job.yaml:4:9: nodes: 'b' says nproc-per-node, but n: 4 (job.yaml line 2)"));
  const JobSpec typed =
      Ok("hosts: [a, b]\ncommand: p\nnodes: {b: {nproc-per-node: 7}}\n", {"-n", "2"});
  EXPECT_THAT(typed.notes, ElementsAre(HasSubstr("is not used: -n was given")));
  EXPECT_EQ(typed.nodes[1].workers, 1u);
}

TEST(NodeOverrides, ANumberIsAPlaceAndNoPartOfAnAddress) {
  const std::string twelve =
      "hosts: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5, 10.0.0.6, 10.0.0.7, 10.0.0.8, "
      "10.0.0.9, 10.0.0.10, 10.0.0.11, 10.0.0.12]\ncommand: p\n";
  const JobSpec spec = Ok(twelve + "nodes: {10: {nproc-per-node: 2}}\n");
  for (size_t i = 0; i < spec.nodes.size(); ++i) {
    EXPECT_EQ(spec.nodes[i].workers, i == 10 ? 2u : 1u) << i;
  }
  EXPECT_THAT(Error("hosts: [10.0.0.1, 10.0.0.2]\ncommand: p\nnodes: {10: {wdir: /x}}\n"),
              HasSubstr("nodes: '10' is no node of this job"));
}

TEST(NodeOverrides, ANumberThatIsAHostsNameIsNoPlace) {
  const JobSpec zeros =
      Ok("hosts: ['001', '002']\ncommand: p\nnodes: {'001': {nproc-per-node: 4}}\n");
  EXPECT_EQ(zeros.nodes[0].workers, 4u);
  EXPECT_EQ(zeros.nodes[1].workers, 1u);
  const JobSpec turned =
      Ok("hosts: ['1', '0']\ncommand: p\nnodes: {0: {env: {X: a}}, 1: {env: {X: b}}}\n");
  EXPECT_THAT(PlanOfNode(turned, "1", 0).env_set, ElementsAre("X=b"));
  EXPECT_THAT(PlanOfNode(turned, "0", 1).env_set, ElementsAre("X=a"));
}

TEST(NodeOverrides, ANodeIsNamedOnce) {
  EXPECT_EQ(Error("hosts: [a, b]\ncommand: p\nnodes:\n  b: {wdir: /x}\n  1: {wdir: /y}\n"),
            "job.yaml:5:3: nodes: '1' is the same node as 'b' (job.yaml:4:3): say all of it under "
            "one of the two");
  EXPECT_THAT(
      Error("standalone: true\nnnodes: 2\ncommand: p\nnodes: {0: {wdir: /x}, node0: {wdir: /y}}\n"),
      HasSubstr("nodes: 'node0' is the same node as '0'"));
  EXPECT_THAT(Error("hosts: [b.c]\ncommand: p\nnodes: {b: {wdir: /x}, b.c: {wdir: /y}}\n"),
              HasSubstr("nodes: 'b.c' is the same node as 'b'"));
  JobSpec alone = Ok("command: p\nnodes: {a: {wdir: /x}, 0: {wdir: /y}}\n");
  EXPECT_THAT(CheckOwnName(alone, "a").message(), HasSubstr("'0' is the same node as 'a'"));
  JobSpec typed = Ok("nnodes: 2\ncommand: p\nnodes: {a: {wdir: /x}, 1: {wdir: /y}}\n",
                     {"--rdzv-endpoint", "h:2000", "--node-rank", "1"});
  EXPECT_THAT(CheckOwnName(typed, "a.c").message(), HasSubstr("'1' is the same node as 'a'"));
  EXPECT_TRUE(CheckOwnName(typed, "b").ok());
}

TEST(NodeOverrides, ANodeThatIsNotThereIsTold) {
  EXPECT_EQ(Error("hosts: [a, b]\ncommand: p\nnodes:\n  c: {wdir: /x}\n"),
            "job.yaml:4:3: nodes: 'c' is no node of this job; name one by its host or as 0..1 "
            "(a,b)");
  EXPECT_THAT(Error("standalone: true\nnnodes: 2\ncommand: p\nnodes: {2: {wdir: /x}}\n"),
              HasSubstr("nodes: '2' is no node of this job"));
  // In the list, though --nnodes leaves it out; or of hosts that others were typed for.
  EXPECT_THAT(Ok("hosts: [a, b]\ncommand: p\nnodes: {b: {wdir: /x}}\n", {"--nnodes", "1"}).notes,
              ElementsAre("the first 1 of 2 hosts are used (--nnodes 1)"));
  EXPECT_THAT(Ok("hosts: [a, b]\ncommand: p\nnodes: {b: {wdir: /x}}\n", {"--hosts", "c"}).notes,
              ElementsAre("job.yaml:3:9: nodes: 'b' is not used: the job has no such node"));
}

TEST(NodeOverrides, WhereTheCommandIsTypedANumberNeedsNodeRank) {
  const std::string file =
      "nnodes: 2\nrdzv-endpoint: a:2000\ncommand: p\nnodes: {1: {env: {X: 1}}}\n";
  EXPECT_THAT(Error(file), HasSubstr("which a node knows only with --node-rank"));
  EXPECT_THAT(PlanOfNode(Ok(file, {"--node-rank", "1"}), "h", 1).env_set, ElementsAre("X=1"));
  const JobSpec named = Ok("nnodes: 2\ncommand: p\nnodes: {h: {env: {X: 1}}}\n");
  EXPECT_THAT(PlanOfNode(named, "h.cluster", std::nullopt).env_set, ElementsAre("X=1"));
  EXPECT_THAT(JoinLine(named, "a:2000"), HasSubstr(" --config job.yaml "));
}

TEST(NodeOverrides, AreShownAndWrittenAsTheyWereRead) {
  const JobSpec spec = Ok(kTwo, {}, {{"H", "here"}});
  EXPECT_THAT(PlanText(PlanOf(spec)),
              HasSubstr("only     b: X=own, H=here, iface: eth1, prologue: two, wdir: /own\n"
                        "only     0: X=first\n"));
  const auto text = WriteJobFile(spec);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("nodes:\n"
                               "  b:\n"
                               "    iface: eth1\n"
                               "    env:\n"
                               "      X: own\n"
                               "      Z: null\n"
                               "      H: null\n"
                               "    prologue: two\n"
                               "    wdir: /own\n"
                               "  \"0\":\n"
                               "    env:\n"
                               "      X: first\n"
                               "command:\n"));
  EXPECT_EQ(Described(Ok(*text, {}, {{"H", "here"}})), Described(spec)) << *text;
}

}  // namespace
}  // namespace muster
