// For a program whose loop others depend on: who logs (proto/base/log.h) never waits for stderr's
// reader, who may stand still. Thread-safe.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace muster {

inline constexpr size_t kLogWaitingMax = 64u << 10;

// From now on what stderr does not take waits here, up to kLogWaitingMax bytes, and goes ahead of
// the next line, or with FlushLog(). What is more is lost, and counted. Nothing changes where
// stderr is a file, or cannot be opened anew.
void SetLogNeverWaits();
// What waits, as far as stderr takes it now.
void FlushLog();
// The same until all is written, however long; lines wait for stderr again.
void SetLogWaits();
// Log's: false where it is to write the line itself.
bool LogAside(absl::string_view line);

}  // namespace muster
