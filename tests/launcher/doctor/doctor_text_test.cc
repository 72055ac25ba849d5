#include "launcher/doctor/doctor_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "tests/launcher/doctor/examined.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<DoctorRow> Rows() {
  return {
      {"start", Health::kWell, "", "3 nodes answer", ""},
      {"names", Health::kSuspect, "node1", "slow", "see DNS"},
      {"limits", Health::kBad, "node1", "ulimit -n is 3", "raise it"},
      {"limits", Health::kBad, "node2", "ulimit -n is 3", "raise it"},
  };
}

TEST(DoctorTable, LinesFixesAndACount) {
  EXPECT_EQ(DoctorTable(Rows(), false),
            "ok    start          3 nodes answer\n"
            "warn  names          node1: slow\n"
            "                     fix: see DNS\n"
            "BAD   limits         node1, node2: ulimit -n is 3\n"
            "                     fix: raise it\n"
            "2 faults, 1 warning\n");
  EXPECT_EQ(DoctorTable({Rows()[0]}, false), "ok    start          3 nodes answer\nall is well\n");
}

TEST(DoctorTable, ColourOnlyWhereAsked) {
  EXPECT_THAT(DoctorTable(Rows(), true), HasSubstr("\x1b[31mBAD \x1b[0m  limits"));
  EXPECT_THAT(DoctorTable(Rows(), false), Not(HasSubstr("\x1b")));
}

TEST(DoctorTable, ManyPlacesAreCounted) {
  std::vector<DoctorRow> rows;
  for (const char* node : {"a", "b", "c", "d", "e", "f"}) {
    rows.push_back({"disks", Health::kBad, node, "full", "make room"});
  }
  EXPECT_THAT(DoctorTable(rows, false), HasSubstr("a, b, c, d and 2 more: full\n"));
}

TEST(DoctorTable, AFixThatNamesItsPlaceIsSaidOfEach) {
  std::vector<DoctorRow> rows;
  for (const char* node : {"a", "b", "c", "d", "e", "f"}) {
    rows.push_back(
        {"limits", Health::kBad, node, "low", std::string("limits.conf of ").append(node)});
  }
  EXPECT_THAT(DoctorTable(rows, false),
              HasSubstr("fix: limits.conf of c\n                     fix: limits.conf of d\n"
                        "                     and 2 more like these; --json has them all\n"));
}

TEST(DoctorJson, AllThatIsKnown) {
  Examination examined = HealthyNodes(2);
  examined.nodes.emplace_back().name = "gone";
  const auto json = nlohmann::json::parse(DoctorJson(Rows(), examined));
  EXPECT_EQ(json["format"], "muster-doctor-1");
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["checks"].size(), Rows().size());
  EXPECT_EQ(json["checks"][2]["health"], "bad");
  EXPECT_EQ(json["checks"][2]["fix"], "raise it");
  EXPECT_EQ(json["nodes"][1]["facts"]["address"], "10.0.0.2");
  EXPECT_EQ(json["nodes"][1]["results"]["pairs"][0]["to"], 0);
  EXPECT_TRUE(json["nodes"][2]["facts"].is_null());
}

TEST(AllWell, WarningsAreNoFaults) {
  EXPECT_TRUE(AllWell({Rows()[0], Rows()[1]}));
  EXPECT_FALSE(AllWell(Rows()));
}

}  // namespace
}  // namespace muster
