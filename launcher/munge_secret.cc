#include "launcher/munge_secret.h"

#include <dlfcn.h>
#include <munge.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "launcher/find_symbol.h"
#include "proto/base/await_fd.h"
#include "proto/base/clock.h"
#include "proto/base/connect_tcp.h"
#include "proto/base/rng.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr char kLibrary[] = "libmunge.so.2";
constexpr absl::string_view kQuestion = "muster-munge\n";
constexpr absl::string_view kPayload = "muster-secret ";
constexpr size_t kCredentialBytesMax = 4096;
constexpr absl::Duration kTryTime = absl::Seconds(10);  // one connection
constexpr absl::Duration kRetryMin = absl::Milliseconds(20);
constexpr absl::Duration kRetryMax = absl::Seconds(1);

// One try; Unavailable or DeadlineExceeded: it is worth another.
absl::StatusOr<std::string> AskOnce(const MungeQuestion& question, absl::Time deadline) {
  ASSIGN_OR_RETURN(const UniqueFd socket, ConnectTcp(question.host, question.port, deadline));
  if (send(socket.get(), kQuestion.data(), kQuestion.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(kQuestion.size())) {
    return absl::UnavailableError("the connection has ended");
  }
  absl::StatusOr<std::string> line =
      AwaitLine(socket.get(), kCredentialBytesMax, deadline, "a munge credential");
  return absl::IsDeadlineExceeded(line.status()) || line.ok()
             ? std::move(line)
             : absl::NotFoundError("what serves there does not speak munge");
}

}  // namespace

std::string MungePayload(absl::string_view job_id, absl::string_view secret) {
  return absl::StrCat(kPayload, secret, " ", job_id);
}

absl::StatusOr<std::string> SecretOfPayload(absl::string_view payload, absl::string_view job_id) {
  const bool ours = absl::ConsumePrefix(&payload, kPayload);
  const size_t end = payload.find(' ');
  if (!ours || end == 0 || end == absl::string_view::npos) {
    return absl::InvalidArgumentError("the credential has no secret in it");
  }
  if (payload.substr(end + 1) != job_id) {
    return absl::PermissionDeniedError("the credential is of another job");
  }
  return std::string(payload.substr(0, end));
}

struct Munge::Library {
  decltype(&munge_encode) encode;
  decltype(&munge_decode) decode;
  decltype(&munge_strerror) text_of;
  decltype(&munge_ctx_create) create;
  decltype(&munge_ctx_destroy) destroy;
  decltype(&munge_ctx_set) set;
  decltype(&munge_ctx_strerror) text_in;

  std::string Text(munge_ctx_t context, munge_err_t error) const {
    const char* more = context == nullptr ? nullptr : text_in(context);
    return absl::StrCat("munge: ", more != nullptr ? more : text_of(error));
  }
};

absl::StatusOr<Munge> Munge::Load() {
  void* handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // stays loaded
  Library out = {};
  const bool all = handle != nullptr && FindSymbol(handle, "munge_encode", out.encode) &&
                   FindSymbol(handle, "munge_decode", out.decode) &&
                   FindSymbol(handle, "munge_strerror", out.text_of) &&
                   FindSymbol(handle, "munge_ctx_create", out.create) &&
                   FindSymbol(handle, "munge_ctx_destroy", out.destroy) &&
                   FindSymbol(handle, "munge_ctx_set", out.set) &&
                   FindSymbol(handle, "munge_ctx_strerror", out.text_in);
  if (!all) {
    return absl::FailedPreconditionError(absl::StrCat("there is no ", kLibrary));
  }
  return Munge(std::make_shared<const Library>(out));
}

absl::StatusOr<std::string> Munge::Encode(const std::string& payload) const {
  munge_ctx_t context = library_->create();
  if (context == nullptr) {
    return absl::ResourceExhaustedError("munge: no memory");
  }
  const absl::Cleanup destroy = [&] { library_->destroy(context); };
  char* credential = nullptr;
  munge_err_t error = library_->set(context, MUNGE_OPT_UID_RESTRICTION, geteuid());
  if (error == EMUNGE_SUCCESS) {  // whatever munged's own choice is
    error = library_->set(context, MUNGE_OPT_CIPHER_TYPE, static_cast<int>(MUNGE_CIPHER_AES256));
  }
  if (error == EMUNGE_SUCCESS) {
    error = library_->set(context, MUNGE_OPT_MAC_TYPE, static_cast<int>(MUNGE_MAC_SHA256));
  }
  if (error == EMUNGE_SUCCESS) {
    error =
        library_->encode(&credential, context, payload.data(), static_cast<int>(payload.size()));
  }
  if (error != EMUNGE_SUCCESS) {
    return absl::UnavailableError(library_->Text(context, error));
  }
  std::string out = credential;
  std::free(credential);
  return out;
}

absl::StatusOr<std::string> Munge::Decode(const std::string& credential) const {
  void* payload = nullptr;
  int size = 0;
  uid_t user = 0;
  const munge_err_t error =
      library_->decode(credential.c_str(), nullptr, &payload, &size, &user, nullptr);
  const absl::Cleanup release = [&] { std::free(payload); };
  const bool genuine = error == EMUNGE_SUCCESS || error == EMUNGE_CRED_REPLAYED ||
                       error == EMUNGE_CRED_EXPIRED || error == EMUNGE_CRED_REWOUND;
  if (!genuine) {
    return absl::PermissionDeniedError(library_->Text(nullptr, error));
  }
  if (user != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat("munge: the credential is of user ", user, ", not of this one"));
  }
  return payload == nullptr
             ? std::string()
             : std::string(static_cast<const char*>(payload), static_cast<size_t>(size));
}

void AnswerAsked(const UniqueFd& socket, absl::string_view credential) {
  char bytes[kQuestion.size() + 1];
  const ssize_t n = recv(socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
  if (n < 0 || absl::string_view(bytes, static_cast<size_t>(n)) != kQuestion) {
    return;
  }
  const std::string line = absl::StrCat(credential, "\n");
  // The first of its connection: there is room.
  send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

absl::StatusOr<std::string> AskForCredential(const MungeQuestion& question) {
  SplitMix64 jitter(static_cast<uint64_t>(absl::ToUnixNanos(BootNow())));
  const absl::Time began = BootNow();
  bool told = false;
  absl::Duration pause = kRetryMin;
  for (;;) {
    const absl::Time try_until = std::min(BootNow() + kTryTime, question.deadline);
    absl::StatusOr<std::string> answer = AskOnce(question, try_until);
    if (answer.ok() || absl::IsNotFound(answer.status())) {
      return answer;
    }
    const absl::Time next =
        told ? question.deadline : std::min(began + question.patience, question.deadline);
    absl::SleepFor(std::min(pause * (0.5 + jitter.Unit()), next - BootNow()));
    if (!told && BootNow() - began >= question.patience) {
      told = true;
      question.on_silence();
    }
    if (BootNow() >= question.deadline) {  // one more try would have no time for a better reason
      return absl::DeadlineExceededError(
          absl::StrCat(question.host, ":", question.port, ": ", answer.status().message()));
    }
    pause = std::min(pause * 2, kRetryMax);
  }
}

}  // namespace muster
