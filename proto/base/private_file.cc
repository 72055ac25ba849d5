#include "proto/base/private_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/base/unique_fd.h"

namespace muster {
namespace {

constexpr int kLinksMax = 8;  // in a row; a circle has no end

std::string Errno(absl::string_view what, const std::string& path) {
  return absl::StrCat(what, " ", path, ": ", std::strerror(errno));
}

absl::Status WriteAll(int fd, const std::string& path, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) {
      return absl::InternalError(Errno("write", path));
    }
    bytes.remove_prefix(n > 0 ? static_cast<size_t>(n) : 0);
  }
  if (fsync(fd) != 0) {
    return absl::InternalError(Errno("fsync", path));
  }
  return absl::OkStatus();
}

std::string ModeText(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof(text), "%04o", mode & 07777);
  return text;
}

// Of a file that we may not open: of itself, or of the innermost folder on the way there that we
// see.
std::string WhoseIs(const std::string& path) {
  std::string at = path;
  struct stat info {};
  while (stat(at.c_str(), &info) != 0) {
    const size_t slash = at.rfind('/');
    if (slash == std::string::npos || at == "/") {
      return absl::StrCat("we are user id ", geteuid());
    }
    at = slash == 0 ? "/" : at.substr(0, slash);
  }
  return absl::StrCat(at, " (mode ", ModeText(info.st_mode), ") belongs to user id ", info.st_uid,
                      ", we are ", geteuid());
}

// What to do about it where a pod has mounted it: no chmod changes such a file.
std::string OrElse(const std::string& next) {
  return std::getenv("KUBERNETES_SERVICE_HOST") == nullptr
             ? next
             : ": in the pod's secret volume give defaultMode: 0400 where its user is root, else "
               "defaultMode: 0440 and fsGroup of its user's group (securityContext)";
}

absl::Status CheckOwner(const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a regular file"));
  }
  // A secret that root has mounted for our group (a pod's): not ours to change, nor others' to
  // read.
  if (info.st_uid == 0 && geteuid() != 0 && (info.st_mode & 037) == 0) {
    return absl::OkStatus();
  }
  if (info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " (mode ", ModeText(info.st_mode), ") belongs to user id ", info.st_uid,
                     ", we are ", geteuid(), OrElse(": remove it")));
  }
  if ((info.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " may be read or changed by others (mode ", ModeText(info.st_mode), ", of user id ",
        info.st_uid, ")", OrElse(absl::StrCat(": chmod 600 ", ShellQuote(path)))));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, size_t bytes_max) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    const int error = errno;
    const std::string text = Errno("open", path);
    return error == ENOENT
               ? absl::NotFoundError(text)
               : absl::FailedPreconditionError(
                     error == EACCES ? absl::StrCat(text, ": ", WhoseIs(path), OrElse("")) : text);
  }
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) {
    return absl::InternalError(Errno("stat", path));
  }
  RETURN_IF_ERROR(CheckOwner(path, info));
  std::string text(bytes_max + 1, '\0');
  size_t have = 0;
  while (have < text.size()) {
    const ssize_t n = read(fd.get(), text.data() + have, text.size() - have);
    if (n < 0 && errno != EINTR) {
      return absl::InternalError(Errno("read", path));
    }
    if (n == 0) {
      break;
    }
    have += n > 0 ? static_cast<size_t>(n) : 0;
  }
  if (have > bytes_max) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " has more than ", bytes_max, " bytes: it is another file"));
  }
  text.resize(have);
  return text;
}

absl::Status MakePrivateFolders(const std::string& file) {
  for (size_t slash = file.find('/', 1); slash != std::string::npos;
       slash = file.find('/', slash + 1)) {
    const std::string folder = file.substr(0, slash);
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return absl::InternalError(Errno("mkdir", folder));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> BehindOwnLinks(const std::string& path) {
  std::string at = path;
  for (int i = 0; i < kLinksMax; ++i) {
    struct stat info {};
    if (lstat(at.c_str(), &info) != 0 && errno != ENOENT) {
      return absl::FailedPreconditionError(Errno("lstat", at));
    }
    if (!S_ISLNK(info.st_mode)) {
      return at;
    }
    if (info.st_uid != geteuid() && info.st_uid != 0) {
      return absl::FailedPreconditionError(absl::StrCat(at, " is a link of user id ", info.st_uid,
                                                        ", we are ", geteuid(), ": remove it"));
    }
    char target[PATH_MAX];
    const ssize_t size = readlink(at.c_str(), target, sizeof(target));
    if (size <= 0 || static_cast<size_t>(size) == sizeof(target)) {
      return absl::FailedPreconditionError(Errno("readlink", at));
    }
    const absl::string_view to(target, static_cast<size_t>(size));
    at = to[0] == '/' ? std::string(to) : absl::StrCat(at.substr(0, at.rfind('/') + 1), to);
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path, " leads through more than ", kLinksMax, " links"));
}

absl::StatusOr<std::string> WritePrivateTemp(const std::string& path, absl::string_view bytes) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
    return absl::InternalError(absl::StrCat("getrandom: ", std::strerror(errno)));
  }
  const std::string temp =
      absl::StrCat(path, ".", getpid(), ".", absl::Hex(number, absl::kZeroPad16));
  const UniqueFd fd(open(temp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return absl::InternalError(Errno("create", temp));
  }
  absl::Status status = WriteAll(fd.get(), temp, bytes);
  if (!status.ok()) {
    unlink(temp.c_str());
    return status;
  }
  return temp;
}

absl::Status ReplacePrivateFile(const std::string& path, absl::string_view bytes) {
  ASSIGN_OR_RETURN(const std::string temp, WritePrivateTemp(path, bytes));
  if (rename(temp.c_str(), path.c_str()) != 0) {
    absl::Status status = absl::InternalError(Errno("rename to", path));
    unlink(temp.c_str());
    return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> LinkUnlessTaken(const std::string& temp, const std::string& path) {
  if (link(temp.c_str(), path.c_str()) == 0) {
    return true;
  }
  const int error = errno;
  // NFS may report an error although the link was made: its answer was lost, and asked for again.
  struct stat info {};
  if (stat(temp.c_str(), &info) == 0 && info.st_nlink == 2) {
    return true;
  }
  if (error == EEXIST) {
    return false;
  }
  errno = error;
  const std::string text = Errno("link", path);
  return error == EPERM || error == EOPNOTSUPP || error == ENOSYS
             ? absl::FailedPreconditionError(absl::StrCat(
                   text, ": a file system without hard links? Name a folder on another"))
             : absl::InternalError(text);
}

}  // namespace muster
