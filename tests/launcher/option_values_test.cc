#include "launcher/option_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/limits.h"
#include "proto/base/rng.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

OptionValue V(absl::string_view text) { return {"--opt", text}; }

template <typename T>
std::string Message(const absl::StatusOr<T>& result) {
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(result.status().message());
}

TEST(Numbers, NameFlagLimitsAndValue) {
  EXPECT_EQ(*ParseNumber(V("7"), 1, 9), 7u);
  for (const char* bad : {"0", "10", "", "x", "7x", "-1", "1e3", "99999999999"}) {
    EXPECT_EQ(Message(ParseNumber(V(bad), 1, 9)),
              absl::StrCat("--opt: want 1..9, got '", bad, "'"));
  }
}

TEST(Times, InEveryForm) {
  const std::pair<const char*, absl::Duration> good[] = {
      {"90", absl::Seconds(90)},          {"1.5", absl::Milliseconds(1500)},
      {"90s", absl::Seconds(90)},         {"90m", absl::Minutes(90)},
      {"1h30m", absl::Minutes(90)},       {"2d", absl::Hours(48)},
      {"500ms", absl::Milliseconds(500)}, {"1:30", absl::Seconds(90)},
      {"1:00:00", absl::Hours(1)},        {"2:03:04:05", absl::Hours(51) + absl::Seconds(245)},
      {"0", absl::ZeroDuration()}};
  for (const auto& [text, want] : good) {
    const auto time = ParseTime(V(text));
    ASSERT_TRUE(time.ok()) << text;
    EXPECT_EQ(*time, want) << text;
  }
  for (const char* bad : {"", "-1", "x", "1:2:3:4:5", "1:", ":1", "inf", "nan", "1:-2", "5 minutes",
                          "99999d", "1e300"}) {
    EXPECT_THAT(Message(ParseTime(V(bad))), HasSubstr(absl::StrCat("got '", bad, "'")));
  }
}

TEST(Fingerprints, AsTheDaemonSaysThem) {
  const std::string good = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
  EXPECT_EQ(*ParseFingerprint(V(good)), good);
  for (const std::string& bad :
       {std::string(), good.substr(7), good.substr(0, good.size() - 1), good + "A", good + "=",
        "sha256" + good.substr(6), "SHA256:" + std::string(43, '-'), " " + good}) {
    EXPECT_EQ(
        Message(ParseFingerprint(V(bad))),
        absl::StrCat("--opt: want SHA256: and 43 characters, as muster-rendezvous says it at ",
                     "its start, got '", bad, "'"));
  }
}

TEST(Sizes, InPowersOf1024) {
  EXPECT_EQ(*ParseSize(V("65536")), 65536u);
  EXPECT_EQ(*ParseSize(V("64k")), 65536u);
  EXPECT_EQ(*ParseSize(V("512M")), 512u << 20);
  EXPECT_EQ(*ParseSize(V("1G")), 1u << 30);
  EXPECT_EQ(*ParseSize(V("1GiB")), 1u << 30);
  EXPECT_EQ(*ParseSize(V("2TB")), uint64_t{2} << 40);
  EXPECT_EQ(*ParseSize(V("0")), 0u);
  for (const char* bad : {"", "G", "1.5G", "-1", "1X", "99999999T", "B", "1GG"}) {
    EXPECT_THAT(Message(ParseSize(V(bad))), HasSubstr("--opt: want bytes")) << bad;
  }
  EXPECT_EQ(*ParseSize(V("4194304T")), uint64_t{1} << 62);
  EXPECT_EQ(Message(ParseSize(V("4194305T"))),
            "--opt: want bytes, as in 512M, 1G or 65536 (at most 4194304T), got '4194305T'");
}

