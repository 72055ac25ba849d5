#include "launcher/doctor/doctor_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHostFile[] = "a slots=4\nb user=me port=2222\n";

absl::StatusOr<DoctorCommand> Parse(absl::string_view line, const Environment& environment = {}) {
  const FileReader read = [](const std::string&) -> absl::StatusOr<std::string> {
    return kHostFile;
  };
  return ParseDoctorCommand(absl::StrSplit(line, ' '), environment, NoFile, read);
}

DoctorCommand Ok(absl::string_view line, const Environment& environment = {}) {
  auto command = Parse(line, environment);
  EXPECT_TRUE(command.ok()) << command.status();
  return *std::move(command);
}

std::string Error(absl::string_view line) { return std::string(Parse(line).status().message()); }

std::string Job(absl::string_view line, const Environment& environment = {}) {
  return absl::StrJoin(ProbeJob(Ok(line, environment).spec, "/bin/muster-agent", "/hosts", "{}"),
                       " ");
}

TEST(DoctorCommand, TheLastNodeIsNotAwaitedLongerThanTheUserSays) {
  EXPECT_THAT(Job("doctor --hosts a,b"), HasSubstr(",last_call_timeout=15 "));
  EXPECT_THAT(Job("doctor --hosts a,b --rdzv-conf last_call_timeout=3"),
              HasSubstr(",last_call_timeout=3 "));
  EXPECT_THAT(Job("doctor --hosts a,b --rdzv-conf last_call_timeout=300"),
              HasSubstr(",last_call_timeout=15 "));
}

TEST(DoctorCommand, AProgramMayBeLeftOut) {
  EXPECT_TRUE(IsDoctorCommand("doctor"));
  EXPECT_FALSE(IsDoctorCommand("./doctor"));
  EXPECT_FALSE(Ok("doctor --hosts a,b").has_program);
  EXPECT_FALSE(Ok("doctor").has_program);
  const DoctorCommand command = Ok("doctor --json --hosts a,b -n 2 train.py --json x");
  EXPECT_TRUE(command.has_program);
  EXPECT_TRUE(command.json);
  EXPECT_EQ(command.spec.program, "train.py");
  EXPECT_THAT(command.spec.arguments, ElementsAre("--json", "x"));
  EXPECT_TRUE(Ok("doctor --hosts a,b --json").json);
  EXPECT_TRUE(Ok("doctor --help").help);
  EXPECT_THAT(DoctorHelp(), HasSubstr("launch doctor [--json]"));
}

TEST(DoctorCommand, WrongWordsAreNamedAsForTheJob) {
  EXPECT_THAT(Error("doctor --hosts"), HasSubstr("--hosts: want LIST after it, got nothing"));
  EXPECT_THAT(Error("doctor --host a,b --all"), HasSubstr("unknown option '--all'"));
  EXPECT_EQ(Error("doctor --nosuch"),
            "launch doctor: unknown option '--nosuch' ('launch --help' lists the options); 'launch "
            "doctor --help' says which options count");
  EXPECT_THAT(Error("doctor --hosts a,b --standalone"), HasSubstr("--standalone"));
  EXPECT_THAT(Error("doctor --nnodes 2 --rdzv-endpoint a:29400"),
              HasSubstr("--rdzv-endpoint a:29400 does not say which nodes"));
}

TEST(DoctorCommand, HostsAsTheListHasThem) {
  EXPECT_EQ(DoctorHosts(Ok("doctor --hosts u@a:4,[::1]:2,n[1-2]").spec),
            "a user=u\n[::1]\nn1\nn2\n");
  EXPECT_EQ(DoctorHosts(Ok("doctor --hostfile f").spec), "a\nb user=me port=2222\n");
  EXPECT_EQ(DoctorHosts(Ok("doctor --hosts a,b,c --nnodes 2").spec), "a\nb\n");
}

// By which a user can tell whether an agent can be started.
std::string ByHand(const JobSpec& spec, size_t node, bool here = false) {
  return StartOf(spec, spec.nodes.at(node).host, here, "/my bin/muster-agent").by_hand;
}

TEST(DoctorCommand, AStartByHand) {
  const JobSpec ssh = Ok("doctor --hostfile f --ssh-args=-v --iface ib0").spec;
  EXPECT_EQ(ByHand(ssh, 0), "ssh -v a true");
  EXPECT_EQ(ByHand(ssh, 1), "ssh -v ssh://me@b:2222 true");
  EXPECT_EQ(ByHand(ssh, 0, true), "'/my bin/muster-agent' --build");
  JobSpec step = Ok("doctor --hosts a,b").spec;
  step.given_hosts.emplace().scheduler = Scheduler::kSlurm;
  EXPECT_EQ(ByHand(step, 1), "srun --overlap -N1 -n1 -w b '/my bin/muster-agent' --build");
  step.given_hosts->het_group = {{"a", 0}, {"b", 1}};
  EXPECT_EQ(ByHand(step, 1),
            "srun --het-group=1 --overlap -N1 -n1 -w b '/my bin/muster-agent' --build");
  step.given_hosts->scheduler = Scheduler::kPbs;
  EXPECT_EQ(ByHand(step, 1), "pbsdsh -h b -- '/my bin/muster-agent' --build");
  EXPECT_EQ(ByHand(step, 0, true), "'/my bin/muster-agent' --build");
}

TEST(DoctorCommand, TheJobOfProbes) {
  const std::string hosts =
      Job("doctor --hosts a:4,b:4 -n 8 --iface ib0 --port-range 20000-20100 "
          "-x LR=1 --ssh-args=-v --wdir /data --max-restarts 3 train.py");
  EXPECT_THAT(hosts, HasSubstr("--nproc-per-node 1 --nnodes 1:2 --hostfile /hosts"));
  EXPECT_THAT(hosts, HasSubstr("--iface=ib0"));
  EXPECT_THAT(hosts, HasSubstr("--port-range=20000-20100"));
  EXPECT_THAT(hosts, HasSubstr("-x LR=1"));
  EXPECT_THAT(hosts, HasSubstr("--ssh=ssh --ssh-args=-v"));
  EXPECT_THAT(hosts, HasSubstr("--wdir / "));  // a missing folder is for the probe to tell
  EXPECT_THAT(hosts, Not(HasSubstr("max-restarts")));
  EXPECT_THAT(hosts, HasSubstr("-- sh -c exec /proc/$PPID/exe --probe \"$0\" {}"));

  EXPECT_THAT(Job("doctor --standalone --nnodes 2"), HasSubstr("--nnodes 2 --standalone"));
  const std::string local = Job("doctor");
  EXPECT_THAT(local, HasSubstr("--nnodes 1 "));
  EXPECT_THAT(local, HasSubstr("-- /bin/muster-agent --probe {}"));
}

TEST(DoctorCommand, TheNodesOfASlurmJob) {
  const Environment slurm = {
      {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[1-3]"},  {"SLURM_JOB_NUM_NODES", "3"},
      {"SLURM_NNODES", "3"}, {"SLURM_TASKS_PER_NODE", "1(x3)"}, {"SLURMD_NODENAME", "n1"}};
  const std::string job = Job("doctor --exclude n3", slurm);
  EXPECT_THAT(job, HasSubstr("--nnodes 1:2 --gpu-mode all --exclude n3"));
  EXPECT_THAT(job, Not(HasSubstr("--hostfile")));
}

}  // namespace
}  // namespace muster
