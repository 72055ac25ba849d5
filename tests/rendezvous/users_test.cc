#include "rendezvous/users.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class UsersTest : public testing::Test {
 protected:
  UsersTest() {
    char name[] = "/tmp/muster-users-test-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~UsersTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    const std::string path = absl::StrCat(folder_, "/", name);
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
  }
  Users Read() {
    auto users = ReadUsers(folder_);
    EXPECT_TRUE(users.ok()) << users.status();
    return users.ok() ? *std::move(users) : Users();
  }

  std::string folder_;
};

const std::string& Secret(char c) {
  static std::string text;
  return text = std::string(32, c) + "\n";
}

TEST_F(UsersTest, AFileForEach) {
  Write("bob", Secret('b'));
  Write("alice.x", Secret('a'));
  Write(".alice.swp", "anything", 0666);
  const Users users = Read();
  EXPECT_THAT(users.left_out, IsEmpty());
  ASSERT_EQ(users.known.size(), 2U);
  EXPECT_EQ(users.known[0].name, "alice.x");
  EXPECT_EQ(users.known[0].secret, std::string(32, 'a'));
  EXPECT_EQ(users.known[1].KeyOf("job"), "bob/job");
}

TEST_F(UsersTest, NobodyIsAllowed) { EXPECT_THAT(Read().known, IsEmpty()); }

TEST_F(UsersTest, WhatIsWrongIsNamedAndKeepsNobodyElseOut) {
  Write("dora", Secret('d'));
  Write("a b", Secret('a'));
  Write("alice", "short\n");
  Write("bob", Secret('b'), 0644);
  Write("bob~", Secret('b'));
  std::filesystem::create_directory(folder_ + "/carl");
  const Users users = Read();
  EXPECT_THAT(
      users.left_out,
      ElementsAre(HasSubstr("/a b: want a user's name"), HasSubstr("/alice: "), HasSubstr("/bob: "),
                  HasSubstr("/bob~: want a user's name"), HasSubstr("carl is not a regular file")));
  EXPECT_THAT(users.left_out[1], HasSubstr("want 16.."));
  EXPECT_THAT(users.left_out[2], HasSubstr("may be read or changed by others"));
  ASSERT_EQ(users.known.size(), 1U);
  EXPECT_EQ(users.known[0].name, "dora");
}

TEST_F(UsersTest, OfTwoWithOneSecretNeitherIsLetIn) {
  Write("alice", Secret('a'));
  Write("bob", Secret('a'));
  Write("dora", Secret('d'));
  const Users users = Read();
  EXPECT_THAT(users.left_out, ElementsAre(HasSubstr("/alice: alice, bob have one secret"),
                                          HasSubstr("/bob: alice, bob have one secret")));
  ASSERT_EQ(users.known.size(), 1U);
}

TEST_F(UsersTest, WithoutTheFolderThereAreNone) {
  EXPECT_THAT(std::string(ReadUsers("/nonexistent/users").status().message()),
              HasSubstr("/nonexistent/users: No such file"));
}

}  // namespace
}  // namespace muster
