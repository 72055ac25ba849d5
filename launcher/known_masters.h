// Which daemons of sites a user has met, and by which keys: the text of
// ~/.config/muster/known_masters. Pure; thread-safe.
//
// A line is "HOST:PORT FINGERPRINT", as the endpoint was typed; lines that are blank or begin with
// '#' say nothing, and stay. Invariants (cited by tests):
//  K1 what is remembered is never replaced, and a line that was there stays as it was;
//  K2 where a line cannot be understood, nothing of the file is believed.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Of one user; what lies beyond is a file that somebody else fills.
inline constexpr size_t kKnownMastersMax = 1024;
inline constexpr size_t kKnownMastersBytesMax = 512u << 10;  // of the file, notes and all

// As TlsIdentity::fingerprint() writes it: "SHA256:" and 43 characters of base64.
bool IsFingerprint(absl::string_view text);

struct KnownMaster {
  std::string fingerprint;
  size_t line = 0;  // from 1; 0 = it is not in the file
  bool operator==(const KnownMaster&) const = default;
};
using KnownMasters = std::map<std::string, KnownMaster>;  // by "HOST:PORT"

// InvalidArgument: names the line, what is wanted, and how to mend it (K2).
absl::StatusOr<KnownMasters> ParseKnownMasters(absl::string_view text);

struct MasterJudgement {
  enum Kind { kFirstTime, kKnown, kChanged } kind = kFirstTime;
  KnownMaster before;  // kKnown, kChanged
  std::string text;    // kFirstTime: the file's from now on
};
// Of the daemon at `endpoint` ("HOST:PORT"), which has shown `fingerprint`. Errors: as above;
// ResourceExhausted (kKnownMastersMax).
absl::StatusOr<MasterJudgement> JudgeMaster(absl::string_view text, const std::string& endpoint,
                                            const std::string& fingerprint);

// What the user reads where that is kChanged, and what to do. `path`: of the file.
std::string ChangedMasterWords(absl::string_view path, absl::string_view endpoint,
                               absl::string_view fingerprint, const KnownMaster& before);

}  // namespace muster
