#include "launcher/site_trust.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "agent/io/thread.h"
#include "proto/base/await_fd.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/private_file.h"
#include "proto/base/status_macros.h"
#include "proto/base/text.h"
#include "proto/wire/secret.h"

namespace muster {
namespace {

// Of all nodes that share a home each meets the daemon at the same time; each holds it for some
// milliseconds.
constexpr absl::Duration kLockWithin = absl::Seconds(5);
constexpr std::chrono::milliseconds kLockEvery{20};

// "" where there is no file.
absl::StatusOr<std::string> ReadKnown(const std::string& path) {
  absl::StatusOr<std::string> text = ReadPrivateFile(path, kKnownMastersBytesMax);
  return absl::IsNotFound(text.status()) ? std::string() : text;
}

absl::Status Of(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, " ", status.message()));
}

std::string FirstTime(const std::string& endpoint, const std::string& fingerprint) {
  return absl::StrCat("first time at ", endpoint, ": its fingerprint is ", fingerprint);
}

void NotRemembered(const std::string& endpoint, const std::string& fingerprint,
                   const absl::Status& why) {
  LogWarning(absl::StrCat(FirstTime(endpoint, fingerprint), ", which cannot be remembered: ",
                          why.message(), " (--rdzv-fingerprint takes nobody else)"));
}

void Remember(const std::string& path, const std::string& endpoint,
              const std::string& fingerprint) {
  const absl::StatusOr<std::string> told = RememberMaster(path, endpoint, fingerprint, kLockWithin);
  if (!told.ok()) {
    NotRemembered(endpoint, fingerprint, told.status());
  } else if (!told->empty()) {
    LogInfo(*told);
  }
}

}  // namespace

SiteTrust::SiteTrust(std::string pinned, std::string said)
    : pinned_(std::move(pinned)), said_(std::move(said)) {
  if (!pinned_.empty()) {
    return;
  }
  absl::StatusOr<std::string> path = UserConfigPath("known_masters");
  if (!path.ok()) {
    writable_ = path.status();
    return;
  }
  path_ = *std::move(path);
  const absl::StatusOr<std::string> text = ReadKnown(path_);
  if (!text.ok()) {
    usable_ = text.status();
    return;
  }
  absl::StatusOr<KnownMasters> known = ParseKnownMasters(*text);
  if (known.ok()) {
    known_ = *std::move(known);
  } else {
    usable_ = Of(path_, known.status());
  }
}

SiteTrust::~SiteTrust() {
  const absl::Time deadline = BootNow() + kLockWithin;
  for (const UniqueFd& write : writes_) {
    // Later, the file stays as it is: the daemon is met for the first time again.
    (void)AwaitFd(write.get(), POLLIN, deadline, "");
  }
}

SiteKeys SiteTrust::keys() {
  return {[this](const std::string& endpoint) -> std::optional<std::string> {
            if (!pinned_.empty()) {
              return pinned_;
            }
            if (!usable_.ok()) {
              return std::nullopt;
            }
            const auto at = known_.find(endpoint);
            return at == known_.end() ? "" : at->second.fingerprint;
          },
          [this](const std::string& endpoint, const std::string& fingerprint) {
            Met(endpoint, fingerprint);
          },
          [this](const std::string& endpoint, const std::string& fingerprint) {
            return WhyRefused(endpoint, fingerprint);
          }};
}

void SiteTrust::Met(const std::string& endpoint, const std::string& fingerprint) {
  known_[endpoint] = {fingerprint, 0};
  if (!writable_.ok()) {
    return NotRemembered(endpoint, fingerprint, writable_);
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return NotRemembered(
        endpoint, fingerprint,
        absl::ResourceExhaustedError(absl::StrCat("cannot make a pipe: ", std::strerror(errno))));
  }
  UniqueFd written(ends[0]);
  // Shared with the thread, whose body has to be copyable: closed when the thread has ended, which
  // may be after this object.
  const auto writing = std::make_shared<UniqueFd>(ends[1]);
  absl::StatusOr<Thread> thread =
      Thread::Start("known masters", [writing, path = path_, endpoint, fingerprint] {
        Remember(path, endpoint, fingerprint);
        writing->Reset();
      });
  if (!thread.ok()) {
    return NotRemembered(endpoint, fingerprint, thread.status());
  }
  thread->Detach();
  writes_.push_back(std::move(written));
}

std::string SiteTrust::WhyRefused(const std::string& endpoint,
                                  const std::string& fingerprint) const {
  if (!pinned_.empty()) {
    return absl::StrCat("the daemon at ", endpoint, " has the fingerprint ", fingerprint, ", but ",
                        said_,
                        " was given: somebody else may answer there, so nothing is said to it. "
                        "Ask who runs the daemon which one is right");
  }
  if (!usable_.ok()) {
    return absl::StrCat("the daemon at ", endpoint, " has the fingerprint ", fingerprint,
                        ", and whether that is right cannot be known: ", usable_.message());
  }
  const auto at = known_.find(endpoint);
  return ChangedMasterWords(path_, endpoint, fingerprint,
                            at == known_.end() ? KnownMaster() : at->second);
}

absl::StatusOr<std::string> RememberMaster(const std::string& path, const std::string& endpoint,
                                           const std::string& fingerprint,
                                           absl::Duration lock_within) {
  RETURN_IF_ERROR(MakePrivateFolders(path));
  // Home folders are often links into one that is kept under version control.
  ASSIGN_OR_RETURN(const std::string file, BehindOwnLinks(path));
  // Beside the file, which is replaced, and with it a lock on it.
  const std::string lock_path = absl::StrCat(file, ".lock");
  const UniqueFd lock(
      open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!lock.valid()) {
    return absl::InternalError(absl::StrCat("open ", lock_path, ": ", std::strerror(errno)));
  }
  const absl::Time deadline = BootNow() + lock_within;
  for (;;) {
    const bool locked = flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
    if (!locked && errno != EWOULDBLOCK && errno != EINTR) {
      return absl::InternalError(absl::StrCat("lock ", lock_path, ": ", std::strerror(errno)));
    }
    ASSIGN_OR_RETURN(const std::string text, ReadKnown(file));
    const absl::StatusOr<MasterJudgement> judged = JudgeMaster(text, endpoint, fingerprint);
    if (!judged.ok()) {
      return Of(path, judged.status());
    }
    if (judged->kind == MasterJudgement::kChanged) {  // since it was read
      return absl::FailedPreconditionError(
          ChangedMasterWords(path, endpoint, fingerprint, judged->before));
    }
    if (judged->kind == MasterJudgement::kKnown) {  // by another launch, just now
      return std::string();
    }
    if (locked) {
      RETURN_IF_ERROR(ReplacePrivateFile(file, judged->text));
      return absl::StrCat(FirstTime(endpoint, fingerprint), ", remembered in ", path);
    }
    if (BootNow() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          lock_path, " is held by another launch for more than ", ShortDuration(lock_within)));
    }
    std::this_thread::sleep_for(kLockEvery);
  }
}

}  // namespace muster
