#include "agent/probe/probe_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ProbeLines, FactsComeBackAsTheyWere) {
  ProbeFacts facts;
  facts.rank = 3;
  facts.hostname = "node\"3";
  facts.nofile = kUnlimited;
  facts.addresses = {"10.0.0.3", "fd00::3"};
  facts.own_name = {"node3", {"127.0.1.1"}, "", 0.25};
  facts.shm = {"/dev/shm", "", "Read-only file system", 4096, 1024};
  facts.gpu_processes = {{"NVIDIA H100", 42, "python3", "10 MiB"}};
  facts.sent_at = 1795389522.125;
  const std::string line = ToLine(facts);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto back = ParseProbeFacts(line);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(ToLine(*back), line);
  EXPECT_EQ(back->nofile, kUnlimited);
  EXPECT_EQ(back->gpu_processes.at(0).pid, 42u);
  EXPECT_EQ(back->sent_at, facts.sent_at);
}

TEST(ProbeLines, RequestPlanAndResultsComeBackAsTheyWere) {
  const std::string request =
      ToLine(ProbeRequest{"eth0", "node1", 20000, 20100, "/home/a b", {"python3", "x.py"}, "x.py"});
  EXPECT_EQ(ToLine(ParseProbeRequest(request).value()), request);
  const std::string plan = ToLine(ProbePlan{"word", {{0, "a", "10.0.0.1", 7}, {1, "b", "", 0}}});
  EXPECT_EQ(ToLine(ParseProbePlan(plan).value()), plan);
  ProbeResults results;
  results.pairs = {{1, "large", "no answer", "10.0.0.1", 1e-4, 5e8}};
  results.names = {{"b", {}, "Name or service not known", 2}};
  const std::string line = ToLine(results);
  EXPECT_EQ(ToLine(ParseProbeResults(line).value()), line);
}

TEST(ProbeLines, BytesThatAreNoTextDoNotBreakTheLine) {
  ProbeFacts facts;
  facts.proxies = {"http_proxy=\xff\n"};
  const auto back = ParseProbeFacts(ToLine(facts));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->proxies.at(0), "http_proxy=\xef\xbf\xbd\n");
}

TEST(ProbeLines, WrongLinesNameTheField) {
  const std::string good = ToLine(ProbePlan{"word", {{0, "a", "10.0.0.1", 7}}});
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    return std::string(
        ParseProbePlan(line.replace(line.find(from), from.size(), to)).status().message());
  };
  EXPECT_THAT(error("\"word\":", "\"wort\":"), HasSubstr("wrong field word"));
  EXPECT_THAT(error("\"a\"", "1"), HasSubstr("wrong field name"));
  EXPECT_THAT(error("7}", "70000}"), HasSubstr("wrong field port"));
  EXPECT_THAT(error("7}", "-7}"), HasSubstr("wrong field port"));
  EXPECT_THAT(error("[{", "[3,{"), HasSubstr("wrong field"));
  EXPECT_THAT(error("{", "["), HasSubstr("not a JSON object"));
}

TEST(PeersToTry, AllUpToTheBoundAndEachAsOftenAsItCallsAbove) {
  EXPECT_THAT(PeersToTry(0, 1), ElementsAre());
  EXPECT_THAT(PeersToTry(2, 4), ElementsAre(3, 0, 1));
  EXPECT_EQ(PeersToTry(5, kProbeAllPairsMax).size(), kProbeAllPairsMax - 1);
  for (const uint32_t nodes : {kProbeAllPairsMax + 1, 64u, 100u}) {
    std::vector<size_t> called(nodes);
    for (uint32_t rank = 0; rank < nodes; ++rank) {
      for (const uint32_t peer : PeersToTry(rank, nodes)) {
        EXPECT_NE(peer, rank);
        ++called.at(peer);
      }
    }
    EXPECT_EQ(*std::min_element(called.begin(), called.end()), PeersToTry(0, nodes).size());
    EXPECT_EQ(*std::max_element(called.begin(), called.end()), PeersToTry(0, nodes).size());
  }
  EXPECT_THAT(PeersToTry(0, 17), ElementsAre(1, 2, 4, 8, 16));
}

}  // namespace
}  // namespace muster
