#include "agent/io/program_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "agent/io/file_mark.h"
#include "agent/io/small_file.h"
#include "proto/base/limits.h"

namespace muster {
namespace {

constexpr size_t kMarkedBytesMax = 64u << 10;  // of a large program: its build id is among them

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
      file.name = path.substr(path.rfind('/') + 1);
      file.mark = absl::StrCat(st.st_size, " ", FileMark(fd.get(), kMarkedBytesMax));
      any = true;
    } else if (!path.empty() && stat(path.c_str(), &st) != 0 && errno == ENOENT) {
      file.name = path.substr(path.rfind('/') + 1);
      any = true;
    }
    out.push_back(std::move(file));
  }
  return any ? out : std::vector<ProgramFile>();
}

}  // namespace muster
