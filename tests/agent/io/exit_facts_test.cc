#include "agent/io/exit_facts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "proto/base/limits.h"

namespace muster {
namespace {

class ExitFactsTest : public ::testing::Test {
 protected:
  ExitFactsTest() {
    std::string name = absl::StrCat(::testing::TempDir(), "/muster-facts-XXXXXX");
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~ExitFactsTest() override {
    EXPECT_EQ(std::system(absl::StrCat("rm -rf '", folder_, "'").c_str()), 0);
  }
  std::string File(const std::string& name, const std::string& text) {
    std::string path = absl::StrCat(folder_, "/", name);
    EXPECT_EQ(std::system(absl::StrCat("mkdir -p '", path.substr(0, path.rfind('/')), "'").c_str()),
              0);
    std::ofstream(path) << text;
    return path;
  }
  std::string folder_;
};

TEST_F(ExitFactsTest, ErrorFiles) {
  const struct {
    const char* name;
    std::string text;
    std::string message;
  } cases[] = {
      {"torch's record",
       R"({"message": {"message": "ValueError: boom\nline", "extraInfo": {"py_callstack": "Traceback",
        "timestamp": "1700000000"}}})",
       "ValueError: boom\nline"},
      {"extraInfo is a list", R"({"message": {"message": "m", "extraInfo": [1]}})", "m"},
      {"numbers of Python's",
       R"({"message": {"message": "loss is NaN \"NaN", "extraInfo": {"loss": NaN, "lr":
        [-Infinity,Infinity]}}})",
       "loss is NaN \"NaN"},
      {"plain string", R"({"message": "m"})", "m"},
      {"message is a number", R"({"message": 1})", ""},
      {"inner message is a list", R"({"message": {"message": []}})", ""},
      {"no message", R"({"a": 1})", ""},
      {"a list", R"([{"message": "m"}])", ""},
      {"empty", "", ""},
      {"cut off", R"({"message": {"mess)", ""},
      {"not UTF-8", "{\"message\": \"\xff\"}", ""},
      {"deep", std::string(kErrorFileBytesMax, '['), ""},
      {"too long", absl::StrCat("{\"message\": \"", std::string(kErrorFileBytesMax, 'x'), "\"}"),
       ""},
      {"long",
       absl::StrCat("{\"message\": {\"message\": \"", std::string(kErrorMessageBytesMax, 'x'),
                    "y\", \"extraInfo\": {\"py_callstack\": \"",
                    std::string(kErrorMessageBytesMax, 'z'), "\", \"timestamp\": \"7\"}}}"),
       std::string(kErrorMessageBytesMax, 'x')},
  };
  for (const auto& c : cases) {
    const ErrorFile file = ReadErrorFile(File("error.json", c.text));
    EXPECT_EQ(file.message, c.message) << c.name;
    EXPECT_EQ(file.age.has_value(), !file.message.empty()) << c.name;
  }
}

TEST_F(ExitFactsTest, WhenAnErrorFileWasWritten) {
  const std::string path = File("error.json", R"({"message": "m"})");
  EXPECT_LT(*ReadErrorFile(path).age, absl::Minutes(1));
  const timespec times[] = {{0, UTIME_OMIT}, absl::ToTimespec(absl::Now() - absl::Hours(1))};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_GE(*ReadErrorFile(path).age, absl::Hours(1));
  EXPECT_LT(*ReadErrorFile(path).age, absl::Minutes(61));
  const timespec tomorrow[] = {{0, UTIME_OMIT}, absl::ToTimespec(absl::Now() + absl::Hours(24))};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), tomorrow, 0), 0);
  EXPECT_EQ(ReadErrorFile(path).age, absl::ZeroDuration());
}

TEST_F(ExitFactsTest, ErrorFileThatIsNoFile) {
  EXPECT_EQ(ReadErrorFile(folder_ + "/none").message, "");
  EXPECT_EQ(ReadErrorFile(folder_).message, "");
  EXPECT_EQ(ReadErrorFile("").message, "");
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(ReadErrorFile(fifo).message, "");  // and no waiting for a writer
}

TEST_F(ExitFactsTest, OomKillsOfVersion2) {
  const std::string own = File("cgroup", "0::/user.slice/job 1\n");
  const std::string root = folder_ + "/fs";
  EXPECT_EQ(OomKills(own, root), 0u);
  File("fs/user.slice/job 1/memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\n");
  EXPECT_EQ(OomKills(own, root), 2u);
}

TEST_F(ExitFactsTest, OomKillsOfVersion1) {
  const std::string own = File("cgroup",
                               "12:cpu,cpuacct:/job\n4:memory:/job:with colon\n"
                               "1:name=systemd:/x\n0::/job\n");
  const std::string root = folder_ + "/fs";
  File("fs/memory/job:with colon/memory.oom_control",
       "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
  EXPECT_EQ(OomKills(own, root), 5u);
}

// In a container the host's names stand in /proc/self/cgroup, but its own group is mounted.
TEST_F(ExitFactsTest, OomKillsWhereOnlyTheOwnGroupIsMounted) {
  const std::string root = folder_ + "/fs";
  File("fs/memory.events", "oom_kill 7\n");
  EXPECT_EQ(OomKills(File("v2", "0::/docker/0123\n"), root), 7u);
  EXPECT_EQ(OomKills(File("outside", "0::/../../x\n"), root), 7u);
  EXPECT_EQ(OomKills(File("namespace", "0::/\n"), root), 7u);
  File("fs2/memory/memory.oom_control", "oom_kill 8\n");
  EXPECT_EQ(OomKills(File("v1", "4:memory:/docker/0123\n"), folder_ + "/fs2"), 8u);
}

TEST_F(ExitFactsTest, NoCgroups) {
  EXPECT_EQ(OomKills(folder_ + "/none", folder_), 0u);
  EXPECT_EQ(OomKills(File("odd", "nonsense\n::\n4:memory\n"), folder_), 0u);
}

}  // namespace
}  // namespace muster
