#include "launcher/life_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <uv.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/string_view.h"
#include "proto/base/log.h"
#include "proto/wire/uv_handles.h"

namespace muster {
namespace {

std::string TextOf(const std::filesystem::path& path) {
  std::stringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

class LifeFileTest : public testing::Test {
 protected:
  LifeFileTest() { uv_loop_init(&loop_); }
  ~LifeFileTest() override {
    SetLogSink(nullptr);
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
    std::filesystem::remove_all(folder_);
  }

  uv_loop_t loop_;
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(LifeFileTest, TheNewestIsKeptForItsOwnerAlone) {
  const std::filesystem::path path = folder_ / "x.journal/slurm-17";
  LifeFile file(&loop_, path);
  for (const char* text : {"one", "two", "three"}) {
    file.Write(text);
  }
  EXPECT_FALSE(file.idle());
  UvRunUntil(&loop_, [&file] { return file.idle(); });
  EXPECT_EQ(TextOf(path), "three");
  struct stat there {};
  ASSERT_EQ(stat(path.c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 0777, 0600u);
  file.Remove();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(LifeFileTest, WhatTheDiskRefusesIsSaidOnce) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "file") << "in the way";
  int said = 0;
  SetLogSink(
      [&said](LogLevel, absl::string_view text) { said += text.find("--journal: ") == 0 ? 1 : 0; });
  LifeFile file(&loop_, folder_ / "file/slurm-17");
  file.Write("one");
  file.Write("two");
  UvRunUntil(&loop_, [&file] { return file.idle(); });
  EXPECT_EQ(said, 1);
}

TEST_F(LifeFileTest, AWriteMayOutliveIt) {
  LifeFile(&loop_, folder_ / "slurm-17").Write("one");
  uv_run(&loop_, UV_RUN_DEFAULT);
  EXPECT_EQ(TextOf(folder_ / "slurm-17"), "one");
}

}  // namespace
}  // namespace muster
