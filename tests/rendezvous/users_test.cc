#include "rendezvous/users.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

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
  std::string Error() { return std::string(ReadUsers(folder_).status().message()); }

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
  const auto users = ReadUsers(folder_);
  ASSERT_TRUE(users.ok()) << users.status();
  ASSERT_EQ(users->size(), 2U);
  EXPECT_EQ((*users)[0].name, "alice.x");
  EXPECT_EQ((*users)[0].secret, std::string(32, 'a'));
  EXPECT_EQ((*users)[1].KeyOf("job"), "bob/job");
}

TEST_F(UsersTest, NobodyIsAllowed) {
  const auto users = ReadUsers(folder_);
  ASSERT_TRUE(users.ok()) << users.status();
  EXPECT_TRUE(users->empty());
}

TEST_F(UsersTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(std::string(ReadUsers("/nonexistent/users").status().message()),
              HasSubstr("/nonexistent/users: No such file"));
  Write("a b", Secret('a'));
  EXPECT_THAT(Error(), HasSubstr("a b: want a user's name"));
  std::filesystem::remove(folder_ + "/a b");
  Write("alice", "short\n");
  EXPECT_THAT(Error(), HasSubstr("want 16.."));
  Write("alice", Secret('a'), 0644);
  EXPECT_THAT(Error(), HasSubstr("may be read or changed by others"));
  Write("alice", Secret('a'));
  Write("bob", Secret('a'));
  EXPECT_THAT(Error(), HasSubstr("the same secret as"));
  std::filesystem::remove(folder_ + "/bob");
  std::filesystem::create_directory(folder_ + "/carl");
  EXPECT_THAT(Error(), HasSubstr("carl is not a regular file"));
}

}  // namespace
}  // namespace muster
