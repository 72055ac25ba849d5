#include "launcher/jobs/drill_words.h"

#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "launcher/option_values.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

absl::Status Wrong(const std::vector<std::string>& words) {
  return absl::InvalidArgumentError(absl::StrCat(
      "launch chaos: what is '", absl::StrJoin(words, " "),
      "'? Want kill rank R, kill NODE, kill master, freeze NODE, cut NODE or slow NODE "
      "TIME"));
}

}  // namespace

absl::StatusOr<DrillSpec> ParseDrill(const std::vector<std::string>& words, absl::Duration length) {
  if (words.size() < 2) {
    return Wrong(words);
  }
  const std::string& verb = words[0];
  DrillSpec out;
  out.target = words[1];
  out.length = length;
  if (verb == "kill" && words[1] == "rank" && words.size() == 3) {
    uint32_t rank = 0;
    if (!absl::SimpleAtoi(words[2], &rank)) {
      return WantError({"kill rank", words[2]}, "a rank");
    }
    out.target = words[2];
    return out;
  }
  if (verb == "slow" && words.size() == 3) {
    out.kind = DrillKind::kSlow;
    ASSIGN_OR_RETURN(out.delay, ParseTime({"slow", words[2]}));
    if (out.delay <= absl::ZeroDuration() || out.delay > kDrillLengthMax) {
      return WantError({"slow", words[2]}, kDrillTimes);
    }
    return out;
  }
  if (words.size() != 2 || (verb != "kill" && verb != "freeze" && verb != "cut")) {
    return Wrong(words);
  }
  out.master = verb == "kill" && out.target == "master";
  out.kind = verb == "kill"     ? DrillKind::kKillNode
             : verb == "freeze" ? DrillKind::kFreeze
                                : DrillKind::kCut;
  return out;
}

}  // namespace muster
