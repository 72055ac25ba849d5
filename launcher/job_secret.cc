#include "launcher/job_secret.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/wire/dial.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<JobSecret> SecretByFile(const std::string& nonce) {
  const std::string submitted = Variable("PBS_O_WORKDIR");
  const std::string folder =
      access(submitted.c_str(), W_OK | X_OK) == 0 ? submitted : Variable("HOME");
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

absl::StatusOr<JobSecret> MakeJobSecret(const JobSpec& spec) {
  if (spec.insecure) {
    return JobSecret{"", std::string(kNoKey), ""};
  }
  if (!spec.given_hosts.has_value() || spec.given_hosts->scheduler != Scheduler::kPbs) {
    ASSIGN_OR_RETURN(std::string secret, MakeSecret());
    return JobSecret{std::move(secret), "", ""};
  }
  ASSIGN_OR_RETURN(const std::string bytes, MakeNonce());
  const std::string nonce = absl::BytesToHexString(bytes);
  const std::string cookie = Variable("PBS_JOBCOOKIE");
  if (cookie.empty()) {
    return SecretByFile(nonce);
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
