#include "launcher/schedule/hostlist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/rng.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Names = std::vector<std::string>;

struct Case {
  const char* text;
  const char* names;  // separated by blanks
};

class HostList : public testing::TestWithParam<Case> {};

TEST_P(HostList, Expands) {
  const auto names = ExpandHostList(GetParam().text);
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(absl::StrJoin(*names, " "), GetParam().names);
}

INSTANTIATE_TEST_SUITE_P(
    Grammar, HostList,
    testing::Values(Case{"a", "a"}, Case{"b,a", "b a"}, Case{"n[1-3]", "n1 n2 n3"},
                    Case{"n[008-010]", "n008 n009 n010"}, Case{"n[8-11]", "n8 n9 n10 n11"},
                    Case{"n[3,1,07]", "n3 n1 n07"}, Case{"n[1-2,5]x", "n1x n2x n5x"},
                    Case{"r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"},
                    Case{"a[1-2],b,c[3]", "a1 a2 b c3"}, Case{" a , b ", "a b"},
                    Case{"n[1-2]-ib[0-1].site.org",
                         "n1-ib0.site.org n1-ib1.site.org n2-ib0.site.org n2-ib1.site.org"},
                    Case{"[1-2]", "1 2"}, Case{"n1,n1", "n1 n1"}, Case{"n[0-0]", "n0"},
                    Case{"n[99-101]", "n99 n100 n101"}));

struct Bad {
  const char* text;
  const char* says;
};

class BadHostList : public testing::TestWithParam<Bad> {};

