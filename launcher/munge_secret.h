// Slurm's munge, where it is there: how the tasks of a step (`srun launch`) that share no home
// directory come to have one secret. A task asks the one that serves, at its master's port:
//
//   task -> serving task   muster-munge        where TLS or HTTP/2 would begin; newline behind it
//   answer                 CREDENTIAL          the same
//
// Anybody may ask: munged decodes the credential for its user alone, on hosts with its key, and
// says who has made it; what is in it names the job. That it was decoded before, or is old, does
// not matter: it says the same to the same ones. libmunge is loaded when it is needed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/base/unique_fd.h"

namespace muster {

// What is in a credential. InvalidArgument: it is not one of ours; PermissionDenied: another job's.
std::string MungePayload(absl::string_view job_id, absl::string_view secret);
absl::StatusOr<std::string> SecretOfPayload(absl::string_view payload, absl::string_view job_id);

class Munge {
 public:
  // FailedPrecondition: no libmunge on this machine.
  static absl::StatusOr<Munge> Load();

  // For this user. Unavailable, with munge's words: no munged answers here. Blocks for some
  // milliseconds; where munged stands still, for 10 s.
  absl::StatusOr<std::string> Encode(const std::string& payload) const;
  // PermissionDenied: munged refuses it, or another user has made it. Blocks likewise.
  absl::StatusOr<std::string> Decode(const std::string& credential) const;

 private:
  struct Library;
  explicit Munge(std::shared_ptr<const Library> library) : library_(std::move(library)) {}
  std::shared_ptr<const Library> library_;
};

// The serving side: `socket`, which can be read from, has begun with neither TLS nor HTTP/2. What
// is not the question is not answered.
void AnswerAsked(const UniqueFd& socket, absl::string_view credential);

// The other side: the answer of whoever serves there, asked again and again until `deadline` of
// BootNow(); `on_silence` is called once, when nobody has for `patience`. NotFound: it does not
// answer this question; DeadlineExceeded: nobody was there.
struct MungeQuestion {
  std::string host;
  std::string port;
  absl::Time deadline;
  absl::Duration patience;
  std::function<void()> on_silence;
};
absl::StatusOr<std::string> AskForCredential(const MungeQuestion& question);

}  // namespace muster
