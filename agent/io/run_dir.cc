#include "agent/io/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr char kPrefix[] = "muster-";
constexpr char kLock[] = "/agent.lock";
// A folder that is new may be taken for one that was left, by one who looks right then.
constexpr int kTries = 3;

// The lock of this folder, in it still; invalid where another agent holds it, or there is none.
UniqueFd Lock(const std::string& folder, int flags) {
  UniqueFd file(
      open(absl::StrCat(folder, kLock).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  struct stat facts {};
  const bool ours = file.valid() && flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
                    fstat(file.get(), &facts) == 0 && S_ISREG(facts.st_mode) &&
                    facts.st_uid == geteuid() && facts.st_nlink == 1;
  return ours ? std::move(file) : UniqueFd();
}

void RemoveAll(const std::string& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

// D1, D2
void RemoveLeft(const std::string& place) {
  std::error_code error;
  std::filesystem::directory_iterator entry(place, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string path = entry->path().string();
    std::error_code gone;
    if (!absl::StartsWith(entry->path().filename().string(), kPrefix) ||
        !std::filesystem::is_directory(entry->symlink_status(gone))) {
      continue;
    }
    if (const UniqueFd lock = Lock(path, 0); lock.valid()) {  // nobody takes it meanwhile
      RemoveAll(path);
    }
  }
}

}  // namespace

bool RunDir::Make() {
  return !path_.empty() || std::any_of(places_.begin(), places_.end(),
                                       [this](const auto& place) { return MakeAt(place); });
}

bool RunDir::MakeAt(const std::string& place) {
  for (int i = 0; i < kTries; ++i) {
    std::string folder = absl::StrCat(place, "/", kPrefix, "XXXXXX");
    if (mkdtemp(folder.data()) == nullptr || chmod(folder.c_str(), S_IRWXU) != 0) {
      return false;  // the umask may have taken even what its owner may do
    }
    lock_ = Lock(folder, O_CREAT | O_EXCL);
    if (lock_.valid()) {
      path_ = std::move(folder);
      RemoveLeft(place);
      return true;
    }
    RemoveAll(folder);  // of a file system without locks, or that is full
  }
  return false;
}

void RunDir::Remove() {
  if (!path_.empty()) {
    RemoveAll(std::exchange(path_, ""));
    lock_.Reset();
  }
}

}  // namespace muster
