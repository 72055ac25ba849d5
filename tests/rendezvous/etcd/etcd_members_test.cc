#include "rendezvous/etcd/etcd_members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace muster {
namespace {

using testing::HasSubstr;

using Places = std::vector<std::string>;
using Members = std::vector<EtcdMember>;

std::optional<std::vector<Places>> Asked(std::vector<Places> places) { return places; }

TEST(EtcdMembers, HaveAPlaceInEachUrl) {
  EXPECT_EQ(PlaceOfUrl("http://h1:2379"), "h1:2379");
  EXPECT_EQ(PlaceOfUrl("https://10.0.0.1:2379/"), "10.0.0.1:2379");
  EXPECT_EQ(PlaceOfUrl("https://[fd00::1]:2379"), "[fd00::1]:2379");
  for (const char* none : {"unix://localhost:1", "h1:2379", "http://h1", "http://[fd00::1]",
                           "http://:1", "http://h:", ""}) {
    EXPECT_EQ(PlaceOfUrl(none), "") << none;
  }
}

TEST(EtcdMembers, AreAskedAtAllTheirPlaces) {
  const Members members = {{{"http://h1:2379", "https://10.0.0.1:2379"}}, {{"http://h2:2379"}}};
  EXPECT_EQ(PlacesToAsk({"h1:2379"}, members), Asked({{"10.0.0.1:2379", "h1:2379"}, {"h2:2379"}}));
  EXPECT_EQ(PlacesToAsk({"h1:2379"}, {}), std::nullopt);
}

TEST(EtcdMembers, CannotBeAskedWithoutAPlaceOfTheirOwn) {
  EXPECT_EQ(PlacesToAsk({"h1:1"}, {{{"http://h1:1"}}, {{}}}), std::nullopt);
  EXPECT_EQ(PlacesToAsk({"h1:1"}, {{{"http://h1:1"}}, {{"unix://x:1"}}}), std::nullopt);
  EXPECT_EQ(PlacesToAsk({"lb:1"}, {{{"http://lb:1"}}, {{"http://lb:1"}}}), std::nullopt);
  EXPECT_EQ(
      PlacesToAsk({"lb:1"}, {{{"http://lb:1", "http://a:1"}}, {{"http://lb:1", "http://b:1"}}}),
      Asked({{"a:1"}, {"b:1"}}));
}

TEST(EtcdMembers, AreAskedAtLocalhostOnlyWhereAllOfEtcdIsNamedThere) {
  const Members one = {{{"http://localhost:1"}}};
  EXPECT_EQ(PlacesToAsk({"127.0.0.1:1"}, one), Asked({{"127.0.0.1:1"}}));
  EXPECT_EQ(PlacesToAsk({"h1:1"}, one), std::nullopt);
  EXPECT_EQ(PlacesToAsk({"localhost:2"}, one), std::nullopt);
  const Members two = {{{"http://localhost:1"}}, {{"http://[::1]:2"}}};
  EXPECT_EQ(PlacesToAsk({"localhost:1", "localhost:2"}, two),
            Asked({{"localhost:1"}, {"localhost:2"}}));
  EXPECT_EQ(PlacesToAsk({"localhost:1"}, two), std::nullopt);
  // Each on a host of its own.
  EXPECT_EQ(PlacesToAsk({"localhost:1"}, {{{"http://localhost:1"}}, {{"http://127.0.0.1:1"}}}),
            std::nullopt);
  EXPECT_EQ(PlacesToAsk({"localhost:1"}, {{{"http://localhost:1"}}, {{"http://h2:1"}}}),
            std::nullopt);
}

TEST(EtcdMembers, OfWhichFewAreNamedAreTold) {
  const Members members = {{{"http://h1:1"}}, {{"http://h2:1"}}, {{"http://h3:1"}, false}};
  EXPECT_EQ(FewNamed({"a:1", "b:1"}, members), "");
  EXPECT_EQ(FewNamed({"a:1"}, {members[0]}), "");
  EXPECT_THAT(FewNamed({"a:1", "a:1"}, members), HasSubstr("names 1 of the 2 members of etcd"));
  EXPECT_THAT(FewNamed({"a:1"}, members), HasSubstr("at h1:1,h2:1)"));
}

}  // namespace
}  // namespace muster
