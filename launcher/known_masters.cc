#include "launcher/known_masters.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr size_t kFingerprintCharsMax = 43;  // base64 of 32 bytes, without '='
constexpr size_t kShownCharsMax = 80;        // of a line that is none of ours

absl::Status BadLine(size_t line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, ": ", what));
}

}  // namespace

bool IsFingerprint(absl::string_view text) {
  return absl::ConsumePrefix(&text, "SHA256:") && text.size() == kFingerprintCharsMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '/';
         });
}

absl::StatusOr<KnownMasters> ParseKnownMasters(absl::string_view text) {
  KnownMasters out;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view said = absl::StripAsciiWhitespace(line);
    if (said.empty() || absl::StartsWith(said, "#")) {
      continue;
    }
    const std::vector<std::string> words =
        absl::StrSplit(said, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() != 2 || !absl::StrContains(words[0], ':') || !IsFingerprint(words[1])) {
      return BadLine(number, absl::StrCat("want 'HOST:PORT SHA256:...', got '",
                                          absl::CHexEscape(said.substr(0, kShownCharsMax)),
                                          "': remove the line, or mend it"));
    }
    const auto [at, is_new] = out.emplace(words[0], KnownMaster{words[1], number});
    if (!is_new) {
      return BadLine(number, absl::StrCat(words[0], " is in line ", at->second.line,
                                          ", too: remove the one that is wrong"));
    }
  }
  return out;
}

absl::StatusOr<MasterJudgement> JudgeMaster(absl::string_view text, const std::string& endpoint,
                                            const std::string& fingerprint) {
  ASSIGN_OR_RETURN(KnownMasters known, ParseKnownMasters(text));
  MasterJudgement out;
  if (const auto at = known.find(endpoint); at != known.end()) {
    out.before = std::move(at->second);
    out.kind =
        out.before.fingerprint == fingerprint ? MasterJudgement::kKnown : MasterJudgement::kChanged;
    return out;
  }
  const bool whole = text.empty() || absl::EndsWith(text, "\n");
  out.text = absl::StrCat(text, whole ? "" : "\n", endpoint, " ", fingerprint, "\n");
  if (known.size() >= kKnownMastersMax || out.text.size() > kKnownMastersBytesMax) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "it is full (", known.size(), " of at most ", kKnownMastersMax, " masters, ", text.size(),
        " of ", kKnownMastersBytesMax, " bytes): remove lines of masters that are no more"));
  }
  return out;
}

std::string ChangedMasterWords(absl::string_view path, absl::string_view endpoint,
                               absl::string_view fingerprint, const KnownMaster& before) {
  const std::string place = before.line == 0
                                ? "this launch has first met it with "
                                : absl::StrCat(path, " line ", before.line, " remembers ");
  const std::string cure = before.line == 0 ? "its line from known_masters" : "that line";
  return absl::StrCat("the daemon at ", endpoint, " has the fingerprint ", fingerprint, ", but ",
                      place, before.fingerprint,
                      ": somebody else may answer there, so nothing is said to it. Ask who runs "
                      "the daemon: if it has a new key, remove ",
                      cure);
}

}  // namespace muster
