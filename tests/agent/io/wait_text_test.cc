#include "agent/io/wait_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(ParseThreadCall, WhatTheKernelSays) {
  const ThreadCall call = ParseThreadCall(
      "202 0x7f0c1c000b60 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd1b2c8d60 0x7f0c2a4d8f16\n");
  EXPECT_TRUE(call.is_known);
  EXPECT_FALSE(call.runs);
  EXPECT_EQ(call.number, 202);
  EXPECT_THAT(call.arguments, ElementsAre(0x7f0c1c000b60, 0x189, 0, 0, 0, 0xffffffff));
  EXPECT_TRUE(ParseThreadCall("running\n").runs);
  const ThreadCall other = ParseThreadCall("-1 0x7ffd1b2c8d60 0x7f0c2a4d8f16\n");
  EXPECT_TRUE(other.is_known);
  EXPECT_EQ(other.number, -1);
}

TEST(ParseThreadCall, OtherTextsSayNothing) {
  for (const char* text : {"", "\n", "asleep", "202", "x 0x1 0x2", "202 0xg 0x1 0x2 0x3"}) {
    EXPECT_FALSE(ParseThreadCall(text).is_known) << text;
  }
}

TEST(KindOfCall, ThoseThatWait) {
  EXPECT_EQ(KindOfCall(SYS_recvfrom).name, "recv");
  EXPECT_EQ(KindOfCall(SYS_flock).on, CallOn::kDescriptor);
  EXPECT_EQ(KindOfCall(SYS_wait4).on, CallOn::kChild);
  EXPECT_EQ(KindOfCall(SYS_ppoll).name, "poll");
  EXPECT_EQ(KindOfCall(SYS_getpid).name, "");
  EXPECT_EQ(KindOfCall(-1).name, "");
}

TEST(ParseTcpPeers, OldAndNewAddresses) {
  const char* four =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
      "inode\n"
      "   0: 00000000:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
      "111 1 0 100 0 0 10 0\n"
      "   1: 02004D0A:9C40 01004D0A:733C 01 00000000:00000000 02:000A 0 1000 0 222 2 0 20 4\n"
      "   2: 02004D0A:9C40 01004D0A:733C 06 00000000:00000000 03:0000 0 0 0 0 3 0\n"
      "   3: 02004D0A:9C40 nonsense 01 00000000:00000000 02:000A 0 1000 0 333 2 0 20 4\n";
  EXPECT_THAT(ParseTcpPeers(four),
              ElementsAre(Pair(111, "any at port 29500"), Pair(222, "10.77.0.1:29500")));
  const char* six =
      "0: 00000000000000000000000001000000:1F90 00000000000000000000000001000000:733C 01 a b c 0 0 "
      "444 1\n"
      "1: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:733C 01 a b c 0 0 "
      "555 1\n";
  EXPECT_THAT(ParseTcpPeers(six),
              ElementsAre(Pair(444, "[::1]:29500"), Pair(555, "127.0.0.1:29500")));
  EXPECT_THAT(ParseTcpPeers("one two\n\n"), IsEmpty());
}

TEST(DescriptorText, IsForPeople) {
  const std::map<uint64_t, std::string> peers = {{7, "10.0.0.1:80"}};
  EXPECT_EQ(DescriptorText("socket:[7]", peers), "TCP 10.0.0.1:80");
  EXPECT_EQ(DescriptorText("socket:[8]", peers), "a socket");
  EXPECT_EQ(DescriptorText("pipe:[7]", peers), "a pipe");
  EXPECT_EQ(DescriptorText("/data/x.lock", peers), "/data/x.lock");
  EXPECT_EQ(DescriptorText("/data/\xc3\xa4\n\x1b[2J", peers), "/data/\xc3\xa4\\n\\033[2J");
  EXPECT_EQ(DescriptorText(std::string(9999, 'x'), peers).size(), 200u);
}

}  // namespace
}  // namespace muster
