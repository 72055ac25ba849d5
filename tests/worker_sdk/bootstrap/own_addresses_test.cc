#include "worker_sdk/bootstrap/own_addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<InterfaceAddress> a_host = {{"lo", "127.0.0.1", true},
                                              {"eth0", "10.0.0.2", false},
                                              {"docker0", "172.17.0.1", false},
                                              {"ib0", "10.1.0.2", false},
                                              {"lo", "::1", true}};

TEST(OwnAddresses, AreThoseThatOthersCanReach) {
  EXPECT_THAT(ChooseAddresses(a_host, "", ""), ElementsAre("10.0.0.2", "172.17.0.1", "10.1.0.2"));
}

TEST(OwnAddresses, TheNearestComesFirst) {
  EXPECT_THAT(ChooseAddresses(a_host, "", "10.1.0.2"),
              ElementsAre("10.1.0.2", "10.0.0.2", "172.17.0.1"));
  EXPECT_THAT(ChooseAddresses(a_host, "", "127.0.0.1"),
              ElementsAre("10.0.0.2", "172.17.0.1", "10.1.0.2"));
}

TEST(OwnAddresses, OrThoseOfTheInterfacesThatAreMeant) {
  EXPECT_THAT(ChooseAddresses(a_host, "ib0", "10.0.0.2"), ElementsAre("10.1.0.2"));
  EXPECT_THAT(ChooseAddresses(a_host, "ib0,lo", ""), ElementsAre("127.0.0.1", "10.1.0.2", "::1"));
  EXPECT_THAT(ChooseAddresses(a_host, "ib", ""), IsEmpty()) << "no part of a name";
  EXPECT_THAT(ChooseAddresses(a_host, ",,", ""), IsEmpty());
}

TEST(OwnAddresses, LoopbackIsBetterThanNothing) {
  EXPECT_THAT(ChooseAddresses({a_host[0]}, "", ""), ElementsAre("127.0.0.1"));
}

TEST(OwnAddresses, OfThisHost) {
  const auto lo = [](const char* name) {
    return std::strcmp(name, "GLOO_SOCKET_IFNAME") == 0 ? "lo" : "127.0.0.1";
  };
  ASSERT_FALSE(OwnAddresses(lo).empty());
  EXPECT_EQ(OwnAddresses(lo)[0], "127.0.0.1");
  const auto nothing = [](const char*) -> const char* { return nullptr; };
  EXPECT_FALSE(OwnAddresses(nothing).empty());
}

}  // namespace
}  // namespace muster
