#include "launcher/schedule/hostfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/rng.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// "user@name!port:slots", "*" where the slots are by CPUs, no count where none was given.
std::string Text(const std::vector<HostEntry>& hosts) {
  return absl::StrJoin(hosts, " ", [](std::string* out, const HostEntry& host) {
    absl::StrAppend(out, host.user.empty() ? "" : absl::StrCat(host.user, "@"), host.name);
    absl::StrAppend(out, host.port == 0 ? "" : absl::StrCat("!", host.port));
    absl::StrAppend(out, host.slots_given ? absl::StrCat(":", host.slots) : "",
                    host.by_cpus ? "*" : "");
  });
}

struct Case {
  const char* text;
  const char* hosts;
};

class HostFile : public testing::TestWithParam<Case> {};

TEST_P(HostFile, IsReadAsItsFamilyMeansIt) {
  const auto hosts = ParseHostFile(GetParam().text, "hosts.txt");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(Text(*hosts), GetParam().hosts);
}

INSTANTIATE_TEST_SUITE_P(
    Families, HostFile,
    testing::Values(
        // Open MPI
        Case{"a slots=4\nb slots=2 max_slots=8\n", "a:4 b:2"}, Case{"a slots=4\nb\n", "a:4 b*"},
        Case{"a slots = 4\n", "a:4"},
        Case{"joe@a slots=4 # fast\n\n# nothing\nb slots=1\n", "joe@a:4 b:1"},
        Case{"a max_slots=2\n", "a*"}, Case{"a\nb\n", "a b"},
        // Hydra
        Case{"a:4\nb:2 binding=user:1,2 user=joe\nc\n", "a:4 joe@b:2 c"},
        // DeepSpeed, Horovod
        Case{"worker-1 slots=8\nworker-2 slots=8\n", "worker-1:8 worker-2:8"},
        // PBS: repeated, not always side by side, order of first sight
        Case{"n2\nn2\nn1\nn2\nn1\n", "n2:3 n1:2"}, Case{"n1\n", "n1"},
        // SGE
        Case{"n1 4 all.q@n1 UNDEFINED\nn2 2 all.q@n2 UNDEFINED\n", "n1:4 n2:2"},
        Case{"n1 4\n", "n1:4"},
        // Slurm
        Case{"n[08-10]\ngpu[1-2],m1\n", "n08 n09 n10 gpu1 gpu2 m1"},
        Case{"n[1-2] slots=3\n", "n1:3 n2:3"}, Case{"n[1-2]:3\n", "n1:3 n2:3"},
        // addresses, ports, line ends
        Case{"[::1]:4\nfe80::1%eth0\n10.0.0.7:2\n", "::1:4 fe80::1%eth0 10.0.0.7:2"},
        Case{"a port=2222 slots=2\r\n\tb slots=1\r\n", "a!2222:2 b:1"},
        Case{"ssh://joe@a:2222 slots=2\nssh://a:1\nssh://b:3 port=4\n", "joe@a!2222:2 a!1* b!4*"},
        // the same host again adds its slots
        Case{"a slots=2\nb slots=1\na slots=3\n", "a:5 b:1"}, Case{"joe@a\na\n", "joe@a:2"},
        Case{"Node1:2\nnode1\n", "Node1:3"},
        // Windows' editors
        Case{"\xef\xbb\xbf"
             "a slots=2\nb slots=1\n",
             "a:2 b:1"}));

struct Bad {
  const char* text;
  const char* says;
};

class BadHostFile : public testing::TestWithParam<Bad> {};

