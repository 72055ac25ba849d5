// The user's own secret on disk.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/base/private_file.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
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

absl::Status Prefixed(const absl::Status& status) {
  const bool another = absl::IsFailedPrecondition(status);
  return absl::Status(status.code(), absl::StrCat("secret: ", status.message(),
                                                  another ? " (--secret-file names another)" : ""));
}

// Puts a new secret at `path` unless there is one: a complete file gets its name in one step, so
// that nobody ever reads half of it.
absl::Status Make(const std::string& path) {
  RETURN_IF_ERROR(MakeFolders(path));
  ASSIGN_OR_RETURN(const std::string secret, MakeSecret());
  const absl::StatusOr<std::string> temp = WritePrivateTemp(path, secret + "\n");
  if (!temp.ok()) {
    return Prefixed(temp.status());
  }
  absl::Status status = LinkUnlessTaken(*temp, path).status();
  if (absl::IsFailedPrecondition(status)) {  // no links there: the last one wins
    status = rename(temp->c_str(), path.c_str()) == 0
                 ? absl::OkStatus()
                 : absl::InternalError(Errno("rename to", path));
  } else if (!status.ok()) {
    status = Prefixed(status);
  }
  unlink(temp->c_str());
  return status;
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
  const absl::StatusOr<std::string> text = ReadPrivateFile(path, kSecretCharsMax);
  if (!text.ok()) {
    return Prefixed(text.status());
  }
  const std::string secret(absl::StripAsciiWhitespace(*text));
  if (secret.size() < kSecretCharsMin) {
    return absl::FailedPreconditionError(absl::StrCat(
        "secret: ", path, ": want ", kSecretCharsMin, "..", kSecretCharsMax, " characters, got ",
        text->size(), ": rm ", ShellQuote(path), " makes a new one"));
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
