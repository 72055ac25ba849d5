// The files of a job's secret and of the seed of a site's key.
#include "proto/wire/secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/unique_fd.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

constexpr size_t kCharsMin = 16;
constexpr size_t kCharsMax = 1024;

const std::string& Folder() {
  static const std::string folder = [] {
    std::string name = "/dev/shm/secret_XXXXXX";
    CHECK(mkdtemp(name.data()) != nullptr);
    static std::string left_behind = name;
    CHECK(std::atexit([] { rmdir(left_behind.c_str()); }) == 0);
    return name;
  }();
  return folder;
}

void Write(const std::string& path, absl::string_view bytes, mode_t mode) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  CHECK(write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  CHECK(fchmod(file.get(), mode) == 0);
}

// Where no file is, one is made; where none can be, that is said.
void MakeOne() {
  CHECK(setenv("HOME", Folder().c_str(), 1) == 0 && unsetenv("XDG_CONFIG_HOME") == 0);
  const auto path = UserSecretPath();
  CHECK(path.ok() && *path == absl::StrCat(Folder(), "/.config/muster/secret"));
  const auto made = LoadOrMakeUserSecret(*path);
  CHECK(made.ok() && made->size() == 2 * kSecretBytes);
  CHECK(*LoadSecret(*path) == *made && *LoadOrMakeUserSecret(*path) == *made);
  CHECK(!LoadOrMakeUserSecret(absl::StrCat(*path, "/below/a/file")).ok());
  CHECK(!LoadOrMakeUserSecret("/proc/muster/secret").ok());
  CHECK(unlink(path->c_str()) == 0);
  CHECK(rmdir(absl::StrCat(Folder(), "/.config/muster").c_str()) == 0);
  CHECK(rmdir(absl::StrCat(Folder(), "/.config").c_str()) == 0);
  CHECK(setenv("XDG_CONFIG_HOME", "/config", 1) == 0);
  CHECK(*UserSecretPath() == "/config/muster/secret");
  CHECK(unsetenv("XDG_CONFIG_HOME") == 0 && unsetenv("HOME") == 0 && !UserSecretPath().ok());
}

}  // namespace

std::vector<std::string> Seeds() {
  const std::string secret(64, 'a');
  return {absl::StrCat("s", secret, "\n"),
          absl::StrCat("s", secret),
          absl::StrCat("o", secret, "\n"),
          absl::StrCat("s", secret.substr(0, 16)),
          absl::StrCat("s ", secret, " \n\n"),
          "sshort\n",
          "s",
          absl::StrCat("s", std::string(1024, 'b')),
          absl::StrCat("s", std::string(1025, 'c')),
          "m"};
}

void Run(absl::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
  if (bytes == "m") {
    return MakeOne();
  }
  const bool open_to_others = bytes[0] == 'o';
  const absl::string_view text = bytes.substr(1);
  const std::string path = absl::StrCat(Folder(), "/file");
  Write(path, text, open_to_others ? 0644 : 0600);
  const absl::string_view bare = absl::StripAsciiWhitespace(text);
  const bool good = !open_to_others && text.size() <= kCharsMax && bare.size() >= kCharsMin;
  const auto secret = LoadSecret(path);
  CHECK(secret.ok() == good && (!good || *secret == bare));
  if (!good) {  // what holds none is never replaced
    CHECK(absl::IsFailedPrecondition(secret.status()));
    CHECK(!LoadOrMakeUserSecret(path).ok());
  }
  const bool digits = std::all_of(bare.begin(), bare.end(), [](char c) {
    return absl::ascii_isxdigit(static_cast<unsigned char>(c));
  });
  const auto seed = LoadOrMakeSiteSeed(path);
  CHECK(seed.ok() == (good && digits && bare.size() == 2 * kSecretBytes));
  CHECK(!seed.ok() || seed->size() == kSecretBytes);
  CHECK(unlink(path.c_str()) == 0);
}

}  // namespace muster::fuzz
