#include "launcher/mpi_options.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "launcher/option_setters.h"
#include "launcher/option_values.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

// As if it had been said with -x, which is how the line for another node says it.
absl::Status Forward(const OptionValue& v, const std::string& text, JobSpec& s) {
  RETURN_IF_ERROR(AddForward({v.name, text}, s));
  s.given.insert({OptionId::kSetEnv, Given{false, std::string(v.name), text}});
  return absl::OkStatus();
}

}  // namespace

absl::Status AddForwardPair(const OptionValue& v, JobSpec& s) {
  if (v.text.empty() || absl::StrContains(v.text, '=')) {
    return WantError(v, "a name, and its value as the next word");
  }
  return Forward(v, absl::StrCat(v.text, "=", v.second), s);
}

absl::Status AddForwardList(const OptionValue& v, JobSpec& s) {
  for (const absl::string_view name : absl::StrSplit(v.text, ',')) {
    if (name.empty() || absl::StrContains(name, '=')) {
      return WantError(v, "names with commas between them");
    }
    RETURN_IF_ERROR(Forward(v, std::string(name), s));
  }
  return absl::OkStatus();
}

}  // namespace muster
