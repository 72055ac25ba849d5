#include "launcher/schedule/rankfile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::ElementsAre;

RankPlace On(const std::string& host, size_t line, bool slots = true) {
  return {host, std::nullopt, slots, line};
}

TEST(RankFile, EachLinePlacesARankWhereverItStands) {
  const auto places = ParseRankFile(
      "# as mpirun has it\n\nrank 1=b slot=1:0,2\n rank 0 = a slots = 0-3 # here\r\nRANK 3=::1\n"
      "rank 2=+n1 slot=p0,p1",
      "f");
  ASSERT_TRUE(places.ok()) << places.status();
  EXPECT_THAT(*places,
              ElementsAre(On("a", 4), On("b", 3), RankPlace{"", 1, true, 6}, On("::1", 5, false)));
}

struct Case {
  const char* name;
  const char* text;
  const char* error;
};
class BadRankFile : public testing::TestWithParam<Case> {};
TEST_P(BadRankFile, IsRefusedWithItsLine) {
  const auto places = ParseRankFile(GetParam().text, "f");
  EXPECT_EQ(places.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(places.status().message(), GetParam().error);
}

constexpr char kForm[] = "f:1: want 'rank N=HOST' or 'rank N=HOST slot=LIST'";
INSTANTIATE_TEST_SUITE_P(
    All, BadRankFile,
    testing::Values(
        Case{"empty", "# nothing\n", "f: want a line 'rank 0=HOST' for each rank, got none"},
        Case{"no_rank", "0=a slot=0", kForm}, Case{"no_host", "rank 0=", kForm},
        Case{"half_a_slot", "rank 0=a slot", kForm}, Case{"no_slots", "rank 0=a slot=", kForm},
        Case{"word", "rank 0=a core=1", kForm}, Case{"more", "rank 0=a slot=0 1", kForm},
        Case{"number", "rank -1=a", "f:1: want a rank 0..1048575, got '-1'"},
        Case{"large", "rank 1048576=a", "f:1: want a rank 0..1048575, got '1048576'"},
        Case{"relative", "rank 0=+nx",
             "f:1: want a host, or +n0 for the first of the list, got '+nx'"},
        Case{"host", "rank 0=-oProxyCommand",
             "f:1: want a host name (letters, digits, . _ -) or an address, got '-oProxyCommand'"},
        Case{"slot", "rank 0=a slot=x", "f:1: slot: want numbers as in 0, 0-3 or 1:0,2, got 'x'"},
        Case{"twice", "rank 0=a\nrank 1=a\nrank 0=b", "f:3: rank 0 has a place already, in line 1"},
        Case{"gap", "rank 0=a\nrank 2=a",
             "f:2: rank 2 is here, but no line places rank 1: ranks are 0, 1, 2 ... without a "
             "gap"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace muster
