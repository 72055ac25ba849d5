// What nobody else may know, on disk: the user's own secret, and the seed of a site's TLS key.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/private_file.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

constexpr size_t kSecretCharsMin = 16;    // shorter is guessed
constexpr size_t kSecretCharsMax = 1024;  // longer is another file

// What the file is, as errors name it, and what they say besides where it cannot be used.
struct Kind {
  absl::string_view name;
  absl::string_view instead;
};
constexpr Kind kUserSecret{
    "secret",
    " (without --secret-file it is below $HOME: is that yours? --secret-file names another)"};
constexpr Kind kSiteSeed{"--tls-key", ""};

absl::Status Prefixed(const Kind& kind, const absl::Status& status) {
  const bool another = absl::IsFailedPrecondition(status);
  return absl::Status(status.code(),
                      absl::StrCat(kind.name, ": ", status.message(), another ? kind.instead : ""));
}

// Puts a new secret at `path` unless there is one: a complete file gets its name in one step, so
// that nobody ever reads half of it.
absl::Status Make(const Kind& kind, const std::string& path) {
  if (const absl::Status folders = MakePrivateFolders(path); !folders.ok()) {
    return Prefixed(kind, folders);
  }
  ASSIGN_OR_RETURN(const std::string secret, MakeSecret());
  const absl::StatusOr<std::string> temp = WritePrivateTemp(path, secret + "\n");
  if (!temp.ok()) {
    return Prefixed(kind, temp.status());
  }
  absl::Status status = LinkUnlessTaken(*temp, path).status();
  if (absl::IsFailedPrecondition(status)) {  // no links there: the last one wins
    status = rename(temp->c_str(), path.c_str()) == 0
                 ? absl::OkStatus()
                 : absl::InternalError(
                       absl::StrCat(kind.name, ": rename to ", path, ": ", std::strerror(errno)));
  } else if (!status.ok()) {
    status = Prefixed(kind, status);
  }
  unlink(temp->c_str());
  return status;
}

// Without the spaces and newlines around it.
absl::StatusOr<std::string> Load(const Kind& kind, const std::string& path) {
  const absl::StatusOr<std::string> text = ReadPrivateFile(path, kSecretCharsMax);
  return text.ok() ? absl::StatusOr<std::string>(std::string(absl::StripAsciiWhitespace(*text)))
                   : Prefixed(kind, text.status());
}

absl::StatusOr<std::string> LoadOrMake(const Kind& kind, const std::string& path) {
  absl::StatusOr<std::string> secret = Load(kind, path);
  if (!absl::IsNotFound(secret.status())) {
    return secret;
  }
  RETURN_IF_ERROR(Make(kind, path));
  return Load(kind, path);
}

// `is_made`: where there is none.
absl::StatusOr<std::string> LongEnough(absl::StatusOr<std::string> secret, const std::string& path,
                                       bool is_made) {
  if (secret.ok() && secret->size() < kSecretCharsMin) {
    return absl::FailedPreconditionError(absl::StrCat(
        "secret: ", path, ": want ", kSecretCharsMin, "..", kSecretCharsMax, " characters, got ",
        secret->size(),
        is_made ? absl::StrCat(": rm ", ShellQuote(path), " makes a new one")
                : std::string(": copy there the secret that the other side has (a user's own is in "
                              "~/.config/muster/secret), or make one with openssl rand -hex 32")));
  }
  return secret;
}

}  // namespace

absl::StatusOr<std::string> UserConfigPath(absl::string_view name) {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && config[0] == '/') {
    return absl::StrCat(config, "/muster/", name);
  }
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') {
    return absl::StrCat(home, "/.config/muster/", name);
  }
  return absl::FailedPreconditionError(
      "neither HOME nor XDG_CONFIG_HOME says where ~/.config is: set HOME");
}

absl::StatusOr<std::string> UserSecretPath() {
  absl::StatusOr<std::string> path = UserConfigPath("secret");
  return path.ok() ? path
                   : absl::FailedPreconditionError(absl::StrCat("secret: ", path.status().message(),
                                                                ", or ", kNoUserSecretAdvice));
}

absl::StatusOr<std::string> LoadSecret(const std::string& path) {
  return LongEnough(Load(kUserSecret, path), path, false);
}

absl::StatusOr<std::string> LoadOrMakeUserSecret(const std::string& path) {
  return LongEnough(LoadOrMake(kUserSecret, path), path, true);
}

absl::StatusOr<std::string> LoadOrMakeSiteSeed(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string digits, LoadOrMake(kSiteSeed, path));
  const bool hex = std::all_of(digits.begin(), digits.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c));
  });
  if (digits.size() != 2 * kSecretBytes || !hex) {
    return absl::FailedPreconditionError(absl::StrCat(
        kSiteSeed.name, ": ", path, ": want ", 2 * kSecretBytes, " hex digits, got ", digits.size(),
        hex ? " of them" : " characters", ": copy the key of before there, or rm ",
        ShellQuote(path), ", and a new one is made, whose fingerprint users have to be told"));
  }
  return absl::HexStringToBytes(digits);
}

}  // namespace muster