TEST(Filters, AreTextsBetweenCommas) {
  EXPECT_THAT(*ParseFilters(V("loss,step time")), ElementsAre("loss", "step time"));
  EXPECT_EQ(Message(ParseFilters(V(","))),
            "--opt: want 1..64 texts to look for, with commas between them, got ','");
  const std::vector<std::string> most(kLineFiltersMax, "x");
  const std::string text = absl::StrJoin(most, ",");
  EXPECT_EQ(ParseFilters(V(text))->size(), kLineFiltersMax);
  EXPECT_FALSE(ParseFilters(V(text + ",x")).ok());
}

TEST(Streams, AsTorchrunWritesThem) {
  const StreamSelect all = *ParseStreams(V("3"));
  EXPECT_EQ(all.Of(0), 3);
  EXPECT_EQ(all.Of(9), 3);
  const StreamSelect some = *ParseStreams(V("0:1,2:3"));
  EXPECT_EQ(some.Of(0), 1);
  EXPECT_EQ(some.Of(1), 0);
  EXPECT_EQ(some.Of(2), 3);
  EXPECT_FALSE(ParseStreams(V("0"))->Any());
  for (const char* bad : {"", "4", "11", "0:4", "x:1", "0:1,", "0:1:2", "9999:1"}) {
    EXPECT_FALSE(ParseStreams(V(bad)).ok()) << bad;
  }
}

TEST(RankLists, AreSortedAndBounded) {
  EXPECT_THAT(*ParseRanks(V("5,0,3-4,4")), ElementsAre(0, 3, 4, 5));
  for (const char* bad : {"", "a", "3-1", "0,", "-1", "1048576", "0-4294967295", "1-2-3"}) {
    EXPECT_FALSE(ParseRanks(V(bad)).ok()) << bad;
  }
}

TEST(Pairs, OfRdzvConf) {
  const auto pairs = ParsePairs(V("a=1, b = 2,c="));
  EXPECT_THAT(*pairs, ElementsAre(testing::Pair("a", "1"), testing::Pair("b", "2"),
                                  testing::Pair("c", "")));
  EXPECT_TRUE(ParsePairs(V(""))->empty());
  EXPECT_FALSE(ParsePairs(V("a")).ok());
  EXPECT_FALSE(ParsePairs(V("=1")).ok());
}

std::string EndpointText(absl::string_view text) {
  const auto e = ParseEndpoint(V(text), 29400);
  return e.ok() ? e->file.empty() ? absl::StrCat(e->host, " ", e->port) : e->file : "refused";
}

std::string EndpointTexts(absl::string_view text) {
  const auto all = ParseEndpoints(V(text), 29400);
  std::string out;
  for (const Endpoint& e : all.ok() ? *all : std::vector<Endpoint>()) {
    absl::StrAppend(&out, out.empty() ? "" : "|", e.file.empty() ? e.host : e.file, " ", e.port);
  }
  return all.ok() ? out : std::string(all.status().message());
}

TEST(Endpoints, OneOrSeveral) {
  EXPECT_EQ(EndpointTexts("localhost:0"), "localhost 0");
  EXPECT_EQ(EndpointTexts("a,b:2000,[::1]:2001"), "a 29400|b 2000|::1 2001");
  EXPECT_EQ(EndpointTexts("file:///a,b"), "/a,b 29400");
  EXPECT_THAT(EndpointTexts("a:2000,b:0"), HasSubstr("want a HOST:PORT for each"));
  EXPECT_THAT(EndpointTexts("a:2000,file:///b"), HasSubstr("want a HOST:PORT for each"));
  EXPECT_THAT(EndpointTexts("a:2000,"), HasSubstr("want HOST:PORT"));
  EXPECT_THAT(EndpointTexts("a:2000,b:22"), HasSubstr("b:22"));
  EXPECT_THAT(EndpointTexts("a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a"), HasSubstr("at most 16"));
}

