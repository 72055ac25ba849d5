// The user's own secret on disk.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/base/unique_fd.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

constexpr size_t kSecretCharsMin = 16;    // shorter is guessed
constexpr size_t kSecretCharsMax = 1024;  // longer is another file

std::string Errno(absl::string_view what, const std::string& path) {
  return absl::StrCat("secret: ", what, " ", path, ": ", std::strerror(errno));
}

// All folders of the path that are missing, for their owner only.
absl::Status MakeFolders(const std::string& file) {
  for (size_t slash = file.find('/', 1); slash != std::string::npos;
       slash = file.find('/', slash + 1)) {
    const std::string folder = file.substr(0, slash);
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return absl::InternalError(Errno("mkdir", folder));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, const std::string& path, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno != EINTR) {
      return absl::InternalError(Errno("write", path));
    }
    bytes.remove_prefix(n > 0 ? static_cast<size_t>(n) : 0);
  }
  return absl::OkStatus();
}

// Puts a new secret at `path` unless there is one: a complete file gets its name in one step, so
// that nobody ever reads half of it.
absl::Status Make(const std::string& path) {
  RETURN_IF_ERROR(MakeFolders(path));
  ASSIGN_OR_RETURN(const std::string secret, MakeSecret());
  ASSIGN_OR_RETURN(const std::string nonce, MakeNonce());
  const std::string temp =
      absl::StrCat(path, ".", getpid(), ".", absl::BytesToHexString(nonce.substr(0, 8)));
  UniqueFd fd(open(temp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    return absl::InternalError(Errno("create", temp));
  }
  absl::Status status = WriteAll(fd.get(), temp, secret + "\n");
  if (status.ok() && fsync(fd.get()) != 0) {
    status = absl::InternalError(Errno("fsync", temp));
  }
  if (status.ok() && link(temp.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    // A file system without hard links; NFS may report an error although the link was made, and
    // then this is rename(2) of two names of one file, which does nothing.
    if (rename(temp.c_str(), path.c_str()) != 0) {
      status = absl::InternalError(Errno("rename to", path));
    }
  }
  unlink(temp.c_str());
  return status;
}

absl::Status CheckOwner(const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("secret: ", path, " is not a regular file: name another with --secret-file"));
  }
  if (info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(
        absl::StrCat("secret: ", path, " belongs to user id ", info.st_uid, ", we are ", geteuid(),
                     ": remove it, or name your own with --secret-file"));
  }
  if ((info.st_mode & 077) != 0) {
    char mode[8];
    std::snprintf(mode, sizeof(mode), "%04o", info.st_mode & 07777);
    return absl::FailedPreconditionError(absl::StrCat("secret: ", path,
                                                      " may be read or changed by others (mode ",
                                                      mode, "): chmod 600 ", ShellQuote(path)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> UserSecretPath() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && config[0] == '/') {
    return absl::StrCat(config, "/muster/secret");
  }
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') {
    return absl::StrCat(home, "/.config/muster/secret");
  }
  return absl::FailedPreconditionError(
      "secret: neither HOME nor XDG_CONFIG_HOME says where ~/.config is: set HOME, or give "
      "--secret-file or --insecure");
}

absl::StatusOr<std::string> LoadSecret(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    const std::string text = Errno("open", path);
    return errno == ENOENT ? absl::NotFoundError(text) : absl::FailedPreconditionError(text);
  }
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) {
    return absl::InternalError(Errno("stat", path));
  }
  RETURN_IF_ERROR(CheckOwner(path, info));
  std::string text(kSecretCharsMax + 1, '\0');
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
  text.resize(have);
  const std::string secret(absl::StripAsciiWhitespace(text));
  if (secret.size() < kSecretCharsMin || text.size() > kSecretCharsMax) {
    return absl::FailedPreconditionError(
        absl::StrCat("secret: ", path, ": want ", kSecretCharsMin, "..", kSecretCharsMax,
                     " characters, got ", have, ": rm ", ShellQuote(path), " makes a new one"));
  }
  return secret;
}

absl::StatusOr<std::string> LoadOrMakeUserSecret(const std::string& path) {
  absl::StatusOr<std::string> secret = LoadSecret(path);
  if (!absl::IsNotFound(secret.status())) {
    return secret;
  }
  RETURN_IF_ERROR(Make(path));
  return LoadSecret(path);
}

}  // namespace muster
