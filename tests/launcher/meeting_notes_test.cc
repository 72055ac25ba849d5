#include "launcher/meeting_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/launcher/spec_of.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(NoteUnknownConf, AKeyOfRdzvConfThatNobodyKnowsIsNamedWithTheNearest) {
  const auto notes = [](const std::string& conf) {
    return SpecOf("--nnodes 2 --rdzv-endpoint a --rdzv-conf " + conf + " p").notes;
  };
  EXPECT_THAT(notes("jion_timeout=5"),
              ElementsAre("--rdzv-conf jion_timeout=5 has no effect: known are join_timeout (or "
                          "timeout), last_call_timeout and is_host; did you mean join_timeout?"));
  EXPECT_THAT(notes("lastcall=5"), ElementsAre(EndsWith("last_call_timeout and is_host")));
  EXPECT_THAT(notes("last_call_timout=5"), ElementsAre(HasSubstr("mean last_call_timeout?")));
  EXPECT_THAT(notes("a=1,b=2,join_timeout=3"), SizeIs(2));
  EXPECT_THAT(notes("read_timeout=60,close_timeout=9,timeout=4,is_host=1"), IsEmpty());
}

TEST(NoteUnusedEndpoint, IsSaidOfOneNodeThatIsNotThere) {
  const auto notes = [](const std::string& words) {
    JobSpec spec = SpecOf(words + " p");
    NoteUnusedEndpoint(spec, [](const std::string& host) { return host == "me"; });
    return spec.notes;
  };
  EXPECT_THAT(notes("--nnodes 1 --rdzv-endpoint node9:29400"),
              ElementsAre("--rdzv-endpoint node9:29400 is not used: --nnodes 1 runs on this "
                          "machine alone; for more nodes say --nnodes N on each of them"));
  EXPECT_THAT(notes("--rdzv-endpoint node9:29400"),
              ElementsAre(HasSubstr("is not used: one node (no --nnodes) runs")));
  for (const char* fine : {"--nnodes 1 --rdzv-endpoint me:29400", "--rdzv-endpoint 0.0.0.0:0",
                           "--nnodes 2 --rdzv-endpoint node9", "--nnodes 1", "--hosts node9",
                           "--standalone --nnodes 1"}) {
    EXPECT_THAT(notes(fine), IsEmpty()) << fine;
  }
}

TEST(NoteUnusedAlone, WhatConcernsOtherNodesIsSaidToHaveNoEffect) {
  const auto notes = [](const std::string& words) { return SpecOf(words + " p").notes; };
  EXPECT_THAT(notes("--iface eth0"),
              ElementsAre("--iface eth0 has no effect: one node (no --nnodes, no --hosts) runs on "
                          "this machine alone, and its workers meet at 127.0.0.1"));
  EXPECT_THAT(notes("--nnodes 1 --serve"),
              ElementsAre("--serve has no effect: --nnodes 1 runs on this machine alone, and no "
                          "other node can join it"));
  EXPECT_THAT(
      notes("--ssh myssh --ssh-args=-v"),
      ElementsAre(HasSubstr("--ssh myssh has no effect: one node (no --nnodes, no --hosts) runs on "
                            "this machine alone, and nothing is started over ssh"),
                  HasSubstr("--ssh-args -v has no effect")));
  EXPECT_THAT(notes("--standalone --local-addr 10.0.0.1"),
              ElementsAre("--local-addr 10.0.0.1 has no effect: --standalone without --nnodes runs "
                          "on this machine alone, and no other node has to reach it"));
  EXPECT_THAT(notes("--secret-file f --rdzv-endpoint node9:29400"),
              ElementsAre(HasSubstr("--secret-file f has no effect")));
  EXPECT_THAT(notes("--secret-file f --rdzv-endpoint file:///shared/job"),
              ElementsAre(HasSubstr("elects who serves, and carries the secret")));
}

TEST(NoteUnusedAlone, NothingWhereItHasOne) {
  for (const char* fine :
       {"--hosts a --iface eth0 --ssh myssh --local-addr 10.0.0.1 --secret-file f",
        "--nnodes 1:2 --serve --iface eth0 --local-addr 10.0.0.1 --secret-file f",
        "--nnodes 2 --rdzv-endpoint a:29400 --secret-file f --iface eth0",
        "--standalone --nnodes 2 --local-addr 10.0.0.1", "--port-range 40000-40010"}) {
    EXPECT_THAT(SpecOf(std::string(fine) + " p").notes, IsEmpty()) << fine;
  }
  EXPECT_THAT(SpecOf("p", "", {{"PET_LOCAL_ADDR", "10.0.0.1"}}).notes, IsEmpty());
}

TEST(StrangerThere, IsKnownByWhatItAnswers) {
  const JobSpec by_master = SpecOf("--nnodes 2 --node-rank 1 --master-addr a p");
  EXPECT_EQ(StrangerThere(by_master, "a:29500", "10.0.0.1:29500: it does not speak TLS 1.3"),
            "another program listens at a:29500 (10.0.0.1:29500: it does not speak TLS 1.3): stop "
            "it there, or take another port on every node (--master-port); until then it is asked "
            "again and again");
  EXPECT_THAT(StrangerThere(SpecOf("--nnodes 2 --rdzv-endpoint a:1025 p"), "a:1025",
                            "what listens at a:1025 does not answer like a muster master"),
              HasSubstr("on every node (--rdzv-endpoint)"));
  EXPECT_EQ(StrangerThere(by_master, "a:29500", "10.0.0.1:29500: Connection refused"), "");
  EXPECT_EQ(StrangerThere(by_master, "a:29500", ""), "");
}

TEST(ServesElsewhere, NamesTheRankAndThePlace) {
  EXPECT_EQ(ServesElsewhere(SpecOf("--nnodes 2 --node-rank 0 --master-addr node9 p"), "node3"),
            "node rank 0 serves the job here, and --master-addr node9 is no address of this "
            "machine (node3): if the machine of that name has --node-rank 0, too, each waits for "
            "itself; give this one --node-rank 1 (of 2: 0..1)");
}

}  // namespace
}  // namespace muster
