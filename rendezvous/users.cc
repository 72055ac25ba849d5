#include "rendezvous/users.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

constexpr size_t kNameCharsMax = 64;
constexpr size_t kUsersMax = 4096;  // each hello is held against all of them

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= kNameCharsMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
                  c == '-';
         });
}

absl::Status Bad(const std::string& path, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("users: ", path, ": ", why));
}

}  // namespace

absl::StatusOr<Users> ReadUsers(const std::string& folder) {
  Users out;
  std::error_code error;
  std::map<std::string, std::vector<std::string>> names;  // by secret
  for (auto at = std::filesystem::directory_iterator(folder, error);
       !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename();
    const std::string path = at->path();
    if (name.front() == '.') {
      continue;
    }
    if (!IsName(name)) {
      out.left_out.push_back(absl::StrCat(
          path, ": want a user's name: letters, digits and ._-, at most ", kNameCharsMax));
      continue;
    }
    if (const absl::StatusOr<std::string> secret = LoadSecret(path); secret.ok()) {
      names[*secret].push_back(name);
    } else {
      out.left_out.push_back(absl::StrCat(path, ": ", secret.status().message()));
    }
  }
  if (error) {
    return Bad(folder, error.message());
  }
  for (auto& [secret, of] : names) {
    std::sort(of.begin(), of.end());
    if (of.size() == 1) {
      out.known.push_back({of.front(), secret});
      continue;
    }
    for (const std::string& name : of) {
      out.left_out.push_back(absl::StrCat(folder, "/", name, ": ", absl::StrJoin(of, ", "),
                                          " have one secret: each would be taken for the other"));
    }
  }
  if (out.known.size() > kUsersMax) {
    return Bad(folder, absl::StrCat("want at most ", kUsersMax, " users"));
  }
  std::sort(out.known.begin(), out.known.end(),
            [](const KnownUser& a, const KnownUser& b) { return a.name < b.name; });
  std::sort(out.left_out.begin(), out.left_out.end());
  return out;
}

}  // namespace muster
