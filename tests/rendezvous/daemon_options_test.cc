#include "rendezvous/daemon_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<DaemonOptions> Parse(const std::string& line, const std::string& file = "") {
  return ParseDaemonOptions(absl::StrSplit(line, ' ', absl::SkipEmpty()),
                            [&file](const std::string& path) -> absl::StatusOr<std::string> {
                              return path == "f" ? absl::StatusOr<std::string>(file)
                                                 : absl::NotFoundError("No such file or directory");
                            });
}

// "listen secret-file users insecure"
std::string Shape(const std::string& line, const std::string& file = "") {
  const auto options = Parse(line, file);
  return options.ok() ? absl::StrCat(options->listen, " ", options->secret_file, " ",
                                     options->users, " ", int{options->insecure})
                      : absl::StrCat("error: ", options.status().message());
}

TEST(DaemonOptions, WordsAndFile) {
  EXPECT_EQ(Shape(""), "[::]:29400   0");
  EXPECT_EQ(Shape("--listen a:1 --secret-file=s"), "a:1 s  0");
  EXPECT_EQ(Shape("--config f", "# nothing\n"), "[::]:29400   0");
  EXPECT_EQ(Shape("--config f", "listen: 10.0.0.1:29400\nusers: /etc/muster/users\n"),
            "10.0.0.1:29400  /etc/muster/users 0");
  EXPECT_EQ(Shape("--config=f", "insecure: true"), "[::]:29400   1");
  EXPECT_EQ(Shape("--config f", "listen: '[::]:1'\ninsecure: false"), "[::]:1   0");
  EXPECT_EQ(Parse("")->journal, "");
  EXPECT_EQ(Parse("--journal /j")->journal, "/j");
  EXPECT_EQ(Parse("--config f --users u", "journal: /j")->journal, "/j");
  EXPECT_EQ(Parse("--rdzv-store etcd://h:1")->store, "etcd://h:1");
  EXPECT_EQ(Parse("--config f", "rdzv-store: etcd://h:1")->store, "etcd://h:1");
  EXPECT_TRUE(Parse("-h")->help);
  EXPECT_TRUE(Parse("--version")->version);
}

TEST(DaemonOptions, WhatIsTypedWins) {
  EXPECT_EQ(Shape("--config f --listen b:2", "listen: a:1\nusers: u"), "b:2  u 0");
  EXPECT_EQ(Shape("--config f --insecure", "listen: a:1\nusers: u"), "a:1   1");
  EXPECT_EQ(Shape("--config f --secret-file s", "insecure: true"), "[::]:29400 s  0");
  const auto store = Parse("--config f --rdzv-store etcd://h:1", "journal: /j");
  EXPECT_EQ(store->journal, "");
  EXPECT_EQ(store->store, "etcd://h:1");
}

TEST(DaemonOptions, WhereTheKeyLies) {
  const auto path = [](const std::string& line, absl::string_view state,
                       const std::string& file = "") {
    const auto options = Parse(line, file);
    return options.ok() ? TlsKeyPath(*options, state) : options.status().ToString();
  };
  EXPECT_EQ(path("--users u --journal /j --tls-key k", "/s"), "k");
  EXPECT_EQ(path("--users u --journal /j", "/s"), "/j/tls-key");
  EXPECT_EQ(path("--users u --rdzv-store etcd://h:1", "/s"), "/s/tls-key");
  EXPECT_EQ(path("--users u", "/s:/t"), "/s/tls-key");
  EXPECT_EQ(path("--users u", ""), "");
  EXPECT_EQ(path("--config f", "", "users: u\ntls-key: k"), "k");
  EXPECT_EQ(path("--config f --tls-key l", "", "users: u\ntls-key: k"), "l");
  EXPECT_EQ(path("--config f --users v", "", "users: u\ntls-key: k"), "k");
  EXPECT_EQ(path("--config f --secret-file s", "", "users: u\ntls-key: k"), "");
}

TEST(DaemonOptions, Refused) {
  const std::pair<const char*, const char*> lines[] = {
      {"--lisen a:1", "unknown option '--lisen'"},
      {"listen", "unknown option 'listen'"},
      {"--listen", "--listen: want a value"},
      {"--journal=", "--journal: want a folder, got ''"},
      {"--rdzv-store=", "--rdzv-store: want etcd://HOST:PORT"},
      {"--journal /j --rdzv-store etcd://h:1", "--journal and --rdzv-store: give one of them"},
      {"--insecure=1", "unknown option '--insecure=1'"},
      {"--insecure --users u", "give one of them"},
      {"--secret-file s --users u", "give one of them"},
      {"--tls-key k", "--tls-key: want --users, too"},
      {"--secret-file s --tls-key k", "--tls-key: want --users, too"},
      {"--users u --tls-key=", "--tls-key: want a file, got ''"},
      {"--config g", "--config g: No such file"}};
  for (const auto& [line, why] : lines) {
    EXPECT_THAT(Shape(line), HasSubstr(why)) << line;
  }
  const std::pair<const char*, const char*> files[] = {
      {"listen: a:1\nlissen: b\n", "f:2: unknown key 'lissen'"},
      {"config: f", "f:1: unknown key 'config'"},
      {"help: true", "f:1: unknown key 'help'"},
      {"listen: [a, b]", "f:1: listen: want one text"},
      {"listen:", "f:1: listen: want one text"},
      {"insecure: maybe", "f:1: insecure: want true or false"},
      {"users: a\nusers: b", "f:2: users is given twice"},
      {"just words", "f:1: want lines `key: value`"},
      {"- a\n- b", "f:1: want lines `key: value`"},
      {"listen: \"a", "f:1"},
      {"? [a]\n: b", "f:1: unknown key ''"},
      {"insecure: true\nusers: u", "give one of them"}};
  for (const auto& [file, why] : files) {
    EXPECT_THAT(Shape("--config f", file), HasSubstr(why)) << file;
  }
}

}  // namespace
}  // namespace muster
