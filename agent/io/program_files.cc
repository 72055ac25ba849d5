#include "agent/io/program_files.h"

#include <sys/stat.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "agent/io/small_file.h"
#include "proto/base/limits.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

constexpr size_t kMarkedBytesMax = 64u << 10;  // of a large program: its build id is among them
constexpr size_t kMarkDigits = 16;

}  // namespace

std::vector<ProgramFile> FilesToCompare(const std::vector<PreparedProgram>& programs) {
  std::vector<ProgramFile> out;
  bool any = false;
  for (size_t i = 0; i < std::min(programs.size(), kProgramFilesMax); ++i) {
    ProgramFile file;
    const std::string& path = programs[i].facts.file;
    const UniqueFd fd = path.empty() ? UniqueFd() : OpenRegular(path);
    struct stat st {};
    if (fd.valid() && fstat(fd.get(), &st) == 0) {
      const std::string what = absl::StrCat(st.st_size, " ", ReadAt(fd.get(), 0, kMarkedBytesMax));
      file.name = path.substr(path.rfind('/') + 1);
      file.mark = absl::BytesToHexString(HmacSha256("program", what)).substr(0, kMarkDigits);
      any = true;
    }
    out.push_back(std::move(file));
  }
  return any ? out : std::vector<ProgramFile>();
}

}  // namespace muster
