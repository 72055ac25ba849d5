#include "launcher/schedule/said_by.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "launcher/schedule/hostlist.h"

namespace muster {

std::string SaidBy(absl::string_view who, absl::string_view line) {
  const bool ours = absl::ConsumePrefix(&line, "muster: ");
  const absl::string_view named = line.substr(0, line.find(": "));
  return ours && IsSameHost(named, who) ? absl::StrCat(who, line.substr(named.size()))
                                        : absl::StrCat(who, ": ", line);
}

}  // namespace muster
