#include "launcher/job_secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "proto/wire/dial.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

JobSpec OfPbs() {
  JobSpec spec;
  spec.given_hosts.emplace();
  spec.given_hosts->scheduler = Scheduler::kPbs;
  return spec;
}

TEST(JobSecret, IsMadeAndHandedOverWhereThatIsPossible) {
  const auto one = MakeJobSecret({}, {{"PBS_JOBCOOKIE", "keks"}});
  const auto other = MakeJobSecret({}, {});
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->secret.size(), 2 * kSecretBytes);
  EXPECT_NE(one->secret, other->secret);
  EXPECT_EQ(one->key + one->file, "");
}

TEST(JobSecret, InsecureHasNone) {
  JobSpec spec = OfPbs();
  spec.insecure = true;
  const auto none = MakeJobSecret(spec, {{"PBS_JOBCOOKIE", "keks"}});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->secret, "");
  EXPECT_EQ(none->key, kNoKey);
}

TEST(JobSecret, UnderPbsItFollowsFromTheCookieAndTheKey) {
  const auto one = MakeJobSecret(OfPbs(), {{"PBS_JOBCOOKIE", "keks"}});
  const auto other = MakeJobSecret(OfPbs(), {{"PBS_JOBCOOKIE", "keks"}});
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_THAT(one->key, StartsWith(std::string(kCookieKey)));
  EXPECT_EQ(one->secret, CookieSecret("keks", one->key));
  EXPECT_NE(one->secret, other->secret);  // two jobs of one script
}

TEST(JobSecret, WithoutACookieItIsInAFileForTheUserAlone) {
  char folder[] = "/tmp/muster-secret-test-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  for (const Environment& environment :
       {Environment{{"PBS_O_WORKDIR", folder}, {"HOME", "/nonexistent"}},
        Environment{{"PBS_O_WORKDIR", "/nonexistent"}, {"HOME", folder}}}) {
    const auto made = MakeJobSecret(OfPbs(), environment);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_THAT(made->file, StartsWith(folder));
    EXPECT_EQ(made->key, "file:" + made->file);
    EXPECT_EQ(*LoadSecret(made->file), made->secret);
    struct stat there {};
    ASSERT_EQ(stat(made->file.c_str(), &there), 0);
    EXPECT_EQ(there.st_mode & 0777u, 0600u);
    RemoveSecretFile(made->file);
    EXPECT_FALSE(std::filesystem::exists(made->file));
  }
  std::filesystem::remove_all(folder);
}

TEST(JobSecret, NoPlaceForTheFileIsSaidWithTheWayOut) {
  const auto none = MakeJobSecret(OfPbs(), {{"HOME", "/proc/nonexistent"}});
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("no PBS_JOBCOOKIE"));
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("--insecure"));
}

}  // namespace
}  // namespace muster
