#include "launcher/job_secret.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/wire/dial.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

// "" = not set.
std::string Value(const Environment& environment, const char* name) {
  const auto at = environment.find(name);
  return at == environment.end() ? "" : at->second;
}

absl::StatusOr<JobSecret> SecretByFile(const Environment& environment, const std::string& nonce) {
  const std::string submitted = Value(environment, "PBS_O_WORKDIR");
  const std::string folder =
      access(submitted.c_str(), W_OK | X_OK) == 0 ? submitted : Value(environment, "HOME");
  JobSecret out;
  out.file = absl::StrCat(folder, "/.muster-", nonce.substr(0, 16));
  out.key = absl::StrCat(kFileKey, out.file);
  const absl::StatusOr<std::string> made = LoadOrMakeUserSecret(out.file);
  if (!made.ok()) {
    return absl::Status(
        made.status().code(),
        absl::StrCat("PBS has set no PBS_JOBCOOKIE, so agents need a file that ",
                     "all nodes see: ", made.status().message(), "; --insecure does without"));
  }
  out.secret = *made;
  return out;
}

}  // namespace

absl::StatusOr<JobSecret> MakeJobSecret(const JobSpec& spec, const Environment& environment) {
  if (spec.insecure) {
    return JobSecret{"", std::string(kNoKey), ""};
  }
  if (!spec.given_hosts.has_value() || spec.given_hosts->scheduler != Scheduler::kPbs) {
    ASSIGN_OR_RETURN(std::string secret, MakeSecret());
    return JobSecret{std::move(secret), "", ""};
  }
  ASSIGN_OR_RETURN(const std::string bytes, MakeNonce());
  const std::string nonce = absl::BytesToHexString(bytes);
  const std::string cookie = Value(environment, "PBS_JOBCOOKIE");
  if (cookie.empty()) {
    return SecretByFile(environment, nonce);
  }
  const std::string key = absl::StrCat(kCookieKey, nonce);
  return JobSecret{CookieSecret(cookie, key), key, ""};
}

void RemoveSecretFile(const std::string& file) {
  if (!file.empty()) {
    unlink(file.c_str());
  }
}

}  // namespace muster