TEST_P(BadHostList, IsRefusedWithTheReason) {
  const auto names = ExpandHostList(GetParam().text);
  ASSERT_EQ(names.status().code(), absl::StatusCode::kInvalidArgument) << GetParam().text;
  EXPECT_THAT(std::string(names.status().message()), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(Grammar, BadHostList,
                         testing::Values(Bad{"", "empty"}, Bad{"a,,b", "empty"}, Bad{"a,", "empty"},
                                         Bad{"n[1-3", "never closed"}, Bad{"n1-3]", "character 5"},
                                         Bad{"n[[1]]", "character 3"}, Bad{"n[]", "got ''"},
                                         Bad{"n[3-1]", "'3-1' runs backwards"},
                                         Bad{"n[a-b]", "got 'a-b'"}, Bad{"n[1-]", "got '1-'"},
                                         Bad{"n[-1]", "got '-1'"}, Bad{"n[1-2-3]", "got '1-2-3'"},
                                         Bad{"n[1,]", "got ''"},
                                         Bad{"-oProxyCommand=x", "got '-oProxyCommand=x'"},
                                         Bad{"a b", "got 'a b'"}, Bad{"a;b", "got 'a;b'"},
                                         Bad{"n[0-99999]", "more than 16384 hosts"},
                                         Bad{"n[0-999][0-999][0-999999999999]", "more than 16384"},
                                         Bad{"n[0-999999999999999999]", "more than 16384"},
                                         Bad{"n[0-9999999999999999999]", "got '0-9999"}));

TEST(HostListBounds, TheLimitItselfIsAllowed) {
  EXPECT_EQ(ExpandHostList("n[1-16384]")->size(), 16384u);
  EXPECT_FALSE(ExpandHostList("n[1-16384],a").ok());
  EXPECT_EQ(ExpandHostList("a,b[1-2]", 3)->size(), 3u);
  EXPECT_FALSE(ExpandHostList("a,b[1-2]", 2).ok());
}

TEST(HostNames, ALongOneIsRefused) {
  EXPECT_TRUE(CheckHostName(std::string(253, 'a')).ok());
  EXPECT_FALSE(CheckHostName(std::string(254, 'a')).ok());
  EXPECT_FALSE(CheckHostName("").ok());
}

// The second version: one bracket after the other, by recursion, for text that is known to be well
// formed.
void ExpandSimply(const std::string& item, Names& out) {
  const size_t open = item.find('[');
  if (open == std::string::npos) {
    out.push_back(item);
    return;
  }
  const size_t close = item.find(']');
  const std::string inside = item.substr(open + 1, close - open - 1);
  for (const absl::string_view part : absl::StrSplit(inside, ',')) {
    const std::vector<std::string> ends = absl::StrSplit(part, '-');
    for (int v = std::stoi(ends.front()); v <= std::stoi(ends.back()); ++v) {
      std::string digits = absl::StrCat(v);
      digits.insert(
          0,
          std::string(ends.front().size() > digits.size() ? ends.front().size() - digits.size() : 0,
                      '0'));
      ExpandSimply(item.substr(0, open) + digits + item.substr(close + 1), out);
    }
  }
}

std::string RandomItem(SplitMix64& rng) {
  static constexpr const char* kTexts[] = {"n", "gpu-", "r1c", "x.y", "", "a_"};
  std::string item = absl::StrCat("h", kTexts[rng.Below(6)]);
  for (uint64_t groups = rng.Below(3); groups > 0; --groups) {
    std::vector<std::string> parts;
    for (uint64_t n = 1 + rng.Below(3); n > 0; --n) {
      const int low = static_cast<int>(rng.Below(120));
      const int width = static_cast<int>(rng.Below(4));
      std::string part = absl::StrFormat("%0*d", width, low);
      if (rng.Below(2) == 0) {
        absl::StrAppend(&part, "-", low + static_cast<int>(rng.Below(12)));
      }
      parts.push_back(part);
    }
    absl::StrAppend(&item, "[", absl::StrJoin(parts, ","), "]", kTexts[rng.Below(6)]);
  }
  return item;
}

TEST(HostListProperty, AgreesWithTheSimpleVersionAndSurvivesCompression) {
  SplitMix64 rng(2024);
  for (int round = 0; round < 3000; ++round) {
    Names want;
    std::vector<std::string> items;
    for (uint64_t n = 1 + rng.Below(4); n > 0; --n) {
      items.push_back(RandomItem(rng));
      ExpandSimply(items.back(), want);
    }
    const std::string text = absl::StrJoin(items, ",");
    const auto names = ExpandHostList(text);
    ASSERT_TRUE(names.ok()) << text << ": " << names.status();
    ASSERT_EQ(*names, want) << text;
    const std::string compressed = CompressHostList(*names);
    const auto again = ExpandHostList(compressed);
    ASSERT_TRUE(again.ok()) << compressed;
    ASSERT_EQ(*again, *names) << text << " -> " << compressed;
  }
}

// Every list of up to four names over a small alphabet of awkward names.
TEST(HostListProperty, CompressionIsExactForEverySmallList) {
  const Names alphabet = {"n9", "n10", "n09", "n8", "n1x2", "n2x2", "a", "n99999999999999999999"};
  for (size_t a = 0; a < alphabet.size(); ++a) {
    for (size_t b = 0; b < alphabet.size(); ++b) {
      for (size_t c = 0; c < alphabet.size(); ++c) {
        for (size_t d = 0; d < alphabet.size(); ++d) {
          const Names names = {alphabet[a], alphabet[b], alphabet[c], alphabet[d]};
          const auto again = ExpandHostList(CompressHostList(names));
          ASSERT_TRUE(again.ok()) << CompressHostList(names);
          ASSERT_EQ(*again, names) << CompressHostList(names);
        }
      }
    }
  }
}

TEST(HostListCompression, ReadsAsPeopleWriteIt) {
  EXPECT_EQ(CompressHostList({}), "");
  EXPECT_EQ(CompressHostList({"a"}), "a");
  EXPECT_EQ(CompressHostList({"n7"}), "n7");
  EXPECT_EQ(CompressHostList({"n1", "n2", "n3", "n7"}), "n[1-3,7]");
  EXPECT_EQ(CompressHostList({"n008", "n009", "n010"}), "n[008-010]");
  EXPECT_EQ(CompressHostList({"n8", "n9", "n10", "m1"}), "n[8-10],m1");
  EXPECT_EQ(CompressHostList({"n1-ib", "n2-ib"}), "n[1-2]-ib");
  EXPECT_EQ(CompressHostList({"r1n1", "r1n2", "r2n1"}), "r1n[1-2],r2n1");
}

TEST(SlurmHostList, NothingIsBehindABracket) {
  EXPECT_EQ(SlurmHostList({"n1", "n2", "n3", "n7"}), "n[1-3,7]");
  EXPECT_EQ(SlurmHostList({"r1n1", "r1n2", "r2n1"}), "r1n[1-2],r2n1");
  EXPECT_EQ(SlurmHostList({"r1n5", "r2n5"}), "r1n5,r2n5");
  EXPECT_EQ(SlurmHostList({"n1-ib", "n2-ib"}), "n1-ib,n2-ib");
  EXPECT_EQ(SlurmHostList({"n1-ib", "n3-ib"}), "n1-ib,n3-ib");
}

TEST(RunLengths, ExpandAndCompress) {
  EXPECT_THAT(*ExpandRunLengths("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(*ExpandRunLengths("72"), ElementsAre(72));
  EXPECT_THAT(*ExpandRunLengths("0,4(x1)"), ElementsAre(0, 4));
  EXPECT_EQ(CompressRunLengths({2, 2, 2, 1}), "2(x3),1");
  EXPECT_EQ(CompressRunLengths({}), "");
  for (const char* bad :
       {"", "a", "2(x)", "2(x0)", "2(x3", "2x3", "-1", "2(x3),", "2(x99999)", "4294967296", " 2"}) {
    EXPECT_FALSE(ExpandRunLengths(bad).ok()) << bad;
  }
  SplitMix64 rng(5);
  for (int round = 0; round < 500; ++round) {
    std::vector<uint32_t> numbers;
    for (uint64_t n = 1 + rng.Below(20); n > 0; --n) {
      numbers.push_back(static_cast<uint32_t>(rng.Below(3)));
    }
    EXPECT_EQ(*ExpandRunLengths(CompressRunLengths(numbers)), numbers);
  }
}

// Whatever the bytes: no crash, and what is accepted can be said again.
TEST(HostListProperty, AnyBytesAreAnsweredOrRefused) {
  SplitMix64 rng(77);
  constexpr absl::string_view kBytes = "n01-,[]x.@: ";
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (uint64_t n = rng.Below(12); n > 0; --n) {
      text += kBytes[rng.Below(kBytes.size())];
    }
    const auto names = ExpandHostList(text, 1000);
    if (names.ok()) {
      ++accepted;
      ASSERT_EQ(*ExpandHostList(CompressHostList(*names), 1000), *names) << text;
    }
  }
  EXPECT_GT(accepted, 100);
}

TEST(HostNames, AHostIsTheSameWithAndWithoutItsDomain) {
  EXPECT_TRUE(IsSameHost("node1", "node1"));
  EXPECT_TRUE(IsSameHost("node1.a.org", "node1"));
  EXPECT_TRUE(IsSameHost("node1", "Node1.a.org"));
  for (const auto& [name, hostname] :
       std::vector<std::pair<const char*, const char*>>{{"node1", "node10"},
                                                        {"node1.a.org", "node1.b.org"},
                                                        {"node1.a", "node1.a.org"},
                                                        {"node1-ib0", "node1"},
                                                        {"", "node1"},
                                                        {"", ""}}) {
    EXPECT_FALSE(IsSameHost(name, hostname)) << name << " " << hostname;
  }
}

}  // namespace
}  // namespace muster
