#include "agent/io/program_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace muster {
namespace {

using testing::IsEmpty;

class ProgramFilesTest : public testing::Test {
 protected:
  ProgramFilesTest() {
    std::string path = testing::TempDir() + "program_files_XXXXXX";
    root_ = mkdtemp(path.data());
  }
  ~ProgramFilesTest() override { std::filesystem::remove_all(root_); }

  // Of a program whose file this is, and of one that has none.
  std::vector<ProgramFile> Of(const std::string& path) const {
    PreparedProgram program;
    program.facts.file = path;
    return FilesToCompare({program, PreparedProgram()});
  }
  std::vector<ProgramFile> With(const std::string& folder, const std::string& text) const {
    std::filesystem::create_directories(root_ + folder);
    const std::string path = root_ + folder + "/train.py";
    std::ofstream(path, std::ios::binary) << text;
    return Of(path);
  }
  std::string root_;
};

TEST_F(ProgramFilesTest, AreComparedByWhatIsInThem) {
  const std::vector<ProgramFile> a = With("/a", "pass\n");
  ASSERT_EQ(a.size(), 2u);
  EXPECT_EQ(a[0].name, "train.py");
  EXPECT_EQ(a[0].mark.substr(0, 2), "5 ");
  EXPECT_EQ(a[0].mark.size(), 2u + 16u);
  EXPECT_EQ(a[1], ProgramFile());
  EXPECT_EQ(With("/b", "pass\n"), a);
  EXPECT_NE(With("/c", "pass \n"), a);
  const std::string large(1 << 20, 'x');
  EXPECT_EQ(With("/d", large), With("/e", large));
  EXPECT_NE(With("/d", large), With("/e", large + "x"));
}

TEST_F(ProgramFilesTest, WhatIsNotThereHasAName) {
  const std::vector<ProgramFile> none = Of(root_ + "/nosuch.py");
  ASSERT_EQ(none.size(), 2u);
  EXPECT_EQ(none[0], (ProgramFile{"nosuch.py", ""}));
}

TEST_F(ProgramFilesTest, WhatIsNoFileIsNotCompared) {
  EXPECT_THAT(Of(root_), IsEmpty());
  EXPECT_THAT(Of(""), IsEmpty());
}

}  // namespace
}  // namespace muster
