// The value of --since of `launch logs` and `attach`. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "launcher/option_values.h"

namespace muster {

// "10m", "90s", "1h30m", "2d" back from `now` (also "-10m", as journalctl has it); a moment in
// `zone` as "14:30" (today), "2026-11-22", "2026-11-22 14:30:05" or with a zone of its own, as
// `date -Iseconds` prints it; "start", which is InfinitePast. Errors: InvalidArgument, also where
// that is still to come.
absl::StatusOr<absl::Time> ParseSince(const OptionValue& value, absl::Time now,
                                      absl::TimeZone zone);

}  // namespace muster