TEST_P(BadHostFile, NamesFileLineAndText) {
  const auto hosts = ParseHostFile(GetParam().text, "hosts.txt");
  ASSERT_FALSE(hosts.ok()) << Text(*hosts);
  EXPECT_THAT(std::string(hosts.status().message()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Families, BadHostFile,
    testing::Values(Bad{"a\nb slots=x\n",
                        "hosts.txt:2: want 1..4096 slots, got 'x' (the line is 'b slots=x')"},
                    Bad{"a\tslots=4\n\x7f\x45LF\x02\x01\n",
                        "hosts.txt:2: want text, got other bytes: is this a host file? (the line "
                        "is '\\x7f\\x45LF\\x02\\x01')"},
                    Bad{"a slots=0\n", "hosts.txt:1: want 1..4096 slots, got '0'"},
                    Bad{"a slots=5 max_slots=4\n", "slots= of at most max_slots=4"},
                    Bad{"a slots=2 colour=red\n", "got 'colour=red'"}, Bad{"a b c\n", "got 'b'"},
                    Bad{"a:4 slots=4\n", "keep one"},
                    Bad{"b\na slots=2 slots=3\n", "hosts.txt:2: 'slots=3' says again"},
                    Bad{"a slots=2 cpus=2\n", "keep one"},
                    Bad{"a max_slots=2 max-slots=3\n", "keep one"},
                    Bad{"a user=joe user=joe\n", "'user=joe' says again"},
                    Bad{"a port=22 port=23\n", "'port=23' says again"},
                    Bad{"\n# a\n", "hosts.txt: names no host"}, Bad{"+n0\n", "relative hosts"},
                    Bad{"a@b@c\n", "got 'a@b@c'"}, Bad{"-oProxyCommand=x\n", "hosts.txt:1: want"},
                    Bad{"-l@a\n", "want user@host"}, Bad{"a user=-l\n", "want a user name"},
                    Bad{"a port=0\n", "1..65535"},
                    Bad{"joe@a\njim@a\n", "hosts.txt:2: host 'a' is given twice"},
                    Bad{"=\n", "hosts.txt:1: want"}, Bad{"a = \n", "got"}, Bad{"a:\n", "got ''"},
                    Bad{"[::1]4\n", "host:slots"}, Bad{"n[1-3\n", "never closed"},
                    Bad{"a slots=4000\na slots=97\n", "at most 4096 slots"},
                    Bad{"n[1-20000]\n", "more than 16384"},
                    Bad{"n[1-16384]\nm\n", "hosts.txt:2: more than 16384 hosts"}));

TEST(HostListOption, ReadsSlotsUsersAndAddresses) {
  EXPECT_EQ(Text(*ParseHostList("a:4,joe@b,[::1]:2,node[01-03]:8,::2")),
            "a:4 joe@b ::1:2 node01:8 node02:8 node03:8 ::2");
  EXPECT_EQ(Text(*ParseHostList("a,a,b,a:2")), "a:4 b");
  EXPECT_EQ(Text(*ParseHostList("A,a,b.C:2,B.c")), "A:2 b.C:3");
  for (const char* bad : {"", "a,,b", "a:0", "a:x", "a:4:5:", "a:4097", "[::1", "@a", "a b"}) {
    EXPECT_FALSE(ParseHostList(bad).ok()) << bad;
  }
}

TEST(HostListOption, ReadsWhatSshCallsAUri) {
  EXPECT_EQ(Text(*ParseHostList("ssh://a:2222,ssh://joe@b/,ssh://eva@[::1]:22,ssh://n[1-2]:3")),
            "a!2222 joe@b eva@::1!22 n1!3 n2!3");
  for (const char* bad : {"ssh://", "ssh://a:0", "ssh://a:65536", "ssh://a:x", "ssh://a/b"}) {
    EXPECT_FALSE(ParseHostList(bad).ok()) << bad;
  }
}

TEST(HostListOption, IsSaidAgainAsItWasMeant) {
  for (const char* text : {"a", "a:4,b:4", "node[0-3]", "node[0-3]:8", "[::1]:4,a", "a,b:2",
                           "[::1],[::2]", "n[1-2]:3,m:3"}) {
    const auto hosts = ParseHostList(text);
    ASSERT_TRUE(hosts.ok());
    const auto again = ParseHostList(DescribeHosts(*hosts));
    ASSERT_TRUE(again.ok()) << DescribeHosts(*hosts);
    EXPECT_EQ(Text(*again), Text(*hosts)) << text;
  }
  EXPECT_EQ(DescribeHosts(*ParseHostList("node0:8,node1:8,node2:8")), "node[0-2]:8");
}

TEST(HostFileProperty, AnyBytesAreAnsweredOrRefused) {
  SplitMix64 rng(9);
  constexpr absl::string_view kBytes = "ab1:[]-,@= \n#%.slots";
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (uint64_t n = rng.Below(20); n > 0; --n) {
      text += kBytes[rng.Below(kBytes.size())];
    }
    const auto hosts = ParseHostFile(text, "f");
    if (!hosts.ok()) {
      EXPECT_TRUE(absl::StartsWith(hosts.status().message(), "f:")) << hosts.status();
      continue;
    }
    ++accepted;
    for (const HostEntry& host : *hosts) {
      ASSERT_GE(host.slots, 1u);
      ASSERT_FALSE(host.name.empty());
      ASSERT_NE(host.name[0], '-');
    }
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace muster
