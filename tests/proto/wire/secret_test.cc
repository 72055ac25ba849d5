#include "proto/wire/secret.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/proof_text.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SecretFileTest : public testing::Test {
 protected:
  SecretFileTest() {
    char name[] = "/tmp/muster-secret-test-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~SecretFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& name, const std::string& text, mode_t mode) {
    std::ofstream(Path(name)) << text;
    chmod(Path(name).c_str(), mode);
  }

  std::string folder_;
};

TEST(Secret, HmacOfRfc4231Case2) {
  EXPECT_EQ(absl::BytesToHexString(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Secret, SecretsAre256BitAndDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const auto secret = MakeSecret();
    ASSERT_TRUE(secret.ok());
    EXPECT_EQ(secret->size(), 64u);
    seen.insert(*secret);
  }
  EXPECT_EQ(seen.size(), 100u);
}

TEST(Secret, EqualOnlyWhenEqual) {
  EXPECT_TRUE(ConstantTimeEqual("abc", "abc"));
  EXPECT_FALSE(ConstantTimeEqual("abc", "abd"));
  EXPECT_FALSE(ConstantTimeEqual("abc", "ab"));
  EXPECT_TRUE(ConstantTimeEqual("", ""));
}

TEST(Secret, EveryFieldOfTheProofCounts) {
  const Handshake base{"m", "a", "job"};
  std::set<std::string> proofs;
  for (const Handshake& h : {base, Handshake{"n", "a", "job"}, Handshake{"m", "b", "job"},
                             Handshake{"m", "a", "jo"}, Handshake{"ma", "", "job"}}) {
    proofs.insert(AgentProof("secret", h));
    proofs.insert(MasterProof("secret", h));
    proofs.insert(StreamProof("secret", h, 1, 2));
    proofs.insert(StreamProof("secret", h, 2, 1));
    proofs.insert(AgentProof("another", h));
  }
  EXPECT_EQ(proofs.size(), 25u);
}

TEST(Secret, ASideWithASecretRefusesAnEmptyProof) {
  const Handshake h{"m", "a", "job"};
  EXPECT_EQ(AgentProof("", h), "");
  EXPECT_FALSE(ProofHolds(AgentProof("secret", h), ""));
  EXPECT_FALSE(ProofHolds(AgentProof("", h), AgentProof("secret", h)));
  EXPECT_TRUE(ProofHolds(AgentProof("", h), ""));
}

TEST_F(SecretFileTest, MadeOnceAndThenKept) {
  const auto first = LoadOrMakeUserSecret(Path("a/b/secret"));
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = LoadOrMakeUserSecret(Path("a/b/secret"));
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(*first, *second);
  struct stat info {};
  ASSERT_EQ(stat(Path("a/b/secret").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  ASSERT_EQ(stat(Path("a/b").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  // Nothing but the secret is left behind.
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Path("a/b"))) {
    entries += entry.exists() ? 1 : 0;
  }
  EXPECT_EQ(entries, 1u);
}

TEST_F(SecretFileTest, ManyMakersAgree) {
  std::vector<std::string> secrets(16);
  std::vector<std::thread> threads;
  threads.reserve(secrets.size());
  for (std::string& secret : secrets) {
    threads.emplace_back([this, &secret] {
      const auto made = LoadOrMakeUserSecret(Path("x/secret"));
      secret = made.ok() ? *made : std::string(made.status().message());
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(std::set<std::string>(secrets.begin(), secrets.end()).size(), 1u);
  EXPECT_EQ(secrets[0].size(), 64u);
}

TEST_F(SecretFileTest, WrongPermissionsNameTheCure) {
  Write("secret", std::string(64, 'a'), 0640);
  const auto secret = LoadOrMakeUserSecret(Path("secret"));
  ASSERT_FALSE(secret.ok());
  EXPECT_THAT(std::string(secret.status().message()), HasSubstr("chmod 600 " + Path("secret")));
}

TEST_F(SecretFileTest, WrongPermissionsInAPodNameWhatItsVolumeHasToSay) {
  Write("secret", std::string(64, 'a'), 0440);
  ASSERT_EQ(setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1), 0);
  // Of root's for root, of another's for another.
  const auto secret = LoadSecret(Path("secret"));
  const bool root = geteuid() == 0;
  chmod(folder_.c_str(), 0711);
  chmod(Path("secret").c_str(), 0400);
  ASSERT_TRUE(!root || seteuid(65534) == 0);
  const auto unreadable = LoadSecret(Path("secret"));
  ASSERT_TRUE(!root || seteuid(0) == 0);
  unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_THAT(std::string(secret.status().message()),
              AllOf(HasSubstr(absl::StrCat("mode 0440, of user id ", geteuid())),
                    HasSubstr("defaultMode: 0400"), HasSubstr("fsGroup"), Not(HasSubstr("chmod"))));
  if (root) {
    EXPECT_THAT(std::string(unreadable.status().message()),
                AllOf(HasSubstr("(mode 0400) belongs to user id 0, we are 65534"),
                      HasSubstr("defaultMode: 0440 and fsGroup")));
  }
}

// As Kubernetes mounts them for a pod that is not root's.
TEST_F(SecretFileTest, RootMayLetAGroupReadOneOfItsOwn) {
  if (geteuid() != 0) {
    std::cout << "left out: a file of root's needs root\n";
    return;
  }
  chmod(folder_.c_str(), 0711);
  for (const mode_t mode : {0440U, 0640U, 0660U, 0444U}) {
    Write("secret", std::string(64, 'a'), mode);
    ASSERT_EQ(chown(Path("secret").c_str(), 0, 65534), 0);
    ASSERT_EQ(setegid(65534) + seteuid(65534), 0);
    const auto secret = LoadSecret(Path("secret"));
    ASSERT_EQ(seteuid(0) + setegid(0), 0);
    EXPECT_EQ(secret.ok(), mode == 0440 || mode == 0640) << secret.status();
    std::filesystem::remove(Path("secret"));
  }
}

TEST_F(SecretFileTest, ShortAndEmptyFilesAreRefused) {
  Write("empty", "", 0600);
  Write("short", "abc\n", 0600);
  EXPECT_FALSE(LoadOrMakeUserSecret(Path("empty")).ok());
  EXPECT_FALSE(LoadOrMakeUserSecret(Path("short")).ok());
}

TEST_F(SecretFileTest, ASitesSeedIsMadeOnceAndThenKept) {
  const auto first = LoadOrMakeSiteSeed(Path("a/tls-key"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->size(), kSecretBytes);
  EXPECT_EQ(*LoadOrMakeSiteSeed(Path("a/tls-key")), *first);
  struct stat info {};
  ASSERT_EQ(stat(Path("a/tls-key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  Write("known", std::string(32, '0') + std::string(32, 'F') + "\n", 0600);
  EXPECT_EQ(*LoadOrMakeSiteSeed(Path("known")), std::string(16, '\0') + std::string(16, '\xff'));
}

TEST_F(SecretFileTest, WhatIsNoSitesSeedIsRefused) {
  const auto refused = [this](const char* name, const std::string& text, mode_t mode) {
    Write(name, text, mode);
    const absl::Status status = LoadOrMakeSiteSeed(Path(name)).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(refused("short", std::string(63, 'a'), 0600),
            "--tls-key: " + Path("short") +
                ": want 64 hex digits, got 63 of them: copy the key of before there, or rm " +
                Path("short") + ", and a new one is made, whose fingerprint users have to be told");
  EXPECT_THAT(refused("words", std::string(64, 'x'), 0600), HasSubstr("got 64 characters"));
  EXPECT_THAT(refused("open", std::string(64, 'a'), 0644),
              AllOf(HasSubstr("--tls-key: "), HasSubstr("chmod 600 " + Path("open"))));
  EXPECT_THAT(refused("empty", "", 0600), HasSubstr("got 0"));
}

// A user without a home.
TEST_F(SecretFileTest, WhereNoneCanBeMadeTheErrorSaysWhatToDo) {
  const auto refused = [](const char* config) {
    setenv("XDG_CONFIG_HOME", config, 1);
    setenv("HOME", "", 1);
    return std::string(SecretFor(/*insecure=*/false, "").status().message());
  };
  const char* const names[] = {"XDG_CONFIG_HOME", "HOME"};
  std::vector<std::string> before;
  for (const char* name : names) {
    before.emplace_back(std::getenv(name) == nullptr ? "" : std::getenv(name));
  }
  for (const std::string& text : {refused("/proc/none"), refused("")}) {
    EXPECT_THAT(text, HasSubstr("--secret-file FILE, made once by  (umask 077; openssl rand "));
    EXPECT_THAT(text, HasSubstr("or each --insecure: then no proof"));
  }
  EXPECT_THAT(refused("/proc/none"), testing::StartsWith("secret: mkdir /proc/none: "));
  EXPECT_EQ(*SecretFor(/*insecure=*/true, ""), "");
  for (size_t i = 0; i < before.size(); ++i) {
    setenv(names[i], before[i].c_str(), 1);
  }
}

TEST_F(SecretFileTest, AFileThatIsNotThereIsNamedWithItsOptionAndHowToMakeIt) {
  const absl::Status missing = SecretFor(/*insecure=*/false, Path("missing")).status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()),
              AllOf(testing::StartsWith("--secret-file " + Path("missing") +
                                        ": there is no such file: give each node the same "),
                    HasSubstr("openssl rand -hex 32 > FILE)")));
}

// As one whose HOME is that of another user.
TEST_F(SecretFileTest, OneThatMayNotBeReadIsNamedWithItsOwner) {
  const uid_t self = geteuid();
  ASSERT_EQ(close(open(Path("secret").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0000)), 0);
  if (self == 0) {  // who may read everything
    ASSERT_EQ(seteuid(65534), 0);
  }
  const std::string said(LoadSecret(Path("secret")).status().message());
  const uid_t reads = geteuid();
  ASSERT_EQ(seteuid(self), 0);
  EXPECT_THAT(said, HasSubstr(absl::StrCat("open ", Path("secret"), ": Permission denied: ")));
  EXPECT_THAT(said, HasSubstr(absl::StrCat(") belongs to user id ", self, ", we are ", reads)));
  EXPECT_THAT(said, HasSubstr("below $HOME: is that yours? --secret-file names another"));
}

TEST_F(SecretFileTest, NotAFileOrMissing) {
  EXPECT_TRUE(absl::IsNotFound(LoadSecret(Path("none")).status()));
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  EXPECT_FALSE(LoadSecret(Path("fifo")).ok());  // and does not hang
}

}  // namespace
}  // namespace muster
