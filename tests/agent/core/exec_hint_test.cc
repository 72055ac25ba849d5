#include "agent/core/exec_hint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace muster {
namespace {

using ::testing::HasSubstr;

TEST(ExecHint, SaysWhatToLookAtNext) {
  const struct {
    const char* program;
    int error;
    FileKind there;
    const char* wanted;
  } cases[] = {
      {"echo $RANK", ENOENT, FileKind::kNone, "bash -c"},
      {"./a.out|tee", ENOENT, FileKind::kNone, "bash -c"},
      {"./a.out --steps 3", ENOENT, FileKind::kNone, "words of their own"},
      {"my prog", ENOENT, FileKind::kNone, "words of their own"},
      {"hostnam", ENOENT, FileKind::kNone, "no folder of its PATH"},
      {"status", ENOENT, FileKind::kNone, "'launch ps' lists"},
      {"", ENOENT, FileKind::kNone, "no folder of its PATH"},
      {"./a.out", ENOENT, FileKind::kNone, "--ship"},
      {"my prog", ENOENT, FileKind::kFile, "what runs it is not"},
      {"./a.out", ENOENT, FileKind::kFile, "what runs it is not"},
      {"./a.out", EACCES, FileKind::kFile, "chmod +x"},
      {"/tmp", EACCES, FileKind::kFolder, "it is a folder"},
  };
  for (const auto& c : cases) {
    const std::string hint = ExecHint(c.program, c.error, c.there);
    EXPECT_THAT(hint, HasSubstr(c.wanted)) << c.program;
    EXPECT_EQ(hint.substr(0, 2), "; ");
  }
}

TEST(ExecHint, IsSilentWhereTheKernelsWordsAreAll) {
  EXPECT_EQ(ExecHint("./a.out", ENOMEM, FileKind::kFile), "");
  EXPECT_EQ(ExecHint("/secret/a.out", EACCES, FileKind::kNone), "");
}

}  // namespace
}  // namespace muster
