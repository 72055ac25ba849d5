// A job from the records of its journal, for the master that takes it over. Pure.
//
// In order, with times in the clock of that master: Replay for each record of the newest round, its
// own first; then Resurrect, once. After that the job goes on as the master before had left it: no
// directive is made, no rank is given away, before the members of the round have come back, or
// their leases have ended.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rendezvous/core/types.h"

namespace muster {

// What a clock that shows `now` shows more than that of the last record's writer, which has stood
// still since it was written for as long as the wall clocks of both say. Nothing where they cannot
// be believed: the wall was set back, or is out by more than a year.
absl::Duration ShiftTo(absl::Time now, absl::Time wall_now, const JournalRecord& last);

// What the record says by a clock that shows `shift` more than that of its writer.
JournalRecord Shifted(JournalRecord record, absl::Duration shift);

// InvalidArgument: the record cannot follow those before it; says why.
absl::Status Replay(const RoundConfig& config, RoundState& state, const JournalRecord& record);

// `now` is the time at which this master begins: its members have a whole lease from now, and a
// pause is over.
void Resurrect(const RoundConfig& config, RoundState& state, absl::Time now);

}  // namespace muster
