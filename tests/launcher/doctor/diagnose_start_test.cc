// Nodes that did not come: what is advised, by how they were to be started and what was said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/doctor/diagnose.h"
#include "tests/launcher/doctor/examined.h"

namespace muster {
namespace {

const AgentStart child_start = {StartMeans::kChild, "/m/muster-agent --build", "", false};
const AgentStart ssh_start = {StartMeans::kSsh, "ssh node3 true", "", false};
const AgentStart srun_start = {StartMeans::kStep, "srun -N1 -n1 -w node3 /m/muster-agent --build",
                               "", false};
const AgentStart pbsdsh_start = {StartMeans::kStep, "pbsdsh -h node3 -- /m/muster-agent --build",
                                 "", false};
const AgentStart succeeded_start = {StartMeans::kSsh, "ssh node3 true", "", true};

constexpr char kGiveAnInterface[] =
    "give an interface that all nodes have, or the network between them: --iface NAME or --iface "
    "CIDR (`ip -brief address` on each lists them)";
constexpr char kOther[] = "the agent there is muster 1.1, this is 1.0: install the same build";
constexpr char kNoInterface[] = "--iface: nothing on node3 is or is in 'ib0'; it has lo 127.0.0.1";
constexpr char kInstall[] = "install the same build of muster on node3, at the same path as here";

struct Case {
  const char* name;
  AgentStart start;
  std::string words;
  std::string fix;
};

class StartTest : public testing::TestWithParam<Case> {};

TEST_P(StartTest, WhatIsAdvised) {
  const Case& wanted = GetParam();
  Examination examined = HealthyNodes(3);
  ExaminedNode& node = examined.nodes.emplace_back();
  node.name = "node3";
  node.start = wanted.start;
  node.start.words = wanted.words;
  const DoctorRow row = Diagnose(examined).front();
  EXPECT_EQ(row.check, "start");
  EXPECT_EQ(row.health, Health::kBad);
  EXPECT_EQ(row.where, "node3");
  EXPECT_EQ(row.seen, wanted.words.empty()
                          ? "nothing was heard of its probe: it could not start, or its login "
                            "still waits"
                          : wanted.words);
  EXPECT_EQ(row.fix, wanted.fix);
}

INSTANTIATE_TEST_SUITE_P(
    ByMeans, StartTest,
    testing::Values(
        Case{"Child", child_start, "muster-agent ended with status 1",
             "see that `/m/muster-agent --build` works here, then type the command again with -v"},
        Case{"Ssh", ssh_start, "ssh ended with status 255: kex_exchange_identification: banner",
             "see that `ssh node3 true` works from here without a password"},
        Case{"SshOfWhichNothingWasHeard", ssh_start, "",
             "see that `ssh node3 true` works from here without a password"},
        Case{"Srun", srun_start, "srun: error: node3: task 1: Exited with exit code 2",
             "see that `srun -N1 -n1 -w node3 /m/muster-agent --build` works in this job; if it "
             "does, let node3 connect to this machine: --iface chooses the network, --port-range "
             "the ports that a firewall must let pass"},
        Case{"Pbsdsh", pbsdsh_start, "",
             "see that `pbsdsh -h node3 -- /m/muster-agent --build` works in this job; if it "
             "does, let node3 connect to this machine: --iface chooses the network, --port-range "
             "the ports that a firewall must let pass"},
        Case{"Succeeded", succeeded_start, "Illegal instruction",
             "mend on node3 what it says; with -v the command says more"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    BySshsWords, StartTest,
    testing::Values(
        Case{"NoDaemon", ssh_start, "ssh: connect to host node3 port 22: Connection refused",
             "start sshd on node3, or name the port that it listens at (ssh://HOST:PORT, or `Port` "
             "in ~/.ssh/config); then see that `ssh node3 true` works"},
        Case{"NoSuchName", ssh_start,
             "ssh: Could not resolve hostname node3: Name or service not known",
             "correct the name node3, or say what it stands for: in /etc/hosts, or as `HostName` "
             "in ~/.ssh/config"},
        Case{"NoKey", ssh_start, "me@node3: Permission denied (publickey).",
             "`ssh node3 true` must work without asking for anything: ssh-copy-id lets your key "
             "in, ssh-add loads one with a passphrase"},
        Case{"UnknownHostKey", ssh_start, "Host key verification failed.",
             "type `ssh node3 true` and answer once; where the machine was installed anew, "
             "`ssh-keygen -R node3` forgets its old key first"},
        Case{"NotSwitchedOn", ssh_start, "ssh: connect to host node3 port 22: Connection timed out",
             "see that node3 is switched on, and that no firewall is before its ssh port; then "
             "that `ssh node3 true` works"},
        Case{"OnlySshsWordsCount", child_start, "Connection refused",
             "see that `/m/muster-agent --build` works here, then type the command again with "
             "-v"}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    ByCause, StartTest,
    testing::Values(
        Case{"InterfaceBySsh", ssh_start, kNoInterface, kGiveAnInterface},
        Case{"InterfaceByChild", child_start, kNoInterface, kGiveAnInterface},
        Case{"InterfaceBySrun", srun_start, kNoInterface, kGiveAnInterface},
        Case{"InterfaceByPbsdsh", pbsdsh_start, kNoInterface, kGiveAnInterface},
        Case{"BuildBySsh", ssh_start, kOther, kInstall},
        Case{"BuildBySrun", srun_start, kOther,
             absl::StrCat(kInstall, "; `", srun_start.by_hand, "` tells which is there")},
        Case{"BuildByPbsdsh", pbsdsh_start, kOther,
             absl::StrCat(kInstall, "; `", pbsdsh_start.by_hand, "` tells which is there")},
        Case{"NoAgentByPbsdsh", pbsdsh_start,
             "PBS could not run the agent (status 254): is its program at the same path there?",
             absl::StrCat(kInstall, "; `", pbsdsh_start.by_hand, "` tells which is there")},
        Case{"AnotherMachine", ssh_start,
             "the node is aarch64, this machine x86_64: install muster there under the same path "
             "as here",
             kInstall},
        Case{"NothingToSend", ssh_start,
             "the node has no muster-agent 1.0, and it cannot be sent: /m/muster-agent is no "
             "program",
             kInstall},
        Case{"NoCall", srun_start,
             "no call within 1m (to 10.0.0.1:4000); can the node connect to this one? "
             "--port-range, --iface and a firewall decide",
             "let node3 connect to this machine: --iface chooses the network, --port-range the "
             "ports that a firewall must let pass"},
        Case{"ShellThatPrints", ssh_start,
             "more than 65536 bytes came and no agent: does a start-up file of the shell print?",
             "`ssh node3 true` must print nothing: see the start-up files of the shell on node3"},
        Case{"NoFolder", ssh_start,
             "ssh ended with status 1: no folder here takes a program: set TMPDIR",
             "on node3 set TMPDIR to a folder with room that is not mounted noexec, or install "
             "muster there, at the same path as here"},
        Case{"Prologue", succeeded_start,
             "launch --prologue: ended with status 3, the program was not started",
             "mend what --prologue does on node3, or leave it out"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace muster
