#include "rendezvous/users.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
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

absl::StatusOr<std::vector<KnownUser>> ReadUsers(const std::string& folder) {
  std::error_code error;
  std::map<std::string, std::string> secrets;  // by name
  std::map<std::string, std::string> owners;   // by secret
  for (auto at = std::filesystem::directory_iterator(folder, error);
       !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename();
    const std::string path = at->path();
    if (name.front() == '.') {
      continue;
    }
    if (!IsName(name)) {
      return Bad(path, absl::StrCat("want a user's name: letters, digits and ._-, at most ",
                                    kNameCharsMax));
    }
    const absl::StatusOr<std::string> secret = LoadSecret(path);
    if (!secret.ok()) {
      return Bad(path, secret.status().message());
    }
    if (const auto [owner, is_new] = owners.emplace(*secret, name); !is_new) {
      return Bad(path, absl::StrCat("the same secret as ", owner->second,
                                    "'s: each would be taken for the other"));
    }
    secrets.emplace(name, *secret);
    if (secrets.size() > kUsersMax) {
      return Bad(folder, absl::StrCat("want at most ", kUsersMax, " users"));
    }
  }
  if (error) {
    return Bad(folder, error.message());
  }
  std::vector<KnownUser> out;
  out.reserve(secrets.size());
  for (const auto& [name, secret] : secrets) {
    out.push_back({name, secret});
  }
  return out;
}

}  // namespace muster
