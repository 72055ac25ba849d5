// The list of daemons that a user has met.
#include "launcher/known_masters.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "proto/base/check.h"
#include "tests/fuzz/fuzz_target.h"

namespace muster::fuzz {
namespace {

std::string Print(char c) { return absl::StrCat("SHA256:", std::string(43, c)); }

size_t LinesThatSaySomething(absl::string_view text) {
  size_t count = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view said = absl::StripAsciiWhitespace(line);
    count += said.empty() || absl::StartsWith(said, "#") ? 0 : 1;
  }
  return count;
}

}  // namespace

std::vector<std::string> Seeds() {
  return {absl::StrCat("a:1 ", Print('A'), "\nb:1 ", Print('B'), "\n"),
          absl::StrCat("# note\n\n[::1]:29400\t", Print('+'), " \r\n"),
          "",
          "new:1\n",
          absl::StrCat(Print('A'), " a:1\n"),
          absl::StrCat("new:1 ", Print('A'), "\n"),
          absl::StrCat("new:1 ", Print('N'), "\n")};
}

void Run(absl::string_view bytes) {
  const std::string endpoint = "new:1";
  const auto known = ParseKnownMasters(bytes);
  const auto judged = JudgeMaster(bytes, endpoint, Print('N'));
  if (!known.ok()) {
    CHECK(absl::StartsWith(known.status().message(), "line ") && judged.status() == known.status());
    return;
  }
  CHECK(known->size() == LinesThatSaySomething(bytes));
  CHECK(judged.ok());  // none is as long as the bounds
  const auto at = known->find(endpoint);
  if (at != known->end()) {
    CHECK(judged->before == at->second && judged->text.empty());
    CHECK(judged->kind == (at->second.fingerprint == Print('N') ? MasterJudgement::kKnown
                                                                : MasterJudgement::kChanged));
    CHECK(absl::StrContains(
        ChangedMasterWords("known", endpoint, Print('N'), judged->before),
        absl::StrCat("known line ", at->second.line, " remembers ", at->second.fingerprint)));
    return;
  }
  // What was there is there still, and the daemon is found again.
  CHECK(judged->kind == MasterJudgement::kFirstTime && absl::StartsWith(judged->text, bytes));
  auto after = ParseKnownMasters(judged->text);
  CHECK(after.ok() && after->at(endpoint).fingerprint == Print('N'));
  after->erase(endpoint);
  CHECK(*after == *known);
  CHECK(JudgeMaster(judged->text, endpoint, Print('N'))->kind == MasterJudgement::kKnown);
}

}  // namespace muster::fuzz
