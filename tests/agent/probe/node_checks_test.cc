#include "agent/probe/node_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ProbeFacts Healthy() {
  ProbeFacts facts;
  facts.address = "10.0.0.2";
  facts.own_name.name = "node1";
  facts.nofile = 65536;
  facts.somaxconn = 4096;
  facts.shm = {"/dev/shm", "", "", uint64_t{8} << 30, uint64_t{8} << 30};
  facts.cpus_mask = facts.cpus_here = 4;
  return facts;
}

TEST(QuickDoubts, NothingWhereAllIsWell) {
  EXPECT_THAT(QuickDoubts("node1", Healthy()), ElementsAre());
}

TEST(QuickDoubts, WhatIsBadAndWhatToDo) {
  ProbeFacts facts = Healthy();
  facts.own_name.addresses = {"127.0.1.1"};
  facts.shm.bytes_free = 1 << 20;
  facts.nofile = 100;
  facts.cpus_mask = 1;
  facts.proxies = {"http_proxy=http://p"};
  EXPECT_THAT(QuickDoubts("node1", facts),
              ElementsAre(HasSubstr("node1 is 127.0.1.1 there"), HasSubstr("ulimit -n is 100"),
                          HasSubstr("/dev/shm has 1.0 MiB free"), HasSubstr("1 CPU of the 4"),
                          HasSubstr("-x no_proxy=")));
  for (const std::string& doubt : QuickDoubts("node1", facts)) {
    EXPECT_THAT(doubt, HasSubstr("; fix: "));
  }
}

TEST(QuickDoubts, OnOneMachineNobodyAsksForItsName) {
  ProbeFacts facts = Healthy();
  facts.address = "127.0.0.1";
  facts.own_name.addresses = {"127.0.1.1"};
  EXPECT_THAT(QuickDoubts("node1", facts), ElementsAre());
}

TEST(QuickDoubts, SuspicionsAndProxiesWithExceptionsAreForTheDoctor) {
  ProbeFacts facts = Healthy();
  facts.cpu_quota = 1;
  facts.proxies = {"http_proxy=http://p"};
  facts.no_proxy = "localhost";
  EXPECT_THAT(QuickDoubts("node1", facts), ElementsAre());
}

TEST(Bytes, ForPeople) {
  EXPECT_EQ(Bytes(17), "17 B");
  EXPECT_EQ(Bytes(1536), "1.5 KiB");
  EXPECT_EQ(Bytes(uint64_t{3} << 40), "3.0 TiB");
  EXPECT_EQ(Bytes(uint64_t{1} << 60), "1048576.0 TiB");
}

}  // namespace
}  // namespace muster