TEST(Endpoints, InEveryForm) {
  EXPECT_EQ(EndpointText("node0"), "node0 29400");
  EXPECT_EQ(EndpointText("node0:2000"), "node0 2000");
  EXPECT_EQ(EndpointText("localhost:0"), "localhost 0");
  EXPECT_EQ(EndpointText("10.0.0.1:2000"), "10.0.0.1 2000");
  EXPECT_EQ(EndpointText("[::1]:2000"), "::1 2000");
  EXPECT_EQ(EndpointText("[::1]"), "::1 29400");
  EXPECT_EQ(EndpointText("fe80::1%eth0"), "fe80::1%eth0 29400");
  EXPECT_EQ(EndpointText("file:///shared/job1"), "/shared/job1");
  for (const char* bad :
       {"", ":2000", "node0:", "node0:x", "node0:99999", "node0:22", "a:1:2", "[::1", "[::1]x",
        "[::1]:", "file://shared", "-o:2000", "a b:2000", "http://node0:2000"}) {
    EXPECT_EQ(EndpointText(bad), "refused") << bad;
  }
  EXPECT_EQ(Message(ParseEndpoint(V("node0:22"), 29400)),
            "--opt node0:22: want a port 1024..65535 (0 = any that is free; lower ones belong to "
            "system services), "
            "got '22'");
}

TEST(PortRanges, AsWeAndMpichWriteThem) {
  EXPECT_EQ(*ParsePortRange(V("20000-20100")), (PortRange{20000, 20100}));
  EXPECT_EQ(*ParsePortRange(V("1024:65535")), (PortRange{1024, 65535}));
  EXPECT_EQ(*ParsePortRange(V("20000-20000")), (PortRange{20000, 20000}));
  EXPECT_TRUE(ParsePortRange(V("0:0"))->Any());
  for (const char* bad : {"", "20000", "20000-", "-20000", "20100-20000", "80-90", "20000-65536",
                          "a-b", "20000-20001-20002", "0-20000", "20000..20100"}) {
    EXPECT_FALSE(ParsePortRange(V(bad)).ok()) << bad;
  }
  EXPECT_EQ(Message(ParsePortRange(V("80-90"))),
            "--opt: want LOW-HIGH, ports 1024..65535, as in 20000-20100 (lower ones belong to "
            "system services), got '80-90'");
}

TEST(Words, SplitAsAShellDoes) {
  EXPECT_THAT(*ParseWords(V("-p 2222  -i 'my key' \"a b\"c d\\ e ''")),
              ElementsAre("-p", "2222", "-i", "my key", "a bc", "d e", ""));
  EXPECT_TRUE(ParseWords(V("  "))->empty());
  EXPECT_FALSE(ParseWords(V("'a")).ok());
}

TEST(Distance, CountsEditsAndSwaps) {
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("abc", "abc"), 0u);
  EXPECT_EQ(EditDistance("abc", "acb"), 1u);
  EXPECT_EQ(EditDistance("--nnode", "--nnodes"), 1u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

// The second version: the definition itself, by recursion.
size_t Slow(absl::string_view a, absl::string_view b) {
  if (a.empty() || b.empty()) {
    return a.size() + b.size();
  }
  const absl::string_view a1 = a.substr(1);
  const absl::string_view b1 = b.substr(1);
  size_t best = std::min({Slow(a1, b) + 1, Slow(a, b1) + 1, Slow(a1, b1) + (a[0] == b[0] ? 0 : 1)});
  if (a.size() > 1 && b.size() > 1 && a[0] == b[1] && a[1] == b[0]) {
    best = std::min(best, Slow(a.substr(2), b.substr(2)) + 1);
  }
  return best;
}

TEST(Distance, AgreesWithTheDefinition) {
  SplitMix64 rng(3);
  for (int round = 0; round < 300; ++round) {
    std::string a;
    std::string b;
    for (uint64_t n = rng.Below(6); n > 0; --n) a += static_cast<char>('a' + rng.Below(3));
    for (uint64_t n = rng.Below(6); n > 0; --n) b += static_cast<char>('a' + rng.Below(3));
    EXPECT_EQ(EditDistance(a, b), Slow(a, b)) << a << " " << b;
  }
}

}  // namespace
}  // namespace muster
