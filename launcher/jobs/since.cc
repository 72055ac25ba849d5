#include "launcher/jobs/since.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::string_view kForms =
    "a time back from now (90s, 10m, 1h30m, 2d), a moment (14:30, 2026-11-22, '2026-11-22 "
    "14:30:05', or as 'date -Iseconds' prints it), or start";

// Behind a date: none, or a time of day, with or without seconds and a zone.
constexpr const char* kTimesOfDay[] = {"", "T%H:%M", "T%H:%M:%E*S", "T%H:%M%Ez", "T%H:%M:%E*S%Ez"};

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

bool ParseMoment(absl::string_view text, absl::Time now, absl::TimeZone zone, absl::Time& out) {
  constexpr size_t kDate = 10;  // characters of 2026-11-22
  std::string whole = absl::StrContains(text, '-')
                          ? std::string(text)
                          : absl::StrCat(absl::FormatTime("%Y-%m-%dT", now, zone), text);
  if (whole.size() > kDate && whole[kDate] == ' ') {
    whole[kDate] = 'T';
  }
  for (const char* time_of_day : kTimesOfDay) {
    if (absl::ParseTime(absl::StrCat("%Y-%m-%d", time_of_day), whole, zone, &out, nullptr)) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<absl::Time> ParseSince(const OptionValue& value, absl::Time now,
                                      absl::TimeZone zone) {
  if (value.text == "start") {
    return absl::InfinitePast();
  }
  absl::string_view text = value.text;
  const bool back = absl::ConsumePrefix(&text, "-");
  if (text.empty() || !IsDigit(text.front())) {
    return WantError(value, kForms);
  }
  const bool unit = absl::ascii_islower(static_cast<unsigned char>(text.back()));
  if (unit && !absl::StrContains(text, ':')) {
    const absl::StatusOr<absl::Duration> time = ParseTime({value.name, std::string(text)});
    return time.ok() ? absl::StatusOr<absl::Time>(now - *time) : WantError(value, kForms);
  }
  absl::Time out;
  const bool number = text.find_first_of("-:") == absl::string_view::npos;
  if (back || number || !ParseMoment(text, now, zone, out)) {
    return WantError(value, kForms);
  }
  if (out > now) {
    return absl::InvalidArgumentError(
        absl::StrCat(value.name, ": '", value.text, "' is still to come: now it is ",
                     absl::FormatTime("%Y-%m-%dT%H:%M:%S%Ez", now, zone)));
  }
  return out;
}

}  // namespace muster
