#include "agent/io/shipped_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr size_t kPieceBytes = 256u << 10;
constexpr char kTemplate[] = "/muster-ship-XXXXXX";

absl::Status CallFailed(const std::string& path, int error) {
  const absl::string_view hint =
      error == ENOSPC || error == EDQUOT || error == EROFS
          ? "; name a folder with room for the shipped files: -x TMPDIR=FOLDER"
          : "";
  return absl::ResourceExhaustedError(absl::StrCat(path, ": ", std::strerror(error), hint));
}

absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) {
      return CallFailed(path, errno);
    }
    bytes.remove_prefix(n > 0 ? static_cast<size_t>(n) : 0);
  }
  return absl::OkStatus();
}

absl::Status UnpackFile(const ShipEntry& entry, const std::string& path, const ShipRead& read,
                        const std::function<void()>& working) {
  const UniqueFd file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) {
    return CallFailed(path, errno);
  }
  std::string piece(std::min<uint64_t>(entry.size, kPieceBytes), '\0');
  for (uint64_t left = entry.size; left > 0; left -= piece.size()) {
    piece.resize(std::min<uint64_t>(left, piece.size()));
    RETURN_IF_ERROR(read(piece.data(), piece.size()));
    RETURN_IF_ERROR(WriteAll(file.get(), piece, path));
    working();
  }
  const timespec times[2] = {TimeOfShip(entry.modified_ns), TimeOfShip(entry.modified_ns)};
  if (fchmod(file.get(), entry.mode | S_IRUSR) != 0) {
    return CallFailed(path, errno);
  }
  (void)futimens(file.get(), times);  // one that the file system cannot hold is of no matter
  return absl::OkStatus();
}

absl::Status UnpackEntry(const ShipEntry& entry, const std::string& path, const ShipRead& read,
                         const std::function<void()>& working) {
  if (entry.kind == ShipKind::kFile) {
    return UnpackFile(entry, path, read, working);
  }
  const int made = entry.kind == ShipKind::kLink ? symlink(entry.target.c_str(), path.c_str())
                                                 : mkdir(path.c_str(), entry.mode | S_IRWXU);
  return made == 0 ? absl::OkStatus() : CallFailed(path, errno);
}

void RemoveUnchanged(const ShipEntry& entry, const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    return;
  }
  const bool same_file = S_ISREG(info.st_mode) &&
                         static_cast<uint64_t>(info.st_size) == entry.size &&
                         ShipTime(info.st_mtim) == entry.modified_ns;
  if (entry.kind == ShipKind::kLink ? S_ISLNK(info.st_mode) : same_file) {
    unlink(path.c_str());
  }
}

// With what Python keeps there of its own accord.
void RemoveFolder(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(absl::StrCat(path, "/__pycache__"), ignored);
  rmdir(path.c_str());  // fails where something is left
}

}  // namespace

std::string ShipRoot(const WorkPlan& plan) {
  std::string root;
  for (const std::string& variable : plan.env_set) {
    absl::string_view value = variable;
    if (absl::ConsumePrefix(&value, "TMPDIR=")) {
      root = std::string(value);
    }
  }
  const char* own = std::getenv("TMPDIR");
  if (root.empty() && own != nullptr) {
    root = own;
  }
  return root.empty() ? "/tmp" : root;
}

absl::StatusOr<UniqueFd> MakeArchiveFile(const std::string& root) {
  std::string name = absl::StrCat(root, kTemplate);
  UniqueFd file(mkostemp(name.data(), O_CLOEXEC));
  if (!file.valid()) {
    return CallFailed(root, errno);
  }
  unlink(name.c_str());
  return file;
}

absl::StatusOr<ShippedFolder> ShippedFolder::Unpack(int archive, const std::string& root,
                                                    const std::function<void()>& working) {
  std::string name = absl::StrCat(root, kTemplate);
  if (mkdtemp(name.data()) == nullptr || chmod(name.c_str(), S_IRWXU) != 0) {
    return CallFailed(root, errno);  // the umask may have taken even what its owner may do
  }
  ShippedFolder folder(std::move(name));
  absl::Cleanup remove = [&folder] {
    std::error_code ignored;
    std::filesystem::remove_all(folder.path_, ignored);
  };
  uint64_t at = 0;
  const ShipRead read = [archive, &at](char* data, size_t size) -> absl::Status {
    while (size > 0) {
      const ssize_t n = pread(archive, data, size, static_cast<off_t>(at));
      if (n == 0 || (n < 0 && errno != EINTR)) {
        return absl::DataLossError(
            absl::StrCat("the archive: ", n == 0 ? "it ends too early" : std::strerror(errno)));
      }
      const size_t got = n > 0 ? static_cast<size_t>(n) : 0;
      data += got;
      size -= got;
      at += got;
    }
    return absl::OkStatus();
  };
  while (true) {
    ASSIGN_OR_RETURN(ShipEntry entry, ReadShipHead(read));
    if (entry.kind == ShipKind::kEnd) {
      break;
    }
    RETURN_IF_ERROR(UnpackEntry(entry, absl::StrCat(folder.path_, "/", entry.path), read, working));
    folder.entries_.push_back(std::move(entry));
    working();
  }
  std::move(remove).Cancel();
  return folder;
}

bool ShippedFolder::Remove(absl::Time until) const {
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {  // folders last
    if (until != absl::InfiniteFuture() && BootNow() >= until) {
      return false;
    }
    const std::string path = absl::StrCat(path_, "/", entry->path);
    if (entry->kind == ShipKind::kFolder) {
      RemoveFolder(path);
    } else {
      RemoveUnchanged(*entry, path);
    }
  }
  RemoveFolder(path_);
  return access(path_.c_str(), F_OK) == 0;
}

}  // namespace muster
