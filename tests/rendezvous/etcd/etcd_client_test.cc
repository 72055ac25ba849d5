#include "rendezvous/etcd/etcd_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/rendezvous/etcd/fake_etcd.h"

namespace muster {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kLimit = absl::Seconds(10);

TEST(EtcdPlace, IsMembersAndAName) {
  const auto place = ParseEtcdPlace("etcd://h1:2379,[::1]:1/physics");
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->members, (std::vector<std::string>{"h1:2379", "[::1]:1"}));
  EXPECT_EQ(place->name, "physics");
  EXPECT_EQ(ParseEtcdPlace("etcd://h:1")->name, "default");
}

TEST(EtcdPlace, SaysWhatIsWrong) {
  struct Case {
    const char* text;
    const char* why;
  };
  const Case cases[] = {
      {"h:2379", "not an etcd cluster"},
      {"http://h:2379", "not an etcd cluster"},
      {"etcd://", "'' is not HOST:PORT"},
      {"etcd://h", "'h' is not HOST:PORT"},
      {"etcd://h:0", "'h:0' is not HOST:PORT"},
      {"etcd://h:70000", "'h:70000' is not HOST:PORT"},
      {"etcd://h:1,,g:2", "'' is not HOST:PORT"},
      {"etcd://:1", "':1' is not HOST:PORT"},
      {"etcd://h:1/", "NAME is one word"},
      {"etcd://h:1/a/b", "NAME is one word"},
      {"etcd://a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1",
       "more than 16 members"}};
  for (const Case& one : cases) {
    const auto place = ParseEtcdPlace(one.text);
    EXPECT_EQ(place.status().code(), absl::StatusCode::kInvalidArgument) << one.text;
    EXPECT_THAT(std::string(place.status().message()), HasSubstr(one.why));
    EXPECT_THAT(std::string(place.status().message()), HasSubstr("want etcd://HOST:PORT"));
  }
}

TEST(EtcdClient, ChangesHappenOnlyUnderTheirGuards) {
  FakeEtcd etcd;
  EtcdClient client({{etcd.member()}, "x"});
  const auto first = client.Change({{{"/a/k", 0}}, {{"/a/k", "1", 0}}, {}}, kLimit);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_GT(*first, 0);
  EXPECT_EQ(*client.Change({{{"/a/k", 0}}, {{"/a/k", "2", 0}}, {}}, kLimit), 0);
  EXPECT_GT(*client.Change({{{"/a/k", *first}}, {{"/b/k", "3", 0}}, {"/a/"}}, kLimit), *first);
  EXPECT_TRUE(client.Read("/a/", kLimit)->empty());
  const auto rest = client.Read("/b/", kLimit);
  ASSERT_EQ(rest->size(), 1U);
  EXPECT_EQ(rest->front().value, "3");
}

TEST(EtcdClient, ReadsMoreThanOnePage) {
  FakeEtcd etcd;
  EtcdClient client({{etcd.member()}, "x"});
  for (int i = 0; i < 250; i += 50) {
    EtcdChange change;
    for (int j = i; j < i + 50; ++j) {
      change.puts.push_back({absl::StrCat("/a/", 10'000 + j), std::to_string(j), 0});
    }
    ASSERT_TRUE(client.Change(change, kLimit).ok());
  }
  const auto all = client.Read("/a/", kLimit);
  ASSERT_EQ(all->size(), 250U);
  for (int i = 0; i < 250; ++i) {
    EXPECT_EQ((*all)[static_cast<size_t>(i)].value, std::to_string(i));
  }
}

TEST(EtcdClient, AsksTheNextMemberWhereOneIsDown) {
  FakeEtcd etcd;
  EtcdClient client({{"127.0.0.1:1", etcd.member()}, "x"});
  EXPECT_TRUE(client.Change({{}, {{"/k", "v", 0}}, {}}, kLimit).ok());
}

TEST(EtcdClient, AsksTheNextMemberWhereTheTimeWasOverThereFirst) {
  for (const char* words : {"context deadline exceeded", "context canceled"}) {
    FakeEtcd late;
    FakeEtcd etcd;
    EtcdClient client({{late.member(), etcd.member()}, "x"});
    late.Refuse({grpc::StatusCode::UNKNOWN, words});
    EXPECT_TRUE(client.Change({{}, {{"/k", "v", 0}}, {}}, kLimit).ok()) << words;
  }
}

TEST(EtcdClient, SaysWhoDidNotAnswerInTime) {
  EtcdClient client({{"127.0.0.1:1"}, "x"});
  const auto none = client.Read("/", absl::Milliseconds(50));
  EXPECT_EQ(none.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("127.0.0.1:1"));
}

TEST(EtcdClient, PassesOnARefusal) {
  FakeEtcd etcd;
  EtcdClient client({{etcd.member()}, "x"});
  for (const auto code : {grpc::StatusCode::PERMISSION_DENIED, grpc::StatusCode::UNKNOWN}) {
    etcd.Refuse({code, "etcdserver: permission denied"});
    const auto refused = client.Read("/", kLimit);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("permission denied"));
  }
}

TEST(EtcdClient, ALeaseTakesItsKeysAlong) {
  FakeEtcd etcd;
  EtcdClient client({{etcd.member()}, "x"});
  const auto lease = client.Grant(absl::Seconds(5), kLimit);
  ASSERT_TRUE(lease.ok()) << lease.status();
  ASSERT_TRUE(client.Change({{}, {{"/k", "v", *lease}}, {}}, kLimit).ok());
  EXPECT_TRUE(client.KeepAlive(*lease, kLimit).ok());
  EXPECT_TRUE(client.Revoke(*lease, kLimit).ok());
  EXPECT_TRUE(client.Read("/", kLimit)->empty());
  EXPECT_TRUE(absl::IsNotFound(client.KeepAlive(*lease, kLimit)));
}

TEST(EtcdClient, ReadsTheMembers) {
  FakeEtcd etcd;
  etcd.ListMembers({{"http://h1:2379", "http://10.0.0.1:2379"}, {}});
  const auto members = EtcdClient({{etcd.member()}, "x"}).Members(kLimit);
  ASSERT_TRUE(members.ok()) << members.status();
  ASSERT_EQ(members->size(), 2U);
  EXPECT_EQ((*members)[0].client_urls,
            (std::vector<std::string>{"http://h1:2379", "http://10.0.0.1:2379"}));
  EXPECT_TRUE((*members)[0].votes);
  EXPECT_TRUE((*members)[1].client_urls.empty());
}

TEST(EtcdClient, SaysThatItHasNoUser) {
  FakeEtcd etcd;
  etcd.Refuse({grpc::StatusCode::INVALID_ARGUMENT, "etcdserver: user name is empty"});
  const auto read = EtcdClient({{etcd.member()}, "x"}).Read("/a/", kLimit);
  EXPECT_THAT(std::string(read.status().message()),
              HasSubstr("user name is empty; this etcd wants a user and Muster logs in as none"));
}

}  // namespace
}  // namespace muster
